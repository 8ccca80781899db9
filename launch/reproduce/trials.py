"""The trials of a table at a scale, as those of an ordinary sweep."""

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from common_jax.compare import evaluation_class
from common_jax.config import value_of
from common_jax.deploy.configs import OpenedSources, parse, task_of
from common_jax.errors import UserError, error_context
from common_jax.training.config import key_of
from common_jax.training.config_files import installed_name
from common_jax.training.identity import SEED
from launch.reproduce.table_file import MEASURED, Corpus, Row, Scale, TableSpec
from launch.trials.trials import TRIALS, Trial

ROW = "row"


def trials_of(
    spec: TableSpec,
    scale: Scale,
    data: Path,
    out: Path,
    tried: Sequence[str] = (),
    models: OpenedSources | None = None,
) -> list[Trial]:
    """Each row's trials, one for each seed.

    Args:
      data: the folder with a folder for each corpus.
      out: the folder of the runs, which are in OUT/trials.
      tried: "--config.KEY=VALUE" of a try, whose trials have them in their names.
      models: opens runs and exports that the configs name.

    Raises:
      UserError: for an unknown system, field or metric, with the rows that can be trained; or for
        no rows.
    """
    trials = []
    wrong = dict[str, UserError]()
    models = models or OpenedSources()

    # Rows of a wrong config are named together with those that can be made.
    for row in scale.made:
        try:
            trials += _of_row(spec, row, data, out, tried, models)
        except UserError as error:
            wrong[row.name] = error
    if wrong:
        first = next(iter(wrong.values()))
        rows = ",".join(row.name for row in scale.made if row.name not in wrong)
        raise UserError(f"{first}; --rows {shlex.quote(rows)} can be made" if rows else str(first))
    if not trials:
        raise UserError(f"tables/{spec.name}.toml: no rows at the scale {scale.name}")

    # The metrics of the table must be those of the task.
    task = task_of(trials[0].config, models)
    known = (*task.metric_names, *evaluation_class(type(task)).metrics, *MEASURED)
    judged_by = [name for claim in scale.claims for name in (claim.metric, *claim.beside)]
    for name in (*scale.metrics, *judged_by):
        if name not in known:
            raise UserError(f"tables/{spec.name}.toml: no metric {name!r}; there are "
                            f"{', '.join(known)}")  # fmt: skip
    return trials


def fields_of(scale: Scale, trial: Trial) -> dict[str, Any]:
    """The fields that a trial's row sets, with their values, and the seed, as `Trial.values`."""
    (row,) = (row for row in scale.systems if row.name == trial.values[ROW])
    fields = {field: value_of(trial.config, field) for field in row.varied}
    return {**fields, SEED: trial.values[SEED]}


def require_data(spec: TableSpec, scale: Scale, trials: Sequence[Trial], data: Path) -> None:
    """Raises UserError if a corpus of some trials is neither in `data` nor prepared, with its
    origin."""
    for trial in first_trials(trials):
        for missing in missing_data(spec, scale, trial, data):
            raise UserError(f"--data: {missing}")


def first_trials(trials: Sequence[Trial]) -> list[Trial]:
    """The first trial of each row, which has the corpus of all."""
    return [*{trial.values[ROW]: trial for trial in reversed(trials)}.values()][::-1]


def missing_data(spec: TableSpec, scale: Scale, trial: Trial, data: Path) -> list[str]:
    """What the corpora of a trial's row lack in `data`, with their origin, unless that of the trial
    has been prepared before."""
    lacks = []
    for corpus in corpora_of(spec, scale.only([trial.values[ROW]], None)):
        folder = data / corpus.folder
        missing = [
            file
            for file in corpus.files
            if not any((folder / f"{file}{ending}").exists() for ending in ("", ".gz"))
        ]
        if missing:
            note = f" ({corpus.note})" if corpus.note else ""
            files = ", ".join(missing)
            lacks.append(f"{folder} has no {files}; they come from {corpus.origin}{note}")
    reads = lacks and trial.config.data.source != "generated"
    return [] if reads and task_of(trial.config).data.is_prepared else lacks


def corpora_of(spec: TableSpec, scale: Scale) -> list[Corpus]:
    """The corpora that a scale's trials need."""

    def is_needed(name: str) -> bool:
        return any(
            name == row.data or any(f"{{{name}}}" in value for value in row.overrides.values())
            for row in scale.made
        )

    return [corpus for name, corpus in spec.data.items() if is_needed(name)]


def _of_row(
    spec: TableSpec,
    row: Row,
    data: Path,
    out: Path,
    tried: Sequence[str],
    models: OpenedSources,
) -> list[Trial]:
    # The fields with folders of corpora in place of their names.
    fields = {**({"data.dir": f"{{{row.data}}}"} if row.data else {}), **row.overrides}
    for name, corpus in spec.data.items():
        folder = str(data / corpus.folder)
        fields = {key: value.replace(f"{{{name}}}", folder) for key, value in fields.items()}
    overrides = (*(f"--config.{key}={value}" for key, value in fields.items()), *tried)
    changed = {key_of(text): text.partition("=")[2] for text in tried}

    # The config is parsed once; the trials differ in its seed.
    trials = []
    file = installed_name(row.file)
    with error_context(f"tables/{spec.name}.toml, row {row.name!r}"):
        config = parse(file, overrides, models)
        first = value_of(config, SEED)
        for seed in range(first, first + row.planned):
            train = dataclasses.replace(config.train, seed=seed)
            seeded = (*overrides, f"--config.{SEED}={seed}")
            trials.append(
                Trial(
                    {ROW: row.name, **changed, SEED: seed},
                    file,
                    seeded,
                    dataclasses.replace(config, train=train),
                    out / TRIALS,
                )
            )
    return trials
