"""`launch.bench predict`: start-up time and throughput of a run and its exports."""

import argparse
import functools
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from common_jax.errors import UserError
from common_jax.io.paths import disk_path
from launch.arguments import positive
from launch.cli import module_command
from launch.measure.timing import medians
from launch.text_table import Row

if TYPE_CHECKING:
    from common_jax.deploy.predictor import Predictor

PREDICT = """Start-up time of `launch.predict` in a new process, until the prediction for one line,
with an empty and with a filled compilation cache; and predictions a second for all lines of a file,
after all shapes are compiled. A run and its exports are timed in turn; the table shows medians, and
ratios to the run.

example:
  python -m launch.bench predict --workdir runs/csan/quickstart --model exports/translator \\
    --input sentences.txt"""


def add_predict(commands) -> argparse.ArgumentParser:
    """Adds the command and its arguments."""
    parser = commands.add_parser(
        "predict", help="predictions of a run and of its exports", description=PREDICT
    )
    add = parser.add_argument
    parser.set_defaults(measure=measure_predict)
    add("--workdir", required=True, metavar="RUN", help="folder of the run")
    add("--model", required=True, action="append", metavar="DIR", help="an export; may be repeated")
    add("--input", required=True, type=disk_path, metavar="FILE", help="lines for launch.predict")
    add("--rounds", type=positive, default=5, metavar="N", help="rounds (5)")
    return parser


def measure_predict(args: argparse.Namespace) -> list[Row]:
    """A row for the run and for each export.

    Raises:
      UserError: if a folder is no run or export or is given twice, or the input has no line.
    """
    from common_jax.deploy import load
    from common_jax.deploy.format import Export
    from common_jax.io.files import read_lines

    lines = list(read_lines(args.input))
    if not lines:
        raise UserError(f"{args.input}: has no line")
    if len({args.workdir, *args.model}) != 1 + len(args.model):
        raise UserError("--model: give each folder once, and not that of --workdir")
    flags = {args.workdir: "--workdir", **dict.fromkeys(args.model, "--model")}
    formats = {model: Export(model).manifest.format for model in args.model}
    predictors = {path: load(path) for path in flags}
    started = _starts(flags, lines[0], args.rounds)

    def predict_lines(predictor: "Predictor") -> list[Any]:
        return list(predictor.predict(lines, str(args.input)))

    calls = {path: functools.partial(predict_lines, p) for path, p in predictors.items()}
    seconds = medians(calls, args.rounds)
    rate = {path: len(lines) / seconds[path] for path in flags}
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
    """Median seconds from the shell to a prediction, with an empty and a filled compilation cache,
    by folder."""
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
    """Seconds of one `launch.predict` process."""
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": cache}
    command = [*module_command("predict"), flag, path]
    start = time.perf_counter()
    done = subprocess.run(
        command, input=f"{line}\n", capture_output=True, text=True, env=environment
    )
    seconds = time.perf_counter() - start
    if done.returncode:
        raise UserError(done.stderr.strip().removeprefix("error: "))
    return seconds
