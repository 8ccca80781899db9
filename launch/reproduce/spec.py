"""Table files: the trials of a paper's table or figure, and the paper's numbers and claims.

tables/PAPER/NAME.toml has the fields of `TableSpec`; `[data.NAME]` is a `Corpus`. Each
`[scales.NAME]` is combined with `[[rows]]`, `[[claims]]` and `[[examples]]` to a `Scale`:

* a scale with `setting = "NAME"` inherits the fields of `[settings.NAME]` unless it has its own;
  overrides and notes are joined;
* a row inherits config, data, seeds and overrides of the scale unless it has its own;
  `by_scale.NAME` in a row has seeds and overrides for one scale;
* a row is in all scales, or only in its `scales`; a scale with `rows` has only these rows;
* a claim or an example is in the scales that have all of its rows, or in `scales` of them; a claim
  without a metric is judged by each of the scale's `claim_metrics`, by default the first metric.

tables/shared.toml has the corpora and settings of several tables.
"""

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from common_jax.errors import UserError
from common_jax.fields import suggestion
from common_jax.io.files import read_lines
from common_jax.io.json_files import Node

KINDS = ("table", "figure", "examples", "speed")
RELATIONS = ("better", "equal", "comparable", "ratio")
PARAMETERS, HOURS = "parameters", "hours_to_target"
SPEEDS = ("train_speed", "decode_speed")
MEASURED = (PARAMETERS, HOURS, *SPEEDS)  # metrics that no task has


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Data that a row needs.

    Attributes:
      folder: its name in the folder of all data.
      files: FILE or FILE.gz, or a folder if it ends in "/"; empty if the first run downloads it.
      origin: the public page that they come from.
      note: on their format or selection.
    """

    folder: str
    files: tuple[str, ...]
    origin: str
    note: str


@dataclasses.dataclass(frozen=True)
class Row:
    """A system of a table, or a point of a figure, at a scale.

    Attributes:
      name: as in the paper.
      file: `--config` of its runs.
      data: the corpus that `data.dir` is set to; "" if the config generates its own.
      overrides: fields of the config; {NAME} in a value is the folder of a corpus.
      varied: the fields in the row's own overrides.
      seeds: their number.
      published: the paper's numbers by metric, and its further columns.
      note: differences from the paper's system.
      missing: the reason why it has no trials; "" if it has.
    """

    name: str
    file: str
    data: str
    overrides: Mapping[str, str]
    varied: tuple[str, ...]
    seeds: int
    published: Mapping[str, float]
    note: str
    missing: str


@dataclasses.dataclass(frozen=True)
class Claim:
    """A conclusion of the paper on two rows.

    Attributes:
      row, than: names of rows, A and B.
      metrics: for each of which it must hold.
      relation: "better", A - B > 0; "equal", A = B; "comparable", |A - B| < `within`; "ratio",
        A / B > `factor`.
      within, factor: bounds.
    """

    text: str
    row: str
    than: str
    metrics: tuple[str, ...]
    relation: Literal["better", "equal", "comparable", "ratio"]
    within: float
    factor: float


@dataclasses.dataclass(frozen=True)
class Example:
    """Texts that rows are applied to.

    Attributes:
      texts: one input.
      through: names of rows, each applied to the result of the one before; empty for all rows, each
        applied to the texts.
      paper: the paper's result.
    """

    name: str
    texts: tuple[str, ...]
    through: tuple[str, ...]
    paper: str


@dataclasses.dataclass(frozen=True)
class Scale:
    """A setting in which a table is reproduced, such as the size of the models and the data.

    Attributes:
      split: of the metrics.
      metrics: names in result.json, or of `MEASURED`; a figure shows the first.
      target: of `HOURS`: a metric of dev, and its value.
      unavailable: the reason why it cannot be reproduced; "" if it can.
      timed_steps: number of steps in a round of the measurement of speed.
      curves: whether the page has the learning curves of its rows.
      note: how it differs from the paper's setting.
    """

    name: str
    split: str
    metrics: tuple[str, ...]
    target: tuple[str, float] | None
    unavailable: str
    timed_steps: int
    curves: bool
    note: str
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    examples: tuple[Example, ...]

    @property
    def made(self) -> list[Row]:
        """The rows with trials."""
        return [row for row in self.rows if not row.missing]

    def only(self, names: Sequence[str], seeds: int | None) -> "Scale":
        """The scale with the named rows, all if there are no names, and another number of seeds.

        Raises:
          UserError: for an unknown name.
        """
        known = [row.name for row in self.rows]
        for name in names:
            if name not in known:
                raise UserError(f"--rows: no row {name!r}{suggestion(name, known)}")
        rows = tuple(
            dataclasses.replace(row, seeds=seeds or row.seeds)
            for row in self.rows
            if not names or row.name in names
        )
        has = lambda needed: {*needed} <= {row.name for row in rows}
        claims = tuple(claim for claim in self.claims if has((claim.row, claim.than)))
        examples = tuple(one for one in self.examples if has(one.through))
        return dataclasses.replace(self, rows=rows, claims=claims, examples=examples)


@dataclasses.dataclass(frozen=True)
class TableSpec:
    """A table, a figure or a set of examples of a paper.

    Attributes:
      name: PAPER/FILE without its ending.
      source: the paper, and its table or figure.
      columns: titles of metrics and of the paper's further columns.
    """

    name: str
    title: str
    source: str
    kind: str
    columns: Mapping[str, str]
    corpora: Mapping[str, Corpus]
    scales: Mapping[str, Scale]


_TABLE = ("title", "source", "kind", "split", "metrics", "columns", "data", "scales", "rows",
          "claims", "examples")  # fmt: skip
_SETTING = ("config", "data", "seeds", "overrides")
_SCALE = (*_SETTING, "setting", "split", "metrics", "claim_metrics", "target", "rows",
          "unavailable", "timed_steps", "curves", "note")  # fmt: skip
_ROW = (*_SETTING, "name", "system", "scales", "by_scale", "published", "note", "missing")
_CLAIM = ("text", "row", "than", "metric", "metrics", "relation", "within", "factor", "scales")


def read_tables(folder: Path) -> dict[str, TableSpec]:
    """All tables of a folder, by name.

    Raises:
      UserError: as `read_table`.
    """
    files = sorted(folder.glob("*/*.toml"))
    return {spec.name: spec for spec in map(read_table, files)}


def read_table(path: Path) -> TableSpec:
    """A table file.

    Raises:
      UserError: if it cannot be read, a field is missing, unknown or of another type, or a row,
        corpus or scale does not exist.
    """
    common = path.parents[1] / "shared.toml"
    node, shared = _toml(path), _toml(common) if common.exists() else Node({}, str(common))
    _require_fields(node, _TABLE)
    _require_fields(shared, ("data", "settings"))
    kind = node.get("kind", str)
    _require(kind in KINDS, node, f"kind {kind!r}: must be {' | '.join(KINDS)}")
    both = (*_named(shared, "data"), *_named(node, "data"))
    corpora = {name: _corpus(below, name) for name, below in both}
    settings = dict(_named(shared, "settings"))
    rows = {row.get("name", str): row for row in node.nodes("rows", [])}
    _require(len(rows) == len(node.get("rows", list, [])), node, "two rows of one name")
    scales = {
        name: _scale(name, _with_setting(below, settings), node, rows)
        for name, below in _named(node, "scales")
    }
    _require(bool(scales), node, "no [scales.NAME]")
    for one in (*rows.values(), *node.nodes("claims", [])):
        for name in (*one.get("scales", list[str], []), *one.get("by_scale", dict, {})):
            _require(name in scales, one, f"no [scales.{name}]")
    for scale in scales.values():
        for row in scale.rows:
            wrong = row.data and row.data not in corpora
            _require(not wrong, node, f"row {row.name!r}: no [data.{row.data}]")
    title, source = node.get("title", str), node.get("source", str)
    columns = node.get("columns", dict[str, str], {})
    name = f"{path.parent.name}/{path.stem}"
    return TableSpec(name, title, source, kind, columns, corpora, scales)


def _corpus(node: Node, name: str) -> Corpus:
    _require_fields(node, ("folder", "files", "origin", "note"))
    folder, files = node.get("folder", str, name), tuple(node.get("files", list[str]))
    return Corpus(folder, files, node.get("origin", str), node.get("note", str, ""))


def _with_setting(node: Node, settings: Mapping[str, Node]) -> Node:
    """A scale, or a setting, with the fields of the setting that it names."""
    _require_fields(node, _SCALE)
    name = node.get("setting", str, "")
    if not name:
        return node
    _require(name in settings, node, f"no setting {name!r}{suggestion(name, [*settings])}")
    base = _with_setting(settings[name], settings).value
    joined = {
        "overrides": base.get("overrides", {}) | node.get("overrides", dict, {}),
        "note": f"{base.get('note', '')} {node.get('note', str, '')}".strip(),
    }
    return Node({**base, **node.value, **joined}, node.place)


def _scale(name: str, node: Node, table: Node, rows: Mapping[str, Node]) -> Scale:
    named = node.get("rows", list[str], [*rows])
    for row in named:
        _require(row in rows, node, f"no row {row!r}")
    metrics = tuple(node.get("metrics", list[str], table.get("metrics", list[str])))
    judged_by = node.get("claim_metrics", list[str], [metrics[0]])
    target = node.node("target", {})
    split = node.get("split", str, table.get("split", str))
    unavailable = node.get("unavailable", str, "")
    scale = Scale(
        name,
        split,
        metrics,
        (target.get("metric", str), target.get("value", float)) if target.value else None,
        unavailable,
        node.get("timed_steps", int, 10),
        node.get("curves", bool, False),
        node.get("note", str, ""),
        tuple(
            _row(row, node, name)
            for row in map(rows.__getitem__, named)
            if name in row.get("scales", list[str], [name]) and not unavailable
        ),
        tuple(
            _claim(claim, metric, rows)
            for claim in table.nodes("claims", [])
            if name in claim.get("scales", list[str], [name])
            for metric in ([""] if {"metric", "metrics"} & {*claim.value} else judged_by)
        ),
        tuple(_example(example, rows) for example in table.nodes("examples", [])),
    )
    return scale.only((), None)


def _row(node: Node, scale: Node, name: str) -> Row:
    _require_fields(node, _ROW)
    own, missing = node.node("by_scale", {}).node(name, {}), node.get("missing", str, "")
    _require_fields(own, ("seeds", "overrides"))
    overrides = [one.get("overrides", dict, {}) for one in (scale, node, own)]
    seeds = own.get("seeds", int, node.get("seeds", int, scale.get("seeds", int, 1)))
    _require(seeds > 0, node, f"seeds = {seeds}: at least 1")
    inherited = scale.value.get("config") or (None if not missing else "")
    config, system = node.get("config", str, inherited), node.get("system", str, "")
    return Row(
        node.get("name", str),
        f"{config}:{system}" if system else config,
        node.get("data", str, scale.get("data", str, "")),
        {key: str(value) for of in overrides for key, value in of.items()},
        tuple(overrides[1]),
        seeds,
        node.get("published", dict[str, float], {}),
        node.get("note", str, ""),
        missing,
    )


def _claim(node: Node, metric: str, rows: Mapping[str, Node]) -> Claim:
    _require_fields(node, _CLAIM)
    relation = node.get("relation", str, "better")
    _require(relation in RELATIONS, node, f"relation {relation!r}: one of {', '.join(RELATIONS)}")
    names = tuple(node.get("metrics", list[str], [node.get("metric", str, metric)]))
    _require("nll" not in names, node, "nll: better is lower; log_likelihood can be claimed")
    if relation == "better" and names[0] in SPEEDS:
        relation, factor = "ratio", 1.0
    else:
        factor = node.get("factor", float, None if relation == "ratio" else 1.0)
    within = node.get("within", float, None if relation == "comparable" else 0.0)
    row, than = node.get("row", str), node.get("than", str)
    for name in (row, than):
        _require(name in rows, node, f"no row {name!r}")
    rated = {*names} <= {*SPEEDS} and factor > 0
    _require(rated or relation != "ratio", node, "a ratio is one of speeds, and above 0")
    _require((names == (PARAMETERS,)) == (relation == "equal"), node, "equal goes with parameters")
    return Claim(node.get("text", str), row, than, names, relation, within, factor)  # type: ignore[arg-type]


def _example(node: Node, rows: Mapping[str, Node]) -> Example:
    _require_fields(node, ("name", "texts", "through", "paper"))
    through = tuple(node.get("through", list[str], []))
    for name in through:
        _require(name in rows, node, f"no row {name!r}")
    texts = tuple(node.get("texts", list[str]))
    return Example(node.get("name", str), texts, through, node.get("paper", str, ""))


def _toml(path: Path) -> Node:
    try:
        return Node(tomllib.loads("\n".join(read_lines(path))), str(path))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not TOML ({error})") from error


def _named(node: Node, key: str) -> list[tuple[str, Node]]:
    below = node.node(key, {})
    return [(name, below.node(name)) for name in below.value]


def _require_fields(node: Node, known: Sequence[str]) -> None:
    """Raises UserError for another field."""
    for name in node.value:
        _require(name in known, node, f"unknown field {name!r}{suggestion(name, [*known])}")


def _require(condition: Any, node: Node, message: str) -> None:
    if not condition:
        raise UserError(f"{node.place}: {message}")
