"""Table files: which trials make a table or figure of a paper, and what the paper says of it.

tables/PAPER/NAME.toml has the fields of `TableSpec`; `[data.NAME]` is a `Corpus`, `[scales.NAME]` a
`Scale`, `[[rows]]` are `Row`s and `[[claims]]` are `Claim`s.
"""

import dataclasses
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common_jax.errors import UserError
from common_jax.fields import suggestion
from common_jax.io.files import read_lines
from common_jax.io.json_files import Node

KINDS = ("table", "figure", "examples")


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Data that a scale needs.

    Attributes:
      files: that its folder must hold; FILE or FILE.gz.
      origin: the public page that they come from.
    """

    files: tuple[str, ...]
    origin: str


@dataclasses.dataclass(frozen=True)
class Scale:
    """A setting in which a table is made.

    Attributes:
      config: the config file.
      data: the corpus that `data.dir` is set to; "" if the config generates its own.
      seeds: of each row.
      overrides: fields of all rows; {NAME} in a value is the folder of a corpus.
      split, metrics: as `TableSpec`'s, where they differ from it.
    """

    config: str
    data: str
    seeds: int
    overrides: Mapping[str, str]
    split: str
    metrics: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Row:
    """A system of a table, or a point of a figure.

    Attributes:
      name: as in the paper.
      system: the config file's argument; "" for its default.
      overrides: fields of the config.
      scales: names of those that have the row; empty for all.
      published: the paper's numbers by metric, and its further columns.
      missing: why there can be no trial; "" if there can be one.
    """

    name: str
    system: str
    overrides: Mapping[str, str]
    scales: tuple[str, ...]
    published: Mapping[str, float]
    missing: str


@dataclasses.dataclass(frozen=True)
class Claim:
    """A conclusion of the paper: the metric of `row` is larger than that of the row `than`."""

    text: str
    row: str
    than: str
    metric: str


@dataclasses.dataclass(frozen=True)
class TableSpec:
    """A table, a figure or a set of examples of a paper.

    Attributes:
      name: PAPER/FILE without its ending.
      source: the paper, and where it is there.
      split: whose metrics are shown.
      metrics: their names in result.json; the first is that of a figure.
      unavailable: why it cannot be made; "" if it can.
    """

    name: str
    title: str
    source: str
    kind: str
    split: str
    metrics: tuple[str, ...]
    unavailable: str
    corpora: Mapping[str, Corpus]
    scales: Mapping[str, Scale]
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]

    def rows_of(self, scale: str) -> list[Row]:
        """The rows of a scale that are made by trials."""
        return [
            row for row in self.rows if not row.missing and (not row.scales or scale in row.scales)
        ]


def read_tables(folder: Path) -> dict[str, TableSpec]:
    """All tables of a folder, by name.

    Raises:
      UserError: for a file that is no table, with the location of what is wrong.
    """
    files = sorted(folder.glob("*/*.toml"))
    return {spec.name: spec for spec in map(read_table, files)}


def read_table(path: Path) -> TableSpec:
    """A table file.

    Raises:
      UserError: if it cannot be read, a field is missing, unknown or of another type, or a row,
        corpus or scale is named that is not there.
    """
    try:
        node = Node(tomllib.loads("\n".join(read_lines(path))), str(path))
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path}: not TOML ({error})") from error
    _require_fields(node, TableSpec, rename={"data": "corpora"}, without=("name",))
    unavailable = node.get("unavailable", str, "")
    kind = node.get("kind", str)
    _require(kind in KINDS, node, f"kind {kind!r}: must be {' | '.join(KINDS)}")
    split, metrics = node.get("split", str, ""), tuple(node.get("metrics", list[str], []))
    corpora = {name: _corpus(below) for name, below in _named(node, "data")}
    scales = {name: _scale(below, split, metrics) for name, below in _named(node, "scales")}
    rows = tuple(map(_row, node.nodes("rows", [])))
    claims = tuple(map(_claim, node.nodes("claims", [])))
    names = [row.name for row in rows]
    for scale in scales.values():
        wrong = scale.data and scale.data not in corpora
        _require(not wrong, node, f"no [data.{scale.data}]")
    for row in rows:
        _require(names.count(row.name) == 1, node, f"two rows {row.name!r}")
        for name in row.scales:
            _require(name in scales, node, f"row {row.name!r}: no [scales.{name}]")
    for claim in claims:
        for name in (claim.row, claim.than):
            _require(name in names, node, f"claim {claim.text!r}: no row {name!r}")
    _require(bool(scales) != bool(unavailable), node, "needs either scales or `unavailable`")
    title, source = node.get("title", str), node.get("source", str)
    head = (f"{path.parent.name}/{path.stem}", title, source, kind, split, metrics, unavailable)
    return TableSpec(*head, corpora, scales, rows, claims)


def _corpus(node: Node) -> Corpus:
    _require_fields(node, Corpus)
    return Corpus(tuple(node.get("files", list[str])), node.get("origin", str))


def _scale(node: Node, split: str, metrics: tuple[str, ...]) -> Scale:
    _require_fields(node, Scale)
    seeds = node.get("seeds", int, 1)
    _require(seeds > 0, node, f"seeds = {seeds}: at least 1")
    return Scale(
        node.get("config", str),
        node.get("data", str, ""),
        seeds,
        _overrides(node),
        node.get("split", str, split),
        tuple(node.get("metrics", list[str], [*metrics])),
    )


def _row(node: Node) -> Row:
    _require_fields(node, Row)
    return Row(
        node.get("name", str),
        node.get("system", str, ""),
        _overrides(node),
        tuple(node.get("scales", list[str], [])),
        node.get("published", dict[str, float], {}),
        node.get("missing", str, ""),
    )


def _claim(node: Node) -> Claim:
    _require_fields(node, Claim)
    return Claim(*(node.get(field.name, str) for field in dataclasses.fields(Claim)))


def _overrides(node: Node) -> dict[str, str]:
    """Values of any type as on the command line."""
    return {key: str(value) for key, value in node.get("overrides", dict, {}).items()}


def _named(node: Node, key: str) -> list[tuple[str, Node]]:
    below = node.node(key, {})
    return [(name, below.node(name)) for name in below.value]


def _require_fields(
    node: Node, kind: Any, rename: Mapping[str, str] | None = None, without: tuple[str, ...] = ()
) -> None:
    """Raises UserError for a field that `kind` lacks."""
    shown = {new: old for old, new in (rename or {}).items()}
    names = [field.name for field in dataclasses.fields(kind) if field.name not in without]
    known = [shown.get(name, name) for name in names]
    for name in node.value:
        _require(name in known, node, f"unknown field {name!r}{suggestion(name, known)}")


def _require(condition: bool, node: Node, message: str) -> None:
    if not condition:
        raise UserError(f"{node.place}: {message}")
