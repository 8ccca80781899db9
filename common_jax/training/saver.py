"""Orbax's checkpoint manager with the settings of a run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orbax.checkpoint as ocp

from common_jax.io.paths import AnyPath
from common_jax.training.best import best_step, comparable_score


class Saver(ocp.CheckpointManager):
    """Keeps the newest steps and the best.

    Does not ask JAX's preemption service, which Orbax does in another thread for a past step; the
    training loop does (`common_jax.training.preemption.PreemptionHandler`).
    """

    def __init__(
        self,
        folder: AnyPath,
        metric: str,
        keep: int,
        deleted: str,
        before_completion: Callable[[], None],
    ):
        """
        Args:
          metric: ranks the steps (`common_jax.training.best`).
          keep: number of the newest steps.
          deleted: the subfolder for steps that are being deleted.
          before_completion: called before a step is complete.
        """
        _list_by_prefix()
        _lock_by_files()

        def score(metrics: Mapping[str, Any]) -> float:
            return comparable_score(metrics, metric)

        newest = ocp.checkpoint_managers.preservation_policy.LatestN(keep)
        policy = ocp.checkpoint_managers.preservation_policy.AnyPreservationPolicy(
            [newest, _KeepBest(metric)]
        )
        options = ocp.CheckpointManagerOptions(
            best_fn=score,  # without it Orbax writes no metrics
            preservation_policy=policy,
            enable_background_delete=False,
            todelete_subdir=deleted,
            async_options=ocp.AsyncOptions(
                post_finalization_callback=before_completion,
                create_directories_asynchronously=False,  # a failure there would hang
            ),
        )
        super().__init__(folder.absolute(), options=options)

    def reached_preemption(self, step: int) -> bool:
        """Never, for Orbax."""
        return False


class _KeepBest:
    """Orbax's policy that keeps the best step, by a metric's name; Orbax's own keeps the newest of
    equal ones."""

    def __init__(self, metric: str):
        self._metric = metric

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> Sequence[bool]:
        """Whether to keep each checkpoint, which has `step` and `metrics`."""
        best = best_step(((saved.step, saved.metrics) for saved in checkpoints), self._metric)
        return [saved.step == best for saved in checkpoints]


def _list_by_prefix() -> None:
    """Makes Orbax (0.12) list by prefix, which is right in any bucket, without asking another
    client, google-cloud-storage, with credentials of its own, whether the bucket has folders."""
    from orbax.checkpoint._src.path import gcs_utils

    gcs_utils.is_hierarchical_namespace_enabled = lambda path: False


def _lock_by_files() -> None:
    """Makes TensorStore lock files by lock files, since some network disks have no file locks."""
    from orbax.checkpoint._src.serialization import tensorstore_utils

    for context in (
        tensorstore_utils._BASE_TS_CONTEXT,
        tensorstore_utils._DEFAULT_OCDBT_TS_CONTEXT,
    ):
        context["file_io_locking"] = {"mode": "lockfile"}
