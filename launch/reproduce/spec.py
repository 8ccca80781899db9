"""The rows, claims and examples of a paper's table at each of its scales, from its file."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common_jax.errors import error_context
from common_jax.fields import require
from launch.reproduce.table_file import (
    Claim,
    Corpus,
    Example,
    Kind,
    RowEntry,
    ScaleEntry,
    Setting,
    SharedFile,
    TableFile,
    Target,
    read_toml,
    require_known,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(RowEntry):
    """A system of a table, or a point of a figure, at a scale, with what it inherits.

    Attributes:
      varied: the fields in the row's own overrides.
    """

    seeds: int = 1
    seen: int = 0
    varied: tuple[str, ...] = ()

    @property
    def file(self) -> str:
        """`--config` of its runs."""
        return f"{self.config}:{self.system}" if self.system else self.config


@dataclasses.dataclass(frozen=True)
class Scale:
    """A setting in which a table is reproduced, such as the size of the models and the data.

    Attributes:
      split: of the metrics.
      paired, trained_on: as `ScaleEntry`.
      metrics: names in result.json, or of `MEASURED`; a figure shows the first.
      target: of `HOURS`.
      unavailable: the reason why it cannot be reproduced; "" if it can.
      matched_times: whether the rows have the paper's sizes and learning rates tuned for each, so
        that their hours can be compared.
      timed_steps: number of steps in a round of the measurement of speed.
      curves: whether the page has the learning curves of its rows.
      note: how it differs from the paper's setting.
    """

    name: str
    split: str
    metrics: tuple[str, ...]
    paired: bool
    trained_on: str
    target: Target | None
    unavailable: str
    matched_times: bool
    timed_steps: int
    curves: bool
    note: str
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    examples: tuple[Example, ...]

    @property
    def made(self) -> list[Row]:
        """The rows with trials."""
        return [row for row in self.rows if not row.missing and not row.ensemble]

    def row(self, name: str) -> Row:
        """The row of that name."""
        (row,) = (row for row in self.rows if row.name == name)
        return row

    def only(self, names: Sequence[str], seeds: int | None) -> "Scale":
        """The scale with the named rows, all if there are no names, and another number of seeds.

        Raises:
          UserError: for an unknown name.
        """
        require_known(names, [row.name for row in self.rows], "--rows: no row")
        rows = tuple(
            dataclasses.replace(row, seeds=(seeds or row.seeds) if row.trained else 1)
            for row in self.rows
            if not names or row.name in names
        )

        present = {row.name for row in rows}
        claims = tuple(claim for claim in self.claims if {claim.row, claim.than} <= present)
        examples = tuple(example for example in self.examples if {*example.through} <= present)
        return dataclasses.replace(self, rows=rows, claims=claims, examples=examples)


@dataclasses.dataclass(frozen=True)
class TableSpec:
    """A table, a figure or a set of examples of a paper.

    Attributes:
      name: PAPER/FILE without its ending.
      source: the paper, and its table or figure.
      columns: titles of metrics and of the paper's further columns.
      units: by metric.
      listed: as `TableFile`.
    """

    name: str
    title: str
    source: str
    kind: Kind
    columns: Mapping[str, str]
    corpora: Mapping[str, Corpus]
    scales: Mapping[str, Scale]
    units: Mapping[str, str]
    listed: str


def read_tables(folder: Path) -> dict[str, TableSpec]:
    """All tables of a folder, by name.

    Raises:
      UserError: as `read_table`.
    """
    files = sorted(folder.glob("*/*.toml"))
    return {spec.name: spec for spec in map(read_table, files)}


def read_table(path: Path) -> TableSpec:
    """A table file, combined with the shared file beside its folder.

    Raises:
      UserError: if it cannot be read, a field is missing, unknown or of another type, or a row,
        corpus, scale or setting does not exist.
    """
    # The shared file has corpora and settings; those of the table take precedence.
    common = path.parent.parent / "shared.toml"
    file = read_toml(path, TableFile)
    shared = read_toml(common, SharedFile) if common.exists() else SharedFile()
    corpora = {
        name: dataclasses.replace(corpus, folder=corpus.folder or name)
        for name, corpus in {**shared.data, **file.data}.items()
    }

    # Each scale, whose rows must name known corpora.
    scales = {}
    for name, entry in file.scales.items():
        with error_context(f"{path}: scales.{name}"):
            scales[name] = _scale(name, _with_setting(entry, shared.settings), file)
            for row in scales[name].rows:
                require_known({row.data} - {""}, corpora, f"row {row.name!r}: no data")

    name = f"{path.parent.name}/{path.stem}"
    return TableSpec(
        name,
        file.title,
        file.source,
        file.kind,
        file.columns,
        corpora,
        scales,
        shared.units,
        file.listed,
    )


def _with_setting(entry: ScaleEntry, settings: Mapping[str, ScaleEntry]) -> ScaleEntry:
    """A scale, or a setting, with the fields of the setting that it names."""
    if not entry.setting:
        return entry
    require_known([entry.setting], settings, "no setting")
    base = _with_setting(settings[entry.setting], settings)
    values = _joined([base, entry], ScaleEntry)
    return ScaleEntry(**{**values, "note": f"{base.note} {entry.note}".strip()})


def _joined(settings: Sequence[Setting], fields_of: type[Setting] = Setting) -> dict[str, Any]:
    """The fields of settings, each of which inherits its empty fields from the one before it, and
    adds its overrides."""
    values: dict[str, Any] = {}
    for name in (field.name for field in dataclasses.fields(fields_of)):
        given = [getattr(setting, name) for setting in settings]
        values[name] = next(filter(None, reversed(given)), given[-1])
    values["overrides"] = {k: v for setting in settings for k, v in setting.overrides.items()}
    return values


def _scale(name: str, entry: ScaleEntry, file: TableFile) -> Scale:
    # The rows, varied, and the claims that this scale has.
    metrics = entry.metrics or file.metrics
    by_name = {row.name: row for row in file.rows}
    chosen = [by_name[row] for row in entry.rows or by_name]
    rows = [r for row in chosen if name in (row.scales or [name]) for r in _varied(row)]
    claims = [claim for claim in file.claims if name in (claim.scales or [name])]
    claim_metrics = entry.claim_metrics or file.claim_metrics or metrics[:1]

    # Claims are judged by the scale's first metric unless the files name others.
    scale = Scale(
        name,
        entry.split or file.split,
        metrics,
        entry.paired,
        entry.trained_on,
        entry.target,
        entry.unavailable,
        entry.matched_times,
        entry.timed_steps or 10,
        entry.curves,
        entry.note,
        () if entry.unavailable else tuple(_row(row, entry, name) for row in rows),
        tuple(claim.judged_at(name, claim_metrics) for claim in claims),
        file.examples,
    )
    return scale.only((), None)


def _varied(row: RowEntry) -> list[RowEntry]:
    """The rows of the values that a row varies; the row itself if it varies none."""
    rows = []
    for field, values in row.vary.items():
        for value in values:
            overrides = {**row.overrides, field: value}
            rows.append(dataclasses.replace(row, name=f"{row.name}, {value}", overrides=overrides))
    return rows or [row]


def _row(entry: RowEntry, scale: ScaleEntry, name: str) -> Row:
    values = _joined([scale, entry, entry.by_scale.get(name, Setting())])
    values["overrides"] = {key: str(value) for key, value in values["overrides"].items()}
    values["seeds"] = values["seeds"] or 1
    values["seen"] = values["seen"] or 0
    row = Row(**{**vars(entry), **values}, varied=tuple(entry.overrides))
    has_source = row.config or row.missing or row.ensemble
    require(bool(has_source), f"row {row.name!r}: no 'config'")
    return row
