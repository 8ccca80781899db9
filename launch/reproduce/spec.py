"""The rows, claims and examples of a paper's table at each of its scales, from its file."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common_jax.errors import error_context
from common_jax.fields import require
from launch.reproduce.table_file import (
    Row,
    Scale,
    Setting,
    SharedFile,
    TableSpec,
    read_toml,
    require_known,
)


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
    file = read_toml(path, TableSpec)
    shared = read_toml(common, SharedFile) if common.exists() else SharedFile()
    corpora = {
        name: dataclasses.replace(corpus, folder=corpus.folder or name)
        for name, corpus in {**shared.data, **file.data}.items()
    }

    # Each scale, whose rows must name known corpora.
    scales = {}
    for name, scale in file.scales.items():
        with error_context(f"{path}: scales.{name}"):
            scales[name] = _scale(name, _with_setting(scale, shared.settings), file)
            for row in scales[name].systems:
                require_known({row.data} - {""}, corpora, f"row {row.name!r}: no data")

    name = f"{path.parent.name}/{path.stem}"
    return dataclasses.replace(file, name=name, data=corpora, scales=scales, units=shared.units)


def _with_setting(scale: Scale, settings: Mapping[str, Scale]) -> Scale:
    """A scale, or a setting, with the fields of the setting that it names."""
    if not scale.setting:
        return scale
    require_known([scale.setting], settings, "no setting")
    base = _with_setting(settings[scale.setting], settings)
    values = _joined([base, scale], Scale)
    return Scale(**{**values, "note": f"{base.note} {scale.note}".strip()})


def _joined(settings: Sequence[Setting], fields_of: type[Setting] = Setting) -> dict[str, Any]:
    """The fields of settings, each of which inherits its empty fields from the one before it, and
    adds its overrides."""
    values: dict[str, Any] = {}
    for name in (field.name for field in dataclasses.fields(fields_of)):
        given = [getattr(setting, name) for setting in settings]
        values[name] = next(filter(None, reversed(given)), given[-1])
    values["overrides"] = {k: v for setting in settings for k, v in setting.overrides.items()}
    return values


def _scale(name: str, scale: Scale, file: TableSpec) -> Scale:
    # The rows, varied, and the claims that this scale has.
    metrics = scale.metrics or file.metrics
    by_name = {row.name: row for row in file.rows}
    chosen = [by_name[row] for row in scale.rows or by_name if not scale.unavailable]
    rows = [r for row in chosen if name in (row.scales or [name]) for r in _varied(row)]
    claims = [claim for claim in file.claims if name in (claim.scales or [name])]

    # Claims are judged by the scale's first metric unless the files name others.
    claim_metrics = scale.claim_metrics or file.claim_metrics or metrics[:1]
    combined = dataclasses.replace(
        scale,
        name=name,
        split=scale.split or file.split,
        metrics=metrics,
        timed_steps=scale.timed_steps or 10,
        systems=tuple(_row(row, scale, name) for row in rows),
        claims=tuple(claim.judged_at(name, claim_metrics) for claim in claims),
        examples=file.examples,
    )
    return combined.only((), None)


def _varied(row: Row) -> list[Row]:
    """The rows of the values that a row varies; the row itself if it varies none."""
    rows = []
    for field, values in row.vary.items():
        for value in values:
            overrides = {**row.overrides, field: value}
            rows.append(dataclasses.replace(row, name=f"{row.name}, {value}", overrides=overrides))
    return rows or [row]


def _row(row: Row, scale: Scale, name: str) -> Row:
    """A row with what it inherits from a scale of this name."""
    values = _joined([scale, row, row.by_scale.get(name, Setting())])
    values["overrides"] = {key: str(value) for key, value in values["overrides"].items()}
    combined = dataclasses.replace(row, **values, varied=tuple(row.overrides))
    has_source = combined.config or row.missing or row.ensemble
    require(bool(has_source), f"row {row.name!r}: no 'config'")
    return combined
