"""`launch.bench predict`: exports against the run that they were made of."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common_jax.errors import UserError
from launch.timing import Row, medians, positive

PREDICT = """Start-up of `launch.predict`, from the shell to the answer of one line, in a process of
its own: the first time, and again, when what was compiled is kept; and answers a second to all
lines of a file, once all their shapes are compiled. A run and its exports take turns, the table
shows medians, and ratios are to the run.

example:
  python -m launch.bench predict --workdir runs/csan/quickstart --model exports/translator \\
    --input sentences.txt"""


def add_predict(commands) -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = commands.add_parser(
        "predict", help="a run's answers against its exports'", description=PREDICT
    )
    parser.set_defaults(measure=measure_predict)
    parser.add_argument("--workdir", required=True, metavar="RUN", help="folder of the run")
    parser.add_argument(
        "--model", required=True, action="append", metavar="DIR", help="an export; may be repeated"
    )
    parser.add_argument(
        "--input", required=True, type=Path, metavar="FILE", help="lines for launch.predict"
    )
    parser.add_argument("--rounds", type=positive, default=5, metavar="N", help="rounds (5)")
    return parser


def measure_predict(args: argparse.Namespace) -> list[Row]:
    """A row for the run and for each export.

    Raises:
      UserError: a folder or a file that will not do.
    """
    from common_jax.deploy import load
    from common_jax.export.format import Export
    from common_jax.io.files import read_lines

    lines = list(read_lines(args.input))
    if not lines:
        raise UserError(f"{args.input}: has no line")
    if len({args.workdir, *args.model}) != 1 + len(args.model):
        raise UserError("--model: each folder once, and not the run's")
    flags = {args.workdir: "--workdir", **dict.fromkeys(args.model, "--model")}
    formats = {model: Export(model).manifest.format for model in args.model}
    predictors = {path: load(path) for path in flags}
    started = _starts(flags, lines[0], args.rounds)
    answer = lambda predictor: lambda: list(predictor.predict(lines, str(args.input)))
    seconds = medians({path: answer(p) for path, p in predictors.items()}, args.rounds)
    rate = {path: len(lines) / taken for path, taken in seconds.items()}
    return [
        {
            "model": path,
            "format": formats.get(path, "run"),
            "first_start_seconds": started[path][0],
            "first_to_run": started[path][0] / started[args.workdir][0],
            "start_seconds": started[path][1],
            "start_to_run": started[path][1] / started[args.workdir][1],
            "inputs_per_second": rate[path],
            "inputs_to_run": rate[path] / rate[args.workdir],
        }
        for path in flags
    ]


def _starts(flags: Mapping[str, str], line: str, rounds: int) -> dict[str, tuple[float, float]]:
    """Median seconds from the shell to an answer: the first time, and the second, when what was
    compiled is kept."""
    samples: dict[str, list[list[float]]] = {path: [] for path in flags}
    for _ in range(rounds):
        for path, flag in flags.items():
            with tempfile.TemporaryDirectory() as cache:
                samples[path].append([_start(flag, path, line, cache) for _ in range(2)])
    median = statistics.median
    return {
        path: (median(s[0] for s in pairs), median(s[1] for s in pairs))
        for path, pairs in samples.items()
    }


def _start(flag: str, path: str, line: str, cache: str) -> float:
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": cache}
    command: list[Any] = [sys.executable, "-m", "launch.predict", flag, path]
    began = time.perf_counter()
    done = subprocess.run(
        command, input=f"{line}\n", capture_output=True, text=True, env=environment
    )
    seconds = time.perf_counter() - began
    if done.returncode:
        raise UserError(done.stderr.strip().removeprefix("error: "))
    return seconds
