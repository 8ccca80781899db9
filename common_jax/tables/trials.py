"""The trials of a table at a scale, as those of an ordinary sweep."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common_jax.config import value_of
from common_jax.errors import UserError, error_context
from common_jax.sweep.plan import SEED, Trial
from common_jax.tables.spec import Corpus, Row, Scale, TableSpec
from common_jax.training.config import parse, task_class

ROW = "row"


def trials_of(spec: TableSpec, name: str, data: Path, out: Path) -> list[Trial]:
    """Each row's trials, one for each seed.

    Args:
      name: of the scale.
      data: the folder with a folder for each corpus.
      out: the folder of the runs, which are in OUT/trials.

    Raises:
      UserError: for a scale, system, field or metric that is not there, or no rows.
    """
    scale = spec.scales[name]
    trials = []
    for row in spec.rows_of(name):
        file = f"{scale.config}:{row.system}" if row.system else scale.config
        overrides = _overrides(scale, row, data)
        with error_context(f"tables/{spec.name}.toml, row {row.name!r}"):
            first = value_of(parse(file, overrides), SEED)
            for seed in range(first, first + scale.seeds):
                own = (*overrides, f"--config.{SEED}={seed}")
                config = parse(file, own)
                values = {ROW: row.name, SEED: seed}
                trials.append(Trial(values, file, own, config, out / "trials"))
    if not trials:
        raise UserError(f"tables/{spec.name}.toml: no rows at the scale {name}")
    config = trials[0].config
    known = task_class(config.task)(config).metric_names
    metrics = {*scale.metrics, *(claim.metric for claim in claims_of(spec, name))}
    if unknown := sorted(metrics - {*known}):
        raise UserError(
            f"tables/{spec.name}.toml: no metric {unknown[0]!r}; there are {', '.join(known)}"
        )
    return trials


def claims_of(spec: TableSpec, name: str) -> list[Any]:
    """The claims whose rows are made at a scale."""
    rows = {row.name for row in spec.rows_of(name)}
    return [claim for claim in spec.claims if {claim.row, claim.than} <= rows]


def fields_of(spec: TableSpec, trial: Trial) -> dict[str, Any]:
    """The fields that a trial's row sets, with their values, and the seed: a sweep's values."""
    (row,) = (row for row in spec.rows if row.name == trial.values[ROW])
    fields = {field: value_of(trial.config, field) for field in row.overrides}
    return {**fields, SEED: trial.values[SEED]}


def require_data(spec: TableSpec, name: str, data: Path) -> None:
    """Raises UserError if a corpus of a scale is not in `data`, with where it comes from."""
    for corpus, needed in corpora_of(spec, name).items():
        folder = data / corpus
        missing = [
            file
            for file in needed.files
            if not any((folder / f"{file}{ending}").exists() for ending in ("", ".gz"))
        ]
        if missing:
            raise UserError(
                f"--data: {folder} has no {', '.join(missing)}; they come from {needed.origin}"
            )


def corpora_of(spec: TableSpec, name: str) -> Mapping[str, Corpus]:
    """The corpora that a scale needs."""
    scale = spec.scales[name]
    return {
        corpus: needed
        for corpus, needed in spec.corpora.items()
        if corpus == scale.data or any(f"{{{corpus}}}" in v for v in scale.overrides.values())
    }


def _overrides(scale: Scale, row: Row, data: Path) -> tuple[str, ...]:
    values = {"data.dir": f"{{{scale.data}}}"} if scale.data else {}
    values = {**values, **scale.overrides, **row.overrides}
    return tuple(f"--config.{key}={_filled(value, data)}" for key, value in values.items())


def _filled(value: str, data: Path) -> str:
    """A value with the folders of corpora for their names in braces."""
    before, brace, rest = value.partition("{")
    corpus, closed, after = rest.partition("}")
    return f"{before}{data / corpus}{after}" if brace and closed else value
