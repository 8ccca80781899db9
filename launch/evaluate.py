"""Scores a run's best checkpoint, a mean of its newest, an ensemble of runs, or a file."""

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from common_jax.errors import UserError
from launch.cli import (
    Parser,
    add_options,
    configure_logging,
    early_arguments,
    positive,
    run,
)

if TYPE_CHECKING:
    from common_jax.compare import Evaluation
    from common_jax.predictor import Option
    from common_jax.training.run_folder import RunFolder
    from common_jax.training.task import Task

_ENDING = re.compile(r"(\.(json|jsonl|csv|tsv|txt|parquet))?(\.(gz|bz2|xz|zst|zip))?$", re.I)

DESCRIPTION = (
    __doc__
    + """
Prints the metrics as JSON, and writes them and the predictions to eval/<split>.* in the run's
folder. --average K writes to eval/<split>-average<K>.*, and options of decoding, such as a
translator's --beam_size (--workdir RUN --help lists them), to eval/<split>-beam_size<N>.*. Several
--workdir of one corpus are an ensemble, whose probabilities are averaged; it writes to
eval/<split>-ensemble<N>.* of the first run. --data scores other files with the run's vocabulary;
only these are prepared, and --config.data.KEY=VALUE describes them where they differ from the
run's. --task squad scores a file {id: answer} without a run. Of questions with adversarial
variants, ids ID-VARIANT, the worst counts with --adversarial, and always in the published files of
adversarial SQuAD.

--against RUN adds paired tests against another run, scored on the same examples: bootstrap and
t-test (translation), equal proportions and McNemar's (labels), permutation (answers). p_TEST is the
p-value, RESULT_difference this run's result minus the other's with a 95 % interval, and
RESULT_detectable the true difference that is detected with a power of 80 %.

example:
  python -m launch.evaluate --workdir runs/qanet/squad --data sample1k-HCVerifyAll.json
  python -m launch.evaluate --workdir runs/snli1 --workdir runs/snli2 --against runs/snli0
  python -m launch.evaluate --task squad --predictions answers.json --data dev-v1.1.json"""
)


def main(argv: list[str]) -> None:
    parser = Parser(prog="python -m launch.evaluate", description=DESCRIPTION)
    add = parser.add_argument
    text = "folder of the run; several for an ensemble"
    add("--workdir", action="append", metavar="RUN", help=text)
    add("--split", help="split to score (test, or dev if there is none)")
    add(
        "--average", type=positive, metavar="K", help="parameters: mean of the K newest checkpoints"
    )
    add("--against", metavar="RUN", help="folder of another run, scored on the same examples")
    add("--task", choices=["squad"], help="score a file of predictions, not a run")
    add("--predictions", metavar="FILE", help="predictions: {id: answer, ...}")
    text = "examples to score, with their answers; several joined by commas, as data.test"
    add("--data", metavar="FILE", help=text)
    add("--name", help="name of the scores of --data (that of the file)")
    add("--skip_bad", action="store_true", help="count invalid examples of --data, do not stop")
    text = "a field of --data: --config.data.columns=text=review,label=stars"
    add("--config.data.KEY", metavar="VALUE", dest="_", help=text)
    text = "questions have variants, ids ID-VARIANT, of which the worst counts"
    add("--adversarial", action="store_true", help=text)
    options = _decoding_options(argv)
    add_options(parser, options)
    args, overrides = parser.parse_known_args(argv)
    if unknown := [text for text in overrides if not text.startswith("--config.")]:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if (args.workdir is None) == (args.task is None):
        parser.error("give --workdir, or --task with --predictions and --data")
    mode, excluded = (
        ("task", ("split", "average", "against", "name"))
        if args.task
        else ("workdir", ("predictions",))
    )
    for name in excluded:
        if getattr(args, name) is not None:
            parser.error(f"--{name} does not go with --{mode}")
    file_flags = [*overrides[:1], *["--skip_bad"][: args.skip_bad], *["--name"][: bool(args.name)]]
    if file_flags and (args.task or args.data is None):
        parser.error(f"{file_flags[0]} goes with --workdir and --data")
    configure_logging()
    values: Mapping[str, Any]
    if args.task is None:
        decoding = {o.name: v for o in options if (v := getattr(args, o.name)) is not None}
        values = _score_run(parser, args, overrides, decoding)
    elif args.predictions is None or args.data is None:
        parser.error("--task needs --predictions and --data")
    else:
        from qanet_jax.score import score_files

        values = score_files(args.predictions, args.data, args.adversarial)
    lines = (f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in values.items())
    print("\n".join(["{", ",\n".join(lines), "}"]))


def _score_run(
    parser: Parser,
    args: argparse.Namespace,
    overrides: Sequence[str],
    decoding: Mapping[str, Any],
) -> dict[str, Any]:
    """Scores the run or ensemble, writes the scores, and returns them with those of the tests."""
    from common_jax.compare import Run, evaluation_of
    from common_jax.config import MeshConfig
    from common_jax.training.evaluate import ensemble_mean, predict
    from common_jax.training.load_parameters import read_parameters
    from common_jax.training.mesh import make_mesh
    from common_jax.training.run_writer import RunWriter
    from common_jax.training.step import make_predict_step

    if args.data is not None and args.split is not None:
        parser.error("--data is scored instead of --split: give one of them")
    paths = [os.path.realpath(folder) for folder in args.workdir]
    for folder, path in zip(args.workdir, paths, strict=True):
        if paths.count(path) > 1:
            parser.error(f"--workdir {folder}: given twice")
    runs = [RunWriter(folder) for folder in args.workdir]
    tasks = _tasks(runs, args, overrides)
    for task in tasks:
        task.decoding = decoding
        _ = task.settings  # raises UserError for an invalid option
    split = tasks[0].splits[-1] if args.split is None else args.split
    if split not in tasks[0].splits:
        raise UserError(f"--split {split}: must be {' | '.join(tasks[0].splits)}")
    name = split if args.data is None else _name(args, tasks[0].splits)
    baseline = None if args.against is None else _baseline(args.against, tasks[0], name)
    mesh, average, predictions = make_mesh(MeshConfig()), args.average or 1, []
    params = [read_parameters(*run, mesh, average) for run in zip(runs, tasks, strict=True)]
    _prepare(runs, tasks, split)
    for loaded, task in zip(params, tasks, strict=True):
        step = make_predict_step(task, mesh, final=True)
        predictions.append(predict(loaded.values, task.split_batches(split), step, mesh, split))
    scored = tasks[0].score(
        split, ensemble_mean(predictions) if len(predictions) > 1 else predictions[0]
    )
    if average > 1:
        name += f"-average{average}"
        scored.notes["step"] = params[0].step
    name += "".join(f"-{option}{value:g}" for option, value in decoding.items())
    if len(runs) > 1:
        name += f"-ensemble{len(runs)}"
    runs[0].write_scores(name, scored)
    tests: dict[str, float] = {}
    if baseline is not None:
        paired = evaluation_of(Run(args.workdir[0], runs[0]), name).paired(baseline)
        tests = {name: float(f"{value:.6g}") for name, value in paired.numbers.items()}
        for note in paired.notes:
            print(note, file=sys.stderr)
    return {"split": name, **scored.metrics, **scored.notes, **tests}


def _decoding_options(argv: Sequence[str]) -> list["Option"]:
    """The options of decoding of a run's predictor; none if it cannot be read."""
    path = early_arguments("evaluate", argv, "--workdir").workdir
    if path is None:
        return []
    from common_jax.deploy import predictor_class

    with contextlib.suppress(UserError):  # reported later
        return [option for option in predictor_class(path).options if option.decoding]
    return []


def _tasks(
    runs: Sequence["RunFolder"], args: argparse.Namespace, overrides: Sequence[str]
) -> "list[Task]":
    """The tasks of the runs, on the files of --data if they are given."""
    from common_jax.training.config import read_task, task_on_files

    fields = {"adversarial": True} if args.adversarial else {}
    if args.data is None:
        return [read_task(run, **fields) for run in runs]
    changes = [*overrides, *["--config.data.on_bad_example=skip"][: args.skip_bad]]
    return [task_on_files(run, args.data, changes, "--skip_bad", **fields) for run in runs]


def _prepare(runs: Sequence["RunFolder"], tasks: Sequence["Task"], split: str) -> None:
    """Prepares all corpora; raises UserError if two runs have different examples in the split."""
    for task in tasks:
        task.prepare()
    expected = tasks[0].evaluation_set(split) if len(tasks) > 1 else None
    for workdir, task in zip(runs[1:], tasks[1:], strict=True):
        if task.evaluation_set(split) != expected:
            raise UserError(f"{workdir.path}: its {split} differs from that of {runs[0].path}")


def _baseline(folder: str, task: "Task", name: str) -> "Evaluation":
    """The evaluation to compare with; raises UserError if it is missing or of another task."""
    from common_jax.compare import Run, evaluation_of
    from common_jax.training.run_folder import RunFolder

    run = Run(folder, RunFolder(folder))
    run.workdir.scores(name)
    if type(run.task) is not type(task):
        kinds = (type(family).__name__ for family in (run.task, task))
        raise UserError(f"{folder}: a run of {' is not compared with one of '.join(kinds)}")
    evaluation = evaluation_of(run, name)
    evaluation.require()
    return evaluation


def _name(args: argparse.Namespace, splits: tuple[str, ...]) -> str:
    if args.name is None:
        return name_of(args.data, splits)
    if args.name in splits or not re.fullmatch(r"\w[\w.+-]*", args.name):
        raise UserError(f"--name {args.name}: letters and digits, and not {' or '.join(splits)}")
    return args.name


def name_of(files: str, splits: tuple[str, ...]) -> str:
    """The name for the scores of data files: their stems, or if that is a split's name the full
    name, for parallel files with their folder's."""
    paths = [Path(name.strip()) for name in files.split(",")]
    name = "+".join(_ENDING.sub("", path.name) for path in paths)
    if name not in splits:
        return name
    folder = paths[0].absolute().parent.name
    return paths[0].name if paths[0].name != name else f"{folder}-{name}"


if __name__ == "__main__":
    run(main)
