"""What survives an interruption: parameters, optimizer, step and data position, saved as one.

Orbax keeps the folder: the latest checkpoint and the best by a dev metric, each written beside the
others and renamed into place, so that a killed save leaves nothing that restore would take.
"""

import dataclasses
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from common_jax.errors import UserError
from common_jax.training.state import TrainState

Position = tuple[int, int]  # epoch, and batch within it: those that come next

# Metrics of which less is better.
FALLING = ("loss", "nll")


@dataclasses.dataclass(frozen=True)
class Restored:
    """A checkpoint read back."""

    step: int
    state: TrainState
    position: Position


class Checkpoints:
    """The `checkpoints` folder of a run."""

    def __init__(self, folder: Path, best_metric: str):
        policies = ocp.checkpoint_managers.preservation_policy
        by_metric = lambda metrics: metrics[best_metric]
        falling = best_metric in FALLING
        best = policies.BestN(
            get_metric_fn=by_metric, reverse=falling, n=1, keep_checkpoints_without_metrics=False
        )
        self._manager = ocp.CheckpointManager(
            folder.absolute(),
            options=ocp.CheckpointManagerOptions(
                best_fn=by_metric,  # without it Orbax writes no metrics
                best_mode="min" if falling else "max",
                preservation_policy=policies.AnyPreservationPolicy([policies.LatestN(1), best]),
                enable_background_delete=False,
            ),
        )

    @property
    def latest(self) -> int | None:
        """The newest step saved."""
        return self._manager.latest_step()

    @property
    def best(self) -> int | None:
        """The best step by the dev metric; the newest if none was validated."""
        best = self._manager.best_step()
        return self.latest if best is None else best

    def save(
        self, state: TrainState, step: int, position: Position, metrics: dict[str, float] | None
    ) -> None:
        """Starts saving; `metrics` are those of the dev split, if it was just scored."""
        saved = self._manager.save(
            step,
            args=ocp.args.Composite(
                state=ocp.args.StandardSave(state),  # type: ignore[call-arg]
                position=ocp.args.JsonSave({"epoch": position[0], "batch": position[1]}),  # type: ignore[call-arg]
            ),
            metrics=metrics,
        )
        if not saved:  # Orbax declines an existing or older step without a word
            raise RuntimeError(f"checkpoint of step {step} was not saved")

    def restore(self, step: int, abstract: TrainState) -> Restored:
        """Reads a step onto the shapes, types and shardings of `abstract`.

        Raises:
          UserError: if the checkpoint is of another model.
        """
        try:
            found = self._manager.restore(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.StandardRestore(abstract),  # type: ignore[call-arg]
                    position=ocp.args.JsonRestore(),
                ),
            )
        except (ValueError, KeyError) as error:
            folder = self._manager.directory / str(step)
            raise UserError(f"{folder}: not a checkpoint of this model: {error}") from error
        position = found["position"]
        return Restored(step, found["state"], (position["epoch"], position["batch"]))

    def wait(self) -> None:
        """Returns when everything is on disk."""
        self._manager.wait_until_finished()

    def close(self) -> None:
        """Finishes saving and lets go of the folder."""
        self._manager.close()


def abstract_of(tree: Any) -> Any:
    """Shapes, types and shardings of a tree, to restore onto."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding), tree)
