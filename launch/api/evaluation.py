"""Scores of runs and ensembles on their splits or on other files."""

import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jax.sharding import Mesh

from common_jax.compare import Evaluation, evaluation_of
from common_jax.compare import Run as ComparedRun
from common_jax.config import MeshConfig
from common_jax.deploy.named import located
from common_jax.deploy.parameters import Parameters, read_parameters, source_of
from common_jax.deploy.service import service_of, take_decoding
from common_jax.document import Cell, Section, Table
from common_jax.errors import UserError
from common_jax.io.files import names_in
from common_jax.training.config import read_task, task_on_files
from common_jax.training.evaluate import predict
from common_jax.training.mesh import make_mesh
from common_jax.training.run_writer import RunWriter
from common_jax.training.scored_run import ScoredRun, scores_name
from common_jax.training.step import make_predict_step
from common_jax.training.task import Scores, Task
from launch.api.configs import Overrides, override_texts
from launch.api.messages import messages
from launch.api.runs import Folder
from launch.pages.html import to_fragment

_ENDING = re.compile(r"(\.(json|jsonl|csv|tsv|txt|parquet))?(\.(gz|bz2|xz|zst|zip))?$", re.I)


@dataclasses.dataclass(frozen=True)
class EvaluationResult:
    """Scores that were written to eval/<split>.*: in a notebook, a table.

    Attributes:
      split: the name of the scores, of a split or of files.
      metrics: by name; rates in percent.
      notes: on the measurement, such as intervals and sacreBLEU's signature.
      tests: of the comparison with `against` (`common_jax.compare.Paired.numbers`).
      test_notes: tests that were not possible, with the reason.
    """

    split: str
    metrics: Mapping[str, float]
    notes: Mapping[str, Any] = dataclasses.field(repr=False)
    tests: Mapping[str, float] = dataclasses.field(default_factory=dict)
    test_notes: Sequence[str] = ()

    def _repr_html_(self) -> str:
        known = dict(self.notes.get("intervals", {}))
        ends = ("_low", "_high")  # of `Paired.numbers`
        for name in self.tests:
            if f"{name}{ends[0]}" in self.tests:
                known[name] = [self.tests[f"{name}{end}"] for end in ends]

        def interval(name: str) -> str | None:
            return " to ".join(f"{end:.2f}" for end in known.get(name, ())) or None

        rows: list[list[Cell]] = [[name, v, interval(name)] for name, v in self.metrics.items()]
        rows += [
            [name, f"{value:.4g}", interval(name)]
            for name, value in self.tests.items()
            if not name.endswith(ends)
        ]
        table = Table((self.split, "score", "95 % interval"), rows)
        return to_fragment([Section(f"Scores on {self.split}", [table, *self.test_notes])])


def evaluate(
    *runs: Folder,
    split: str | None = None,
    data: str | None = None,
    name: str | None = None,
    overrides: Overrides = (),
    average: int = 1,
    against: Folder | None = None,
    skip_bad: bool = False,
    adversarial: bool = False,
    **decoding: Any,
) -> EvaluationResult:
    """Scores a run, or an ensemble of runs of one corpus, and writes the scores beside the first.

    Args:
      *runs: their folders.
      split: test, or dev if there is none.
      data: files to score instead of a split, as `data.test` names them.
      name: of the scores of `data`; None for the files' own.
      overrides: fields of `data` that describe the files: {"data.columns": "text=1,label=2"}.
      average: number of newest checkpoints whose mean is scored, if more than 1.
      against: folder of another run, scored on the same examples, for paired tests.
      skip_bad: whether invalid examples of `data` are left out.
      adversarial: whether questions have variants, of which the worst counts.
      **decoding: options of decoding, such as `beam_size` of a translator.

    Raises:
      UserError: for an unknown split, invalid files or options, or runs that cannot be compared.
    """
    if not runs:
        raise UserError("evaluate: name a run")
    if data is not None and split is not None:
        raise UserError("--data is scored instead of --split: give one of them")
    folders = [os.fspath(run) for run in runs]
    paths = [os.path.realpath(folder) for folder in folders]
    for folder, path in zip(folders, paths, strict=True):
        if paths.count(path) > 1:
            raise UserError(f"--workdir {folder}: given twice")

    # Options of the files of `data`.
    changes = override_texts(overrides)
    given = changes[:1]
    if skip_bad:
        given.append("--skip_bad")
        changes.append("--config.data.on_bad_example=skip")
    if name:
        given.append("--name")
    if given and data is None:
        raise UserError(f"{given[0]} goes with --workdir and --data")
    fields = {"adversarial": True} if adversarial else {}

    # The runs' tasks on the split, with the options of decoding.
    with messages():
        sources = [source_of(folder) for folder in folders]
        scored_runs = [ScoredRun(source.folder.path) for source in sources]
        tasks = [
            read_task(run, **fields)
            if data is None
            else task_on_files(run, data, changes, "--skip_bad", **fields)
            for run in scored_runs
        ]
        split, name = _splits(tasks, split, data, name)
        label = name
        if adversarial and not _is_adversarial(scored_runs[0]):
            label += "-adversarial"  # beside the scores of single questions
        baseline = None if against is None else _baseline(os.fspath(against), tasks[0], label)
        for source, task in zip(sources, tasks, strict=True):
            if source.export is not None:
                take_decoding(service_of(task), source.export)
            _set_decoding(task, decoding)

        # The scores of the run, or of the mean of the ensemble's predictions.
        mesh = make_mesh(MeshConfig())
        pairs = zip(sources, tasks, strict=True)
        loaded = [read_parameters(source, task, mesh, average) for source, task in pairs]
        _prepare(scored_runs, tasks, split, is_own=name == split)
        scored = tasks[0].score(split, _outputs(tasks, loaded, split, mesh))
        scored.notes["step"] = loaded[0].step
        scored_run = scored_runs[0]
        label = scores_name(label, average, decoding)
        if len(sources) > 1:
            label += f"-ensemble{len(sources)}"
        RunWriter(scored_run.path).write_scores(label, scored)
        return _result(scored_run, label, scored, baseline)


def _outputs(
    tasks: Sequence[Task], loaded: Sequence[Parameters], split: str, mesh: Mesh
) -> Mapping[str, Any]:
    """The predictions of a run, or the mean of those of an ensemble."""
    predictions = []
    for task, parameters in zip(tasks, loaded, strict=True):
        step = make_predict_step(task, mesh, final=True)
        batches = task.split_batches(split)
        predictions.append(predict(parameters.values, batches, step, mesh, split))
    return ensemble_mean(predictions) if len(predictions) > 1 else predictions[0]


def ensemble_mean(predictions: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The logs of the mean of several models' probabilities, from their logits [n, labels] for the
    same examples (`Task.evaluation_set`)."""
    means = {}
    for name in predictions[0]:
        logits = np.stack([p[name] for p in predictions]).astype(np.float64)
        logs = logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)
        means[name] = np.logaddexp.reduce(logs, axis=0) - np.log(len(logs))
    return means


def _result(
    scored_run: ScoredRun, label: str, scored: Scores, baseline: Evaluation | None
) -> EvaluationResult:
    """The written scores, with the tests of their difference to the baseline's."""
    if baseline is None:
        return EvaluationResult(label, scored.metrics, scored.notes)
    run = ComparedRun(str(scored_run.path), scored_run)
    paired = evaluation_of(run, label).paired(baseline)
    tests = {name: float(f"{value:.6g}") for name, value in paired.numbers.items()}
    return EvaluationResult(label, scored.metrics, scored.notes, tests, paired.notes)


def _set_decoding(task: Task, decoding: Mapping[str, Any]) -> None:
    """Adds options of decoding to those of the task; raises UserError for an invalid one."""
    if not decoding:
        return
    service = service_of(task)
    known = [option.name for option in service.predictor_class.options if option.decoding]
    if unknown := {*decoding} - {*known}:
        names = ", ".join(known) or "none"
        raise UserError(f"no option of decoding is named {min(unknown)}; there are {names}")
    task.decoding = {**task.decoding, **decoding}
    _ = service.settings  # raises UserError for an invalid option


def _splits(
    tasks: Sequence[Task], split: str | None, data: str | None, name: str | None
) -> tuple[str, str]:
    """The split to score, and the name of its scores."""
    splits = tasks[0].splits
    chosen = splits[-1] if split is None else split
    if chosen not in splits:
        raise UserError(f"--split {chosen}: must be {' | '.join(splits)}")
    if data is None:
        return chosen, chosen
    if name is None:
        return chosen, name_of(data, splits)
    if name in splits or not re.fullmatch(r"\w[\w.+-]*", name):
        raise UserError(f"--name {name}: letters and digits, and not {' or '.join(splits)}")
    return chosen, name


def _prepare(runs: Sequence[ScoredRun], tasks: Sequence[Task], split: str, is_own: bool) -> None:
    """Prepares all corpora.

    Raises:
      UserError: if the split of two runs has different examples, or if their own split is not the
        one with which they were trained.
    """
    for workdir, task in zip(runs, tasks, strict=True):
        task.prepare()
        workdir.require_data(task, [split] if is_own else [])
    expected = tasks[0].evaluation_set(split) if len(tasks) > 1 else None
    for workdir, task in zip(runs[1:], tasks[1:], strict=True):
        if task.evaluation_set(split) != expected:
            raise UserError(f"{workdir.path}: its {split} differs from that of {runs[0].path}")


def _baseline(folder: str, task: Task, name: str) -> Evaluation:
    """The evaluation to compare with; raises UserError if it is missing or of another task."""
    run = ComparedRun(folder, ScoredRun(located(folder)))
    scores = run.workdir.scores(name)
    if type(run.task) is not type(task):
        kinds = (type(family).__name__ for family in (run.task, task))
        raise UserError(f"{folder}: a run of {' is not compared with one of '.join(kinds)}")

    # Older scores have no step: those of the run's own splits are of its best checkpoint.
    best = run.result.get("best_step")
    step = scores.value.get("step", best if name in run.task.splits else None)
    if best is not None and step != best:
        scored = "an unknown step" if step is None else f"step {step}"
        raise UserError(
            f"{folder}: its scores on {name} are of {scored}, and its best is step {best}: "
            "score it again"
        )
    evaluation = evaluation_of(run, name)
    evaluation.require()
    return evaluation


def _is_adversarial(run: ScoredRun) -> bool:
    """Whether the run's own questions have variants."""
    data = run.config().get("data")
    return bool(data.get("adversarial")) if isinstance(data, dict) else False


def name_of(files: str, splits: tuple[str, ...]) -> str:
    """The name for the scores of data files: their stems; if that is a split's name, the full name,
    or for parallel files FOLDER-STEM."""
    paths = [Path(name) for name in names_in(files, "--data", Path.cwd())]
    name = "+".join(_ENDING.sub("", path.name) for path in paths)
    if name not in splits:
        return name
    folder = paths[0].absolute().parent.name
    return paths[0].name if paths[0].name != name else f"{folder}-{name}"
