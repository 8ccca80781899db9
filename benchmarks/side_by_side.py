"""Times this suite and its peers in turn on the same batches, and writes the results."""

import argparse
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from benchmarks.pages import SUITE, comparison, measured_parts, summary
from common_jax.data.batches import Batch
from common_jax.errors import UserError
from common_jax.io.atomic import replace_text, write_json
from launch.arguments import Parser, positive
from launch.measure.timing import machine
from launch.pages import markdown
from launch.text_table import Row, table

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "benchmarks"
WORKERS = Path(__file__).parent / "workers"
# For all sides: glibc does not return freed memory to the system.
ALLOCATOR = {
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
}
THREADS = 2
TORCH = ("torch==2.13.0", "numpy==2.3.5")
TITLES = {
    "joeynmt": "Joey NMT",
    "ctranslate2": "CTranslate2",
    "qanet_pytorch": "A QANet in PyTorch",
    "snli_pytorch": "ESIM and RE2 in PyTorch",
}
FIRST_PASS = (  # beside PyTorch
    "First pass: the suite compiles each shape, and stores no program. PyTorch compiles under "
    "`torch.compile` only, again until lengths are symbolic, and reuses kernels of earlier "
    "processes, as in all rounds here but the first."
)


class Side(NamedTuple):
    """One side of a comparison.

    Attributes:
      name: of the side's rows.
      python: the interpreter of the side's environment.
      worker: name of a program in `WORKERS`.
      job: the side's fields of the job.
    """

    name: str
    python: Path
    worker: str
    job: Mapping[str, Any] = MappingProxyType({})


class Measure(NamedTuple):
    """A computation that all sides do.

    Attributes:
      name: of its rows.
      phase: "train", "answer", or another phase that the workers have.
      batches: for all sides, except those that read their own.
      passes: how often all batches are timed in a round.
      counted: names of the arrays whose tokens are counted; without a name, examples are counted.
      job: further fields of the job.
    """

    name: str
    phase: str
    batches: Sequence[Batch]
    passes: int = 1
    counted: Sequence[str] = ()
    job: Mapping[str, Any] = MappingProxyType({})


def arguments(description: str, checkouts: Sequence[str] = ()) -> Parser:
    """A parser with the options of all benchmarks, and one for each checkout of a repository."""
    parser = Parser(description=description)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="folder with a folder for each corpus")
    for name in checkouts:
        add(f"--{name}", type=Path, required=True, help="checkout of the peer")
    add("--rounds", type=positive, default=3, help="rounds, in which all sides are timed (3)")
    add("--only", default="", metavar="TEXT", help="measures whose names contain TEXT")
    text = "folder of the peers' environments (.benchmarks)"
    add("--environments", type=Path, default=Path(".benchmarks"), help=text)
    add("--out", type=Path, default=RESULTS, help="folder of the results")
    return parser


def require_checkout(folder: Path, commit: str) -> None:
    """Raises UserError if the folder is no checkout of that commit, or has changes."""

    def git(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True)

    head = git("rev-parse", "HEAD") if folder.is_dir() else None
    if head is None or head.returncode:
        raise UserError(f"{folder}: not a checkout of a repository")
    if head.stdout.strip() != commit:
        raise UserError(f"{folder}: at {head.stdout.strip()[:12]}, but must be at {commit[:12]}")
    if changed := git("status", "--porcelain", "--untracked-files=no").stdout.split("\n")[0]:
        raise UserError(f"{folder}: has changes ({changed.strip()})")


def environment(folder: Path, requirements: Sequence[str]) -> Path:
    """The interpreter of an environment with these requirements, which pip makes if it is missing.

    pip's own settings apply; with PyTorch's index of builds for CPUs it is gigabytes smaller.

    Raises:
      UserError: if they cannot be installed.
    """
    python = folder / "bin" / "python"
    installed = folder / "requirements.txt"
    if installed.exists() and installed.read_text("utf-8").split() == [*requirements]:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    for words in (
        [sys.executable, "-m", "venv", str(folder)],
        [str(python), "-m", "pip", "install", "--quiet", *requirements],
    ):
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            raise UserError(f"cannot install {' '.join(requirements)}: {_last_line(done.stderr)}")
    replace_text(installed, "\n".join(requirements) + "\n")
    return python


def write_batches(path: Path, batches: Sequence[Batch]) -> None:
    """Writes an .npz file for `benchmarks.workers.timing.read`."""
    arrays = {f"{n}/{name}": a for n, batch in enumerate(batches) for name, a in batch.items()}
    unfinished = path.with_suffix(".unfinished.npz")
    np.savez(unfinished, **arrays)
    unfinished.replace(path)


def alternate(
    sides: Sequence[Side], measures: Sequence[Measure], rounds: int, threads: int
) -> list[Row]:
    """A row with the results of each side's worker, for each measure and round.

    Each round starts a new process for each side, in a random order, so that only one is in memory
    and has its own peak.
    """
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as temporary:
        for measure in measures:
            batches = Path(temporary) / "batches.npz"
            write_batches(batches, measure.batches)
            for number in range(rounds):
                for side in random.Random(number).sample([*sides], len(sides)):
                    # The worker's job: its own fields override those of the measure.
                    job = {
                        "phase": measure.phase,
                        "batches": str(batches),
                        "passes": measure.passes,
                        "counted": [*measure.counted],
                        "threads": threads,
                        **measure.job,
                        **side.job,
                    }

                    # One row a process, printed at once without its long answers.
                    row = {"measure": measure.name, "round": number, "side": side.name}
                    rows.append(row | _run(side, job, Path(temporary), threads))
                    short = {**rows[-1], "seconds": sum(rows[-1]["seconds"]), "answers": "..."}
                    print(json.dumps(short), flush=True)
    return with_equal_answers(rows)


def with_equal_answers(rows: Sequence[Row]) -> list[Row]:
    """The rows with the share of a side's answers that equal the suite's, in the answers' place."""
    expected = {row["measure"]: row["answers"] for row in rows if row["side"] == SUITE}
    results = []
    for row in rows:
        answers = row["answers"]
        other = {k: v for k, v in row.items() if k != "answers"}
        pairs = zip(expected[row["measure"]], answers, strict=True)
        share = {"equal_answers": sum(a == b for a, b in pairs) / len(answers)} if answers else {}
        results.append(other | share)
    return results


def _run(side: Side, job: Mapping[str, Any], folder: Path, threads: int) -> Row:
    """Runs a worker; returns the JSON object that it printed."""
    file = folder / "job.json"
    replace_text(file, json.dumps(job))
    limits = {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": str(WORKERS.parents[1])}
    worker = [str(side.python), str(WORKERS / f"{side.worker}.py"), str(file)]
    done = subprocess.run(
        worker, capture_output=True, text=True, env={**os.environ, **ALLOCATOR, **limits}
    )
    if done.returncode:
        raise UserError(f"{side.name}: {_last_line(done.stderr)}")
    return json.loads(_last_line(done.stdout))


def _last_line(text: str) -> str:
    return text.strip().split("\n")[-1].strip()


def first_batches(task: Any, count: int) -> list[Batch]:
    """The first batches of the first epoch, in random order."""
    epoch = task.train_batches().epoch(0)
    return [epoch[number] for number in range(count)]


def translations(batches: Sequence[Batch], job: Mapping[str, Any]) -> list[Measure]:
    """Measures of greedy search and of a beam of 4."""
    return [
        Measure(f"translation, {name}", "translate", batches, job={**job, "beam_size": size})
        for name, size in (("greedy", 1), ("beam of 4", 4))
    ]


def eager_and_compiled(side: Side) -> list[Side]:
    """A PyTorch side as it is, and by `torch.compile` with its defaults."""
    compiled = side._replace(name=f"{side.name}, compiled", job={**side.job, "compile": True})
    return [side, compiled]


def suite(config: str, overrides: Mapping[str, Any]) -> Side:
    """This suite's side, with a config and overrides."""
    job = {"config": config, "overrides": {name: str(v) for name, v in overrides.items()}}
    return Side(SUITE, Path(sys.executable), "suite", job)


def compare(
    args: argparse.Namespace,
    name: str,
    sides: Sequence[Side],
    measures: Sequence[Measure],
    unequal: Sequence[str],
) -> None:
    """Times the sides and writes the results (`write`).

    Args:
      args: of the parser of `arguments`.

    Raises:
      UserError: if `--only` fits no measure.
    """
    chosen = [measure for measure in measures if args.only in measure.name]
    if not chosen:
        names = " | ".join(measure.name for measure in measures)
        raise UserError(f"--only {args.only}: fits none of {names}")
    command = shlex.join(["python", "-m", f"benchmarks.{name}", *sys.argv[1:]])
    about = {"command": command, **machine(os.getloadavg()[0])}
    rows = alternate(sides, chosen, args.rounds, THREADS)
    write(args.out, name, rows, measures, unequal, about)


def write(
    out: Path,
    name: str,
    rows: Sequence[Row],
    measures: Sequence[Measure],
    unequal: Sequence[str],
    about: Row,
) -> None:
    """Writes NAME.json with the rows of each measure, and its page NAME.md (`benchmarks.pages`).

    Measures without rows are those of an existing NAME.json.

    Args:
      unequal: differences between the sides, a sentence each.
      about: the command, and the machine before the measurements.
    """
    file = out / f"{name}.json"
    results = json.loads(file.read_text("utf-8")) if file.exists() else {}
    results["page"] = {"title": TITLES.get(name, name), "differences": [*unequal]}
    for measure in measures:
        if measure_rows := [row for row in rows if row["measure"] == measure.name]:
            unit = {"unit": "token"} if measure.counted else {}
            results[measure.name] = {**about, **unit, "rounds": measure_rows}
    out.mkdir(parents=True, exist_ok=True)
    write_json(file, results)
    markdown.write(out / f"{name}.md", comparison(file.name, results))
    for found in measured_parts(results).values():
        print(table(summary(found["rounds"], found.get("unit", "example"))))
