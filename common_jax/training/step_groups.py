"""Groups of batches that one dispatch takes."""

from collections.abc import Iterable, Iterator

from common_jax.config import TrainConfig
from common_jax.data.batches import Batch
from common_jax.training.checkpoint import Position


def group_steps(
    stream: Iterable[tuple[Position, Batch]], step: int, config: TrainConfig
) -> Iterator[tuple[Position, list[Batch]]]:
    """Groups batches for dispatches of `train.steps_per_call` steps, or one.

    The batches of a group have one shape, and only the last may be followed by a log line, a
    validation, a save or the end. Groups depend on the step numbers and shapes alone, so that a
    resumed run has the same.

    Args:
      stream: ((epoch, batch) of the next batch, this batch).
      step: steps already taken.
    """
    intervals = (config.log_every, config.evaluate_every, config.checkpoint_every, config.steps)
    group: list[tuple[Position, Batch]] = []
    complete = step % config.steps_per_call == 0
    for number, item in enumerate(stream, start=step + 1):
        group.append(item)
        if number % config.steps_per_call:
            complete = complete and not any(number % every == 0 for every in intervals)
            continue
        shapes = {tuple((k, v.shape) for k, v in batch.items()) for _, batch in group}
        if complete and len(shapes) == 1:
            yield group[-1][0], [batch for _, batch in group]
        else:
            yield from ((following, [batch]) for following, batch in group)
        group = []
        complete = True
