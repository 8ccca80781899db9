"""Trains a model from a config and scores it.

Validates every train.evaluate_every steps, stores the latest and the best checkpoint, and at the
end scores the best on dev and test. The same command resumes an interrupted run. Every field of the
config can be set: --config.model.head_window=1; --help --config FILE lists them.

For a distributed run, start the command on all machines: under SLURM, Open MPI, Kubernetes or Cloud
TPU, or with --coordinator, --num_processes and --process_id (docs/meshes.md).

example:
  python -m launch.train --config configs/csan/quickstart.py
  python -m launch.train --config configs/csan/wmt14_ende.py:big --describe
"""

import argparse
import json
import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from launch.arguments import Parser, add_config, add_output, positive
from launch.cli import command_line, configure_logging, run, spelled
from launch.compiled import keep_compiled
from launch.train.child import continue_in_child
from launch.train.schedulers import DistributedArgs

if TYPE_CHECKING:
    from launch.api.configs import Config
    from launch.api.runs import Run


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.train", description=__doc__)
    add_config(parser, "set a field: --config.train.steps=100")
    add = parser.add_argument
    add("--workdir", metavar="RUN", help="folder of the run (runs/<family>/<config>)")
    add("--describe", action="store_true", help="print the table of parameters and exit")
    text = "print the config as a command line with all of its fields, and exit"
    add("--print_config", action="store_true", help=text)
    text = "threads that prepare the corpus (the number of cores)"
    add("--workers", type=positive, metavar="N", help=text)
    add("--prepare", action="store_true", help="prepare the corpus and exit")
    text = "resume with the learning rate schedule of the config, not the recorded one"
    add("--new_schedule", action="store_true", help=text)
    text = "trace these steps, as 100:102, into the run's folder; SIGUSR1 traces the next three"
    add("--profile", type=_steps, metavar="FIRST:LAST", help=text)
    add_output(parser, "the run's result")
    DistributedArgs.add_flags(parser)
    args, overrides = parser.parse_known_args(argv)

    # one of several processes goes on in a child, before any library has threads
    processes = DistributedArgs.of(args)
    if processes != DistributedArgs():
        continue_in_child()

    # what needs no training
    if args.workdir == "":
        parser.error("--workdir: name a folder")
    from launch.api.configs import config

    configure_logging(args.quiet)
    chosen = config(args.config, overrides)
    if args.print_config or args.describe or args.prepare:
        _without_training(chosen, args)
        return

    from launch.train.rendezvous import join

    join(processes)
    from common_jax.training.malloc import keep_freed_memory
    from common_jax.training.multihost import is_first
    from launch.api.runs import train

    keep_freed_memory()
    keep_compiled()
    run = train(
        chosen,
        workdir=args.workdir,
        workers=args.workers,
        new_schedule=args.new_schedule,
        command=command_line("train", argv),
        profile=args.profile,
    )
    if not is_first():
        return

    # the result, and what can be done with it
    if args.json:
        print(json.dumps(run.result, ensure_ascii=False))
        return
    if not run.scored:
        reason = f"train.steps above {run.result['steps']} continue it"
        if run.result.get("stopped_early"):
            reason = "it ended by train.patience"
        print(f"{run.path} is finished; {reason}")
    _print_scores(run)
    if run.scored:
        print("\n".join(["", *run.scored[run.task.splits[-1]].examples, ""]))
        print("next:", *(spelled(line, uv=True) for line in _next_commands(run)), sep="\n  ")


def _without_training(chosen: "Config", args: argparse.Namespace) -> None:
    """Prints a config or its parameters, or prepares its corpus, with the fields that its files
    decide."""
    from common_jax.training.config import default_workdir
    from common_jax.training.run_folder import RunFolder

    folder = RunFolder(args.workdir or default_workdir(args.config))
    chosen = chosen.with_inferred([folder])
    if args.print_config:
        from launch.config_fields import as_overrides

        fields = map(shlex.quote, as_overrides(chosen.values))
        print(" \\\n".join([f"--config {shlex.quote(args.config)}", *fields]))
    elif args.describe:
        print(chosen.describe())
    else:
        chosen.make_task().prepare(args.workers)


def _steps(text: str) -> tuple[int, int]:
    """Argument type: the first and the last of some steps."""
    if (match := re.fullmatch(r"(\d{1,9}):(\d{1,9})", text)) is None:
        raise argparse.ArgumentTypeError(f"must be FIRST:LAST, as 100:102, not {text!r}")
    return int(match[1]), int(match[2])


def _next_commands(run: "Run") -> list[str]:
    """Suggested commands after training."""
    workdir = str(run.path)
    predict = f"python -m launch.predict --workdir {workdir}"
    commands = []
    for line in run.task.example_lines(run.task.splits[-1]):  # echo may read its backslashes
        commands.append(f"printf '%s\\n' {shlex.quote(line)} | {predict}")
    if flags := run.task.example_flags:
        commands.append(f"{predict} {flags}")
    commands.append(f"python -m launch.evaluate --workdir {workdir}")
    if run.task.service:
        out = f"exports/{run.path.name}"
        commands.append(f"python -m launch.export --workdir {workdir} --out {out}")
    return commands


def _print_scores(run: "Run") -> None:
    """A line of metrics for each split, with some notes of its score; the tables of the last one;
    and steps not applied."""
    from common_jax.training.scored_run import not_finite
    from launch.score_tables import score_tables

    stored: Mapping[str, Any] = {}

    for split, metrics in run.metrics.items():
        stored = run.folder.scores(split).value if run.folder.is_scored(split) else {}
        notes = {name: stored.get(name) for name in run.task.printed_notes}
        numbers = metrics | {name: note for name, note in notes.items() if note is not None}
        print(f"{split}: " + "  ".join(f"{name} {value:.2f}" for name, value in numbers.items()))
    if text := score_tables(stored):
        print(f"\n{text}")
    if text := not_finite(run.lines):
        print(f"{text}, which changed nothing")


if __name__ == "__main__":
    run(main)
