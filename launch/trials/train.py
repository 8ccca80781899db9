"""Trains trials on this machine or on a Ray cluster, and reports their progress."""

import argparse
import contextlib
import dataclasses
import itertools
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from common_jax.errors import Interrupted, UserError
from common_jax.io.paths import AnyPath
from launch.cli import Parser, natural, positive

if TYPE_CHECKING:
    from launch.trials.status import TrialStatus
    from launch.trials.trials import Trial


_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Executor:
    """Where trials run.

    Attributes:
      name: "local", this machine, or "ray", a Ray cluster.
      jobs: concurrent trials; None is one, on Ray as many as its resources allow.
      cpus, gpus: of a trial on Ray; `gpus` None is one GPU if there are any.
      asha: on Ray: the step from which on worse trials are stopped early.
    """

    name: str = "local"
    jobs: int | None = None
    cpus: int = 1
    gpus: int | None = None
    asha: int | None = None

    def __post_init__(self):
        if self.name not in ("local", "ray"):
            raise UserError(f"--executor {self.name}: local or ray")
        if self.name == "ray":
            return
        given = {"--asha": self.asha, "--cpus": self.cpus != 1, "--gpus": self.gpus is not None}
        for option, is_given in given.items():
            if is_given:
                raise UserError(f"{option}: goes with --executor ray")

    @classmethod
    def of(cls, args: argparse.Namespace) -> Self:
        """From the arguments of `add_executor`."""
        asha = getattr(args, "asha", None)
        return cls(args.executor, args.jobs, args.cpus, args.gpus, asha)


def add_executor(parser: Parser) -> None:
    """Adds `--jobs`, `--executor`, `--cpus` and `--gpus`."""
    add = parser.add_argument
    text = "concurrent trials (1; on Ray as many as its resources allow)"
    add("--jobs", type=positive, metavar="N", help=text)
    text = "this machine, or a Ray cluster (local)"
    add("--executor", choices=("local", "ray"), default="local", help=text)
    add("--cpus", type=positive, default=1, metavar="N", help="CPUs of a trial on Ray (1)")
    add("--gpus", type=natural, metavar="N", help="GPUs of a trial on Ray (1 if there are any)")


def train(trials: Sequence["Trial"], results: AnyPath, executor: Executor, folder: AnyPath) -> None:
    """Writes the list of the trials, trains the unfinished ones, and updates `results` after each.

    Args:
      folder: of all of them.

    Raises:
      UserError: for an `asha` beyond the trials' steps.
      Interrupted: upon a request to stop.
    """
    from common_jax.training.preemption import PreemptionHandler
    from launch.trials.local_executor import run_here
    from launch.trials.status import find, write_list, write_results

    most = max(trial.config.train.steps for trial in trials)
    if executor.asha and executor.asha > most:
        raise UserError(f"--asha {executor.asha}: no trial has more than {most} steps")
    write_list(trials)
    final = ("finished", "stopped") if executor.asha else ("finished",)
    remaining = [trial for trial in trials if find(trial).state not in final]
    log(f"{len(trials)} trials, {len(trials) - len(remaining)} of them finished")
    numbers = itertools.count(1)

    def done(trial: "Trial") -> None:
        log(f"[{next(numbers)}/{len(remaining)}] {trial.name}: {summary(find(trial))}")
        write_results(results, trials, [*map(find, trials)])

    try:
        if executor.name == "ray" and remaining:
            from launch.trials.ray_executor import run_on_ray

            names = ("jobs", "cpus", "gpus", "asha")
            limits = {name: getattr(executor, name) for name in names}
            run_on_ray(remaining, folder, done, **limits)
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
