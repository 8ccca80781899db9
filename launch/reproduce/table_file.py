"""Table files as they are written: tables/PAPER/NAME.toml and tables/shared.toml.

A table file has the fields of `TableSpec`, a shared one the corpora and settings of several tables.
`launch.reproduce.spec` combines them, and sets the derived fields, which a file does not have:

* a scale with `setting = "NAME"` inherits the fields of `[settings.NAME]` that it leaves empty;
  overrides and notes are joined;
* a row inherits config, data, seeds and overrides of the scale in the same way; `by_scale.NAME` in
  a row has those for one scale;
* a row is in all scales, or only in its `scales`; a scale with `rows` has only these rows;
* a claim or an example is in the scales that have all of its rows, or in `scales` of them; a claim
  without a metric is judged by the first of the scale's `claim_metrics`.
"""

import dataclasses
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from common_jax.errors import UserError, error_context
from common_jax.fields import DERIVED, from_mapping, require, suggestion
from common_jax.io.files import read_lines

T = TypeVar("T")
Kind = Literal["table", "figure", "examples", "speed"]
PARAMETERS = "parameters"
HOURS = "hours_to_target"
SPEEDS = ("train_speed", "decode_speed")
MEASURED = (PARAMETERS, HOURS, *SPEEDS)  # metrics that no task has


def _derived(default: Any) -> Any:
    """A field that is derived from those of the file."""
    return dataclasses.field(default=default, metadata={DERIVED: True})


@dataclasses.dataclass(frozen=True)
class Corpus:
    """Data that a row needs.

    Attributes:
      files: FILE or FILE.gz, or a folder if it ends in "/"; empty if the first run downloads it.
      origin: the public page that they come from.
      note: on their format or selection.
      folder: its name in the folder of all data; by default the corpus's own.
    """

    files: tuple[str, ...]
    origin: str
    note: str = ""
    folder: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Setting:
    """How rows are trained; what is empty is inherited.

    Attributes:
      config: a config file.
      data: the corpus that `data.dir` is set to; "" if the config generates its own.
      seeds: their number, as planned before the trials; once one is stored, it is only raised.
      seen: how many of them had been stored when the rule of the verdicts was fixed.
      overrides: fields of the config; {NAME} in a value is the folder of a corpus.
    """

    config: str = ""
    data: str = ""
    seeds: int | None = None
    seen: int = 0
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        require(self.seeds is None or self.seeds > 0, f"seeds = {self.seeds}: at least 1")


@dataclasses.dataclass(frozen=True)
class Target:
    """Of `HOURS`: a metric of dev, and the value to reach."""

    metric: str
    value: float


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """Of a row's seeds in their order, `runs` at a time: the means of their probabilities."""

    of: str
    runs: int

    def __post_init__(self) -> None:
        require(self.runs > 1, f"runs = {self.runs}: at least 2")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Row(Setting):
    """`[[rows]]`: a system of a table, or a point of a figure; at a scale, with what it inherits.

    Attributes:
      name: as in the paper.
      system: the argument of the config file.
      scales: names of scales.
      vary: a field's values; the row stands for a row "NAME, VALUE" for each.
      by_scale: what differs at a scale.
      ensemble: what it is instead of trials of its own.
      published: the paper's numbers by metric, and its further columns.
      note: differences from the paper's system.
      missing: the reason why it has no trials; "" if it has.
      trained: whether its result depends on the seed; False of a system without training, whose one
        result has no deviation.
      varied: the fields in the row's own overrides.
    """

    name: str
    system: str = ""
    scales: tuple[str, ...] = ()
    vary: Mapping[str, tuple[Any, ...]] = dataclasses.field(default_factory=dict)
    by_scale: Mapping[str, Setting] = dataclasses.field(default_factory=dict)
    ensemble: Ensemble | None = None
    published: Mapping[str, float] = dataclasses.field(default_factory=dict)
    note: str = ""
    missing: str = ""
    trained: bool = True
    varied: tuple[str, ...] = _derived(())

    @property
    def file(self) -> str:
        """`--config` of its runs."""
        return f"{self.config}:{self.system}" if self.system else self.config

    @property
    def planned(self) -> int:
        """The number of its seeds."""
        return self.seeds or 1


@dataclasses.dataclass(frozen=True)
class Claim:
    """A conclusion of the paper on two rows.

    Attributes:
      row, than: names of rows, A and B.
      metric: by which it is judged; by default the first of the scale's `claim_metrics`.
      metric_at: the same at the scales named, fixed before trials: that of the paper, if the noise
        of the page allows to detect the paper's difference by the planned seeds.
      beside: metrics that are printed beside it.
      not_judged: by scale, the reason why its rows cannot decide it.
      awaits: scales where it is decided on the `seen` seeds only by a rule that was chosen after
        them: the later seeds alone judge it.
      than_published: whether B is the paper's number of the row `than`, which need not have runs.
      device: the kind of device on which the paper measured a speed: "GPU".
      ours: whether it is a question of this suite, and no statement of the paper.
      repeats: the table with the same statement, which is listed there.
      relation: "better", A - B > 0; "equal", A = B; "comparable", |A - B| < `within`; "ratio",
        A / B > `factor`.
      within, factor: bounds.
      scales: names of scales.
    """

    text: str
    row: str
    than: str
    metric: str = ""
    metric_at: Mapping[str, str] = dataclasses.field(default_factory=dict)
    beside: tuple[str, ...] = ()
    not_judged: Mapping[str, str] = dataclasses.field(default_factory=dict)
    awaits: tuple[str, ...] = ()
    relation: Literal["better", "equal", "comparable", "ratio"] = "better"
    within: float = 0.0
    factor: float = 0.0
    than_published: bool = False
    device: str = ""
    ours: bool = False
    repeats: str = ""
    scales: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        metrics = {self.metric} - {""}
        require("nll" not in metrics, "nll: better is lower; log_likelihood can be claimed")
        comparable = self.relation == "comparable"
        require(not comparable or self.within > 0, "comparable: no 'within', a bound above 0")
        if self.relation == "ratio":
            rated = metrics <= {*SPEEDS} and self.factor > 0
            require(rated, "a ratio is one of speeds, with a 'factor' above 0")
        if metrics:
            equal = self.relation == "equal"
            require((metrics == {PARAMETERS}) == equal, "equal goes with parameters")

    def judged_at(self, scale: str, metrics: Sequence[str]) -> "Claim":
        """The claim at a scale, on its own metric or else on the first of the scale's."""
        metric = self.metric_at.get(scale, self.metric) or metrics[0]
        further = tuple(name for name in metrics if name != metric)
        beside = self.beside or (() if self.metric else further)
        claim = dataclasses.replace(self, metric=metric, beside=beside)
        if claim.relation == "better" and claim.metric in SPEEDS:
            claim = dataclasses.replace(claim, relation="ratio", factor=1.0)
        return claim


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
    through: tuple[str, ...] = ()
    paper: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Scale(Setting):
    """`[scales.NAME]`, or `[settings.NAME]` of the shared file: a setting in which a table is
    reproduced, such as the size of the models and the data.

    Attributes:
      setting: the name of the setting that it inherits.
      split: of the metrics.
      metrics: names in result.json, or of `MEASURED`; a figure shows the first.
      claim_metrics: by the first a claim without a metric is judged, the others are printed
        beside it; by default the table's, or else the first metric.
      paired: whether rows are compared by seed: fixed before trials, true where the stored rows'
        common seeds, three or more, correlate above 0.5.
      trained_on: the training data in words, for the page's head.
      target: of `HOURS`.
      rows: names of rows; all by default.
      unavailable: the reason why it cannot be reproduced; "" if it can.
      matched_times: whether the rows have the paper's sizes and learning rates tuned for each, so
        that their hours can be compared.
      timed_steps: number of steps in a round of the measurement of speed; 10 by default.
      curves: whether the page has the learning curves of its rows.
      note: how it differs from the paper's setting.
      systems: its rows.
    """

    setting: str = ""
    split: str = ""
    metrics: tuple[str, ...] = ()
    claim_metrics: tuple[str, ...] = ()
    paired: bool = False
    trained_on: str = ""
    target: Target | None = None
    rows: tuple[str, ...] = ()
    unavailable: str = ""
    matched_times: bool = False
    timed_steps: int = 0
    curves: bool = False
    note: str = ""
    name: str = _derived("")
    systems: tuple[Row, ...] = _derived(())
    claims: tuple[Claim, ...] = _derived(())
    examples: tuple[Example, ...] = _derived(())

    @property
    def made(self) -> list[Row]:
        """The rows with trials."""
        return [row for row in self.systems if not row.missing and not row.ensemble]

    def row(self, name: str) -> Row:
        """The row of that name."""
        (row,) = (row for row in self.systems if row.name == name)
        return row

    def only(self, names: Sequence[str], seeds: int | None) -> "Scale":
        """The scale with the named rows, all if there are no names, and another number of seeds.

        Raises:
          UserError: for an unknown name.
        """
        require_known(names, [row.name for row in self.systems], "--rows: no row")
        rows = tuple(
            dataclasses.replace(row, seeds=(seeds or row.planned) if row.trained else 1)
            for row in self.systems
            if not names or row.name in names
        )

        present = {row.name for row in rows}
        claims = tuple(claim for claim in self.claims if {claim.row, claim.than} <= present)
        examples = tuple(example for example in self.examples if {*example.through} <= present)
        return dataclasses.replace(self, systems=rows, claims=claims, examples=examples)


@dataclasses.dataclass(frozen=True)
class TableSpec:
    """A table file: a table, a figure or a set of examples of a paper.

    Attributes:
      source: the paper, and its table or figure.
      split, metrics, claim_metrics: of scales that have none.
      columns: titles of metrics and of the paper's further columns.
      listed: the scale by which the list of statements judges the claims: the largest with planned
        seeds; a claim that it does not have is listed at the first scale with it that has a page.
      name: PAPER/FILE without its ending.
      units: by metric.
    """

    title: str
    source: str
    kind: Kind
    split: str
    metrics: tuple[str, ...]
    scales: Mapping[str, Scale]
    claim_metrics: tuple[str, ...] = ()
    listed: str = ""
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    data: Mapping[str, Corpus] = dataclasses.field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    claims: tuple[Claim, ...] = ()
    examples: tuple[Example, ...] = ()
    name: str = _derived("")
    units: Mapping[str, str] = dataclasses.field(default_factory=dict, metadata={DERIVED: True})

    def __post_init__(self) -> None:
        rows = [row.name for row in self.rows]
        require(len({*rows}) == len(rows), "two rows of one name")
        require(bool(self.scales), "no [scales.NAME]")
        require_known({self.listed} - {""}, self.scales, "listed: no scale")
        for name, scale in self.scales.items():
            require_known(scale.rows, rows, f"scales.{name}: no row")
        for n, row in enumerate(self.rows):
            require_known((*row.scales, *row.by_scale), self.scales, f"rows[{n}]: no scale")
            require_known([row.ensemble.of] if row.ensemble else (), rows, f"rows[{n}]: no row")
        for n, claim in enumerate(self.claims):
            require_known((claim.row, claim.than), rows, f"claims[{n}]: no row")
            scales = (*claim.scales, *claim.metric_at, *claim.not_judged, *claim.awaits)
            require_known(scales, self.scales, f"claims[{n}]: no scale")
        for n, example in enumerate(self.examples):
            require_known(example.through, rows, f"examples[{n}]: no row")


@dataclasses.dataclass(frozen=True)
class SharedFile:
    """The shared file: corpora, and settings that scales and settings inherit.

    Attributes:
      units: by metric; metrics of one unit are compared with each other.
    """

    units: Mapping[str, str] = dataclasses.field(default_factory=dict)
    data: Mapping[str, Corpus] = dataclasses.field(default_factory=dict)
    settings: Mapping[str, Scale] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, entry in self.settings.items():
            require_known({entry.setting} - {""}, self.settings, f"settings.{name}: no setting")


def read_toml(path: Path, schema: type[T]) -> T:
    """A file as the dataclass `schema`.

    Raises:
      UserError: if it is not TOML, or as `from_mapping`.
    """
    with error_context(path):
        try:
            values = tomllib.loads("\n".join(read_lines(path)))
        except tomllib.TOMLDecodeError as error:
            raise UserError(f"not TOML ({error})") from error
        return from_mapping(schema, values)


def require_known(names: Iterable[str], known: Collection[str], message: str) -> None:
    """Raises UserError, of the message and the name, for a name that is not known."""
    for name in names:
        require(name in known, f"{message} {name!r}{suggestion(name, [*known])}")
