"""What all processes of a run check and prepare before it begins."""

import functools
import json
from typing import Any

from common_jax.errors import UserError
from common_jax.fields import flat, to_mapping
from common_jax.io.storage import folder_of
from common_jax.training.multihost import broadcast_from_first, gather_from_all
from common_jax.training.task import Task
from common_jax.versions import versions


def require_metric(task: Task) -> None:
    """Raises UserError if the task does not have the metric that selects the best checkpoint."""
    metric = task.config.train.best_metric
    if metric not in task.metric_names:
        names = " | ".join(task.metric_names)
        raise UserError(f"train.best_metric={metric!r}: must be {names}")


def require_learning(config: Any, step: int) -> str | None:
    """Requires that the learning rate of a new run is above 0 before its last step.

    Args:
      step: the last one taken; 0 for a new run.

    Returns:
      What to say of a resumed run whose rate is 0 from some step on.

    Raises:
      UserError: for a new run whose rate would be.
    """
    last = config.optimizer.last_step
    steps = config.train.steps
    if last is None or last >= steps:
        return None
    if step:
        return (
            f"the learning rate is 0 from step {last} on, where the run's schedule ends; "
            "--new_schedule trains on that of the config, for all train.steps"
        )
    raise UserError(
        f"train.steps={steps}: the learning rate is 0 from step {last} on, the end of the "
        "cooldown; set optimizer.cooldown, which follows train.steps, or later "
        "optimizer.cooldown_start and cooldown_steps"
    )


def prepare_on_all(task: Task, workers: int | None = None) -> None:
    """Prepares the corpus in all processes."""
    prepare = functools.partial(task.prepare, *[] if workers is None else [workers])
    folder_of(task.config.data.cache_dir).fill(
        first=lambda: broadcast_from_first(prepare), every=lambda: gather_from_all(prepare)
    )


def require_same_config(config: Any) -> None:
    """Checks that all processes have the same config and versions."""
    version_fields = {f"the version of {name}": version for name, version in versions().items()}
    local = json.loads(json.dumps({**flat(to_mapping(config)), **version_fields}))  # as it is sent
    first = broadcast_from_first(lambda: local)

    def check() -> None:
        if differing := [name for name in local if local[name] != first.get(name)]:
            raise UserError(f"differs from the first process in {', '.join(differing)}")

    gather_from_all(check)
