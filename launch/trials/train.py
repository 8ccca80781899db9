"""Trains trials on this machine or on a Ray cluster, and reports their progress."""

import contextlib
import itertools
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from common_jax.errors import Interrupted, UserError, error_context
from common_jax.io.paths import AnyPath
from launch.trials.executor import Executor

if TYPE_CHECKING:
    from launch.trials.status import TrialStatus
    from launch.trials.trials import Trial


_log = logging.getLogger(__name__)


def train(trials: Sequence["Trial"], results: AnyPath, executor: Executor, folder: AnyPath) -> None:
    """Writes the list of the trials, trains the unfinished ones, and updates `results` after each.

    Args:
      folder: of all of them.

    Raises:
      UserError: for an `asha` beyond the trials' steps, or corpora that have changed since some
        trials ended.
      Interrupted: upon a request to stop.
    """
    from common_jax.training.preemption import PreemptionHandler
    from launch.trials.corpora import require_same_corpora
    from launch.trials.local_executor import run_here
    from launch.trials.status import find, write_list, write_results

    # The trials that have not ended.
    most = max(trial.config.train.steps for trial in trials)
    if executor.asha and executor.asha > most:
        raise UserError(f"--asha {executor.asha}: no trial has more than {most} steps")
    with error_context("--out"):
        require_same_corpora(trials)
    write_list(trials)
    final = ("finished", "stopped") if executor.asha else ("finished",)
    remaining = [trial for trial in trials if find(trial).state not in final]
    log(f"{len(trials)} trials, {len(trials) - len(remaining)} of them finished")

    # Train them.
    numbers = itertools.count(1)

    def done(trial: "Trial") -> None:
        log(f"[{next(numbers)}/{len(remaining)}] {trial.name}: {summary(find(trial))}")
        write_results(results, trials)

    try:
        if executor.name == "ray" and remaining:
            from launch.trials.ray_executor import run_on_ray

            run_on_ray(remaining, folder, executor, done)
        else:
            running = contextlib.closing(run_here(remaining, executor.jobs or 1))
            with PreemptionHandler() as requests, requests.interruptible(), running as ended:
                for trial in ended:
                    done(trial)
    except Interrupted as request:
        raise Interrupted(request.signal, "the same command resumes from there") from request


def summary(status: "TrialStatus") -> str:
    """The status in one line."""
    if status.state == "failed":
        return f"failed at step {status.step}: {status.error}"
    if status.state != "finished":
        return f"{status.state}, step {status.step}" if status.step else status.state
    metrics = "  ".join(f"{name} {value:.2f}" for name, value in status.metrics.items())
    return f"finished in {status.seconds:.0f} s  {metrics}"


def log(text: str) -> None:
    _log.info(text)
