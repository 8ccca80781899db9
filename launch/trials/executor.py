"""Where trials run, and its options of the command line."""

import argparse
import dataclasses
from typing import Self

from common_jax.errors import UserError
from launch.arguments import Parser, natural, positive


@dataclasses.dataclass(frozen=True)
class Executor:
    """Where trials run.

    Attributes:
      name: "local", this machine, or "ray", a Ray cluster.
      jobs: concurrent trials; None is one, on Ray as many as its resources allow.
      cpus, gpus: of a trial on Ray; `gpus` None is one GPU if there are any.
      asha: on Ray: early stopping (Li et al. 2020) by `train.best_metric` on dev: the best quarter
        of the trials that reach this step continues, and again at four times the step, and so on.
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
