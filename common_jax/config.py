"""Config sections that every task has: optimizer, training, mesh, data source (the paper's results
are in `common_jax.paper_config`).

A section is a frozen dataclass: a field's name, type, default and limit live there once, and
`__post_init__` rejects values that do not fit each other. A config file's `get_config()` returns
`to_config_dict(Config())`, edited.
"""

import dataclasses
import functools
import typing
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar

import ml_collections

from common_jax.columns import Quotes, parse_columns
from common_jax.fields import (
    FORMER,
    Section,
    field_types,
    former_values,
    from_mapping,
    not_negative,
    positive,
    rate,
    require,
    share,
    size,
    split_list,
    suggestion,
    to_mapping,
)
from common_jax.io.files import names_in
from common_jax.io.paths import expand_user
from common_jax.renames import current_class, with_current_keys

T = TypeVar("T")

# The classes of `train.trackers`.
TRACKERS = {
    "tensorboard": "common_jax.training.trackers:TensorBoard",
    "wandb": "common_jax.training.trackers:WandB",
    "trackio": "common_jax.training.trackers:Trackio",
    "mlflow": "common_jax.training.trackers:MLflow",
}


@dataclasses.dataclass(frozen=True)
class OptimizerConfig(Section):
    """An optimizer with global-norm clipping, and the learning rate schedule.

    Attributes:
      name: "adam", "adamax", "adadelta", or "adagrad" with `eps` outside the square root.
      learning_rate: the peak.
      warmup_steps: steps until the peak; 0 starts there.
      warmup: "linear", or "exponential" from a hundredth of the peak.
      schedule: after the peak, "rsqrt" decays with 1/sqrt(step), "constant" does not decay.
      cooldown: the last fraction of `train.steps`, in which the rate is also multiplied by a factor
        that falls linearly from 1 to 0; 0 disables it.
      cooldown_start, cooldown_steps: its first step and length; -1 derives them from `cooldown`.
      b1, b2, eps: Adam's and Adamax's; AdaDelta's rho is `b2`, and AdaGrad uses `eps` only. It is
        above 0, except for AdaGrad with an `initial_sum`: a gradient of 0 is divided by it.
      initial_sum: the initial value of AdaGrad's sums of squares.
      clip_norm: largest global norm of the gradient; 0 disables clipping.
      l2: adds l2 / 2 times the sum of squares of all trained parameters to the loss; reported
        losses do not include it.
      output_norm: largest norm of the weights of each output of a classifier's last layer, to which
        they are scaled down after a step; 0 disables it.
    """

    section: ClassVar[str] = "optimizer"
    name: Literal["adam", "adamax", "adadelta", "adagrad"] = "adam"
    learning_rate: float = positive(1e-3)
    warmup: Literal["linear", "exponential"] = "linear"
    schedule: Literal["rsqrt", "constant"] = "rsqrt"
    warmup_steps: int = size(4000, least=0)
    cooldown: float = share(0.0)
    cooldown_start: int = size(-1, least=-1)
    cooldown_steps: int = size(-1, least=-1)
    b1: float = rate(0.9)
    b2: float = rate(0.98)
    eps: float = not_negative(1e-9)
    initial_sum: float = not_negative(0.0)
    clip_norm: float = not_negative(1.0)
    l2: float = not_negative(0.0)
    output_norm: float = not_negative(0.0)

    def __post_init__(self):
        super().__post_init__()
        is_divisor = self.name != "adagrad" or not self.initial_sum
        message = "optimizer.eps=0: above 0, as a gradient of 0 is divided by it"
        require(self.eps > 0 or not is_divisor, message)

    def unused(self) -> dict[str, str]:
        """Fields without effect given the others, each with the setting that gives it one."""
        users = {"b1": ("adam", "adamax"), "b2": ("adam", "adamax", "adadelta")}
        users["initial_sum"] = ("adagrad",)
        unused = {
            field: f"optimizer.name={names[0]}"
            for field, names in users.items()
            if self.name not in names
        }
        for field in ("cooldown_steps", "cooldown_start"):
            if getattr(self, field) >= 0:
                unused["cooldown"] = f"optimizer.{field}=-1"
        if not self.warmup_steps:
            unused["warmup"] = "optimizer.warmup_steps=1000"
        return unused

    @property
    def derives_cooldown(self) -> bool:
        """Whether the cooldown's start or length depends on `train.steps`."""
        return min(self.cooldown_start, self.cooldown_steps) < 0

    def scheduled(self, steps: int) -> "OptimizerConfig":
        """A copy with the cooldown's start and length for a run of `steps`."""
        start = self.cooldown_start
        length = self.cooldown_steps
        if length < 0:
            length = round(self.cooldown * steps) if start < 0 else max(steps - start, 0)
        if start < 0:
            start = max(steps - length, 0) if length else 0
        return dataclasses.replace(self, cooldown_start=start, cooldown_steps=length)

    @property
    def last_step(self) -> int | None:
        """The first step with learning rate 0, of a `scheduled` config; None without cooldown."""
        return self.cooldown_start + self.cooldown_steps if self.cooldown_steps else None


@dataclasses.dataclass(frozen=True)
class TrainConfig(Section):
    """Length of a run, and intervals of validation, saving and logging.

    Attributes:
      steps: total optimizer steps; increase it to continue a finished run.
      seed: of the parameters, the dropout and the order of the data.
      evaluate_every, checkpoint_every, log_every: steps between validations, saves, log lines.
      best_metric: the dev metric that selects the best checkpoint.
      patience: the run ends after this many validations in a row without a better `best_metric`;
        0 is never.
      compute_dtype: of activations and matrix products; parameters and losses are float32.
      accumulate: number of parts of a batch whose gradients are computed in turn and summed, for
        batches larger than memory or a CPU's cache; the step is the same up to rounding, but for
        dropout, whose masks are drawn for each part.
      steps_per_call: largest number of steps in one dispatch, for steps shorter than its overhead;
        their batches have one shape.
      ema_decay: of an exponential moving average of the parameters, min(ema_decay, (1 + n) /
        (10 + n)) at step n, which validation, scoring and export then use; 0 disables it.
      init_from: the folder of another run, whose best parameters initialize this one.
      max_bad_steps: the run stops after this many steps in a row with a loss or gradient that is
        not finite; such a step only increments the step count.
      keep_checkpoints: number of newest checkpoints to keep beside the best; averaging uses them.
      trackers: where the numbers of metrics.jsonl are also shown: names of `TRACKERS`, separated by
        commas; none if empty.
    """

    section: ClassVar[str] = "train"
    steps: int = size(100_000)
    seed: int = size(0, least=0)
    evaluate_every: int = size(1000)
    checkpoint_every: int = size(1000)
    log_every: int = size(50)
    best_metric: str = "loss"
    patience: int = size(0, least=0)
    compute_dtype: Literal["float32", "bfloat16"] = "float32"
    accumulate: int = size(1)
    steps_per_call: int = size(1)
    ema_decay: float = rate(0.0)
    init_from: str = ""
    max_bad_steps: int = size(10)
    keep_checkpoints: int = size(2, least=2)
    trackers: str = "tensorboard"

    def __post_init__(self):
        super().__post_init__()
        for name in self.tracker_names:
            message = f"train.trackers={self.trackers}: no tracker {name!r}"
            require(name in TRACKERS, f"{message}{suggestion(name, [*TRACKERS])}")

    @property
    def tracker_names(self) -> tuple[str, ...]:
        """The names in `trackers`, each once."""
        names = self.trackers.split(",") if self.trackers else []
        return tuple(dict.fromkeys(name.strip() for name in names))


@dataclasses.dataclass(frozen=True)
class MeshConfig:
    """Devices along each mesh axis; one of them may be -1, for all remaining devices.

    Attributes:
      data: shards the rows of a batch and replicates the parameters.
      fsdp: shards the rows, and the `embed` axes of parameters and optimizer state.
      tensor: shards the `heads`, `mlp` and `vocab` axes of parameters and activations.
    """

    data: int = -1
    fsdp: int = 1
    tensor: int = 1

    def __post_init__(self):
        devices = dataclasses.asdict(self)
        for name, count in devices.items():
            require(count == -1 or count >= 1, f"mesh.{name}={count}: -1 or at least 1")
        require(list(devices.values()).count(-1) <= 1, "mesh: only one axis can be -1")


@dataclasses.dataclass(frozen=True)
class SourceConfig(Section):
    """Source of the examples and the policy for invalid ones; common to the `data` of all families.

    Attributes:
      source: "files" in `dir`, "tfds" for TensorFlow Datasets, or "generated" by the project.
      dir: the folder of the files, or of prepared TensorFlow Datasets (empty: their own default).
      tfds: the dataset's name, as in "wmt14_translate/de-en".
      cache_dir: the folder that caches prepared corpora.
      on_bad_example: "error" stops at the first, "skip" counts and reports them.
      vocabulary_from: the folder of another run or of an export, with whose vocabulary the corpus
        is encoded, to continue with its parameters (`train.init_from`); empty: a vocabulary of its
        own.
      not_prepared: the fields that prepared corpora do not depend on.
      compared_if_used: those that belong to a run's identity only if they have an effect, as they
        are newer than others' results.
    """

    section: ClassVar[str] = "data"
    not_prepared: ClassVar[frozenset[str]] = frozenset({"cache_dir"})
    compared_if_used: ClassVar[frozenset[str]] = frozenset()
    source: Literal["files", "tfds", "generated"] = "files"
    dir: str = ""
    tfds: str = ""
    cache_dir: str = "~/.cache/conv-attention-jax"
    on_bad_example: Literal["error", "skip"] = "error"
    vocabulary_from: str = ""

    def __post_init__(self):
        super().__post_init__()
        require(self.source != "files" or bool(self.dir), "data.dir: name the folder of the files")
        require(
            self.source != "tfds" or bool(self.tfds),
            "data.tfds: name the dataset, such as wmt14_translate/de-en",
        )

    def unused(self) -> dict[str, str]:
        """Fields without effect given the others, each with the setting that gives it one."""
        unused = {} if self.source == "tfds" else {"tfds": "data.source=tfds"}
        return unused | ({"dir": "data.source=files"} if self.source == "generated" else {})


@dataclasses.dataclass(frozen=True)
class SplitsConfig(SourceConfig):
    """The splits of a corpus; every family's `data` has these fields, with its own defaults.

    Attributes:
      train, dev, test: files of `dir`, or splits of the dataset.
      columns: FIELD=COLUMN of each field of a table: the column's name, "text=review,label=stars",
        number from 1, "label=2,text=-1" (negative: from the end of the row), or path into nested
        columns, "source=translation.de"; or columns alone in the fields' order, "1,2". Empty: those
        of a known layout, or the fields' order in a table without other columns.
      quotes: of tab-separated tables: "csv" reads quotation marks around cells as in CSV, "text"
        as part of the text, "auto" chooses by the file's content and logs it (docs/data.md).
      examples: number of generated training examples.
      holdout_size: number of generated dev and test examples each, and of examples held out of
        train for a dev or test split that is not named.
      seed: of the generated corpus and of the held-out choice.
      inferred: the fields of this section, or "words.rows", that the files decide (docs/data.md),
        unless they are set on the command line; in a run's config those that they have decided.
      inference: the function that does, as of `Inference`, "package.module:function".
    """

    inference: ClassVar[str] = ""
    train: str = ""
    dev: str = ""
    test: str = ""
    columns: str = ""
    quotes: Quotes = dataclasses.field(default="auto", metadata={FORMER: "text"})
    examples: int = 0
    holdout_size: int = size(1000)
    seed: int = 0
    inferred: str = ""

    def __post_init__(self):
        super().__post_init__()
        require(
            self.source != "generated" or self.examples >= 1,
            "data.examples: at least 1 if generated",
        )
        _ = self.columns_by_field

    def names_of(self, split: str) -> list[str]:
        """The names in `train`, `dev` or `test` (`names_in`)."""
        folder = expand_user(self.dir, "data.dir") if self.source == "files" else None
        return names_in(getattr(self, split), f"data.{split}", folder)

    @property
    def to_infer(self) -> tuple[str, ...]:
        """The names in `inferred`, without columns that a config file names."""
        names = split_list(self.inferred, "data.inferred")
        return tuple(name for name in names if name and not (name == "columns" and self.columns))

    @property
    def column_fields(self) -> tuple[str, ...]:
        """The fields of an example in a table without a header, in order; empty without tables."""
        return ()

    @property
    def optional_fields(self) -> tuple[str, ...]:
        """Those of `column_fields` that `columns` need not name."""
        return ()

    @property
    def columns_by_field(self) -> dict[str, int | str]:
        """`columns` as a mapping from fields, in their order; empty if `columns` is."""
        fields = self.column_fields
        known = f"data.columns={self.columns}: this data.format has no columns"
        require(bool(fields) or not self.columns, known)
        return parse_columns(self.columns, fields, self.optional_fields)

    @property
    def column_order(self) -> str:
        """`columns` in a canonical form, to compare configs."""
        default = {field: number for number, field in enumerate(self.column_fields, start=1)}
        columns = self.columns_by_field or default
        return ",".join(f"{field}={column}" for field, column in columns.items())

    def unused(self) -> dict[str, str]:
        if self.source != "generated":
            return {**super().unused(), "examples": "data.source=generated"}
        files = ("train", "dev", "test", "columns", "quotes")
        return {**super().unused(), **dict.fromkeys(files, "data.source=files")}


def inferred_key(name: str) -> str:
    """The full name of a field in `data.inferred`, where those of `data` have short ones."""
    return name if "." in name else f"data.{name}"


def to_config_dict(config: Any) -> ml_collections.ConfigDict:
    """A dataclass as a ConfigDict, for a config file to edit and the command line to override."""
    return ml_collections.ConfigDict(_with_free_types(config, to_mapping(config)))


def _with_free_types(config: Any, values: dict[str, Any]) -> dict[str, Any]:
    """The values of `to_mapping`; those of a `Literal` of several types accept any type."""
    hints = field_types(type(config))
    for name, value in values.items():
        if isinstance(value, dict):
            _with_free_types(getattr(config, name), value)
        elif len({type(choice) for choice in typing.get_args(hints.get(name))}) > 1:
            values[name] = ml_collections.FieldReference(value, field_type=object)
    return values


def short_keys(kind: type) -> Mapping[str, str]:
    """Short to full names of a config's keys, for overrides: its class attribute `short_keys`."""
    return getattr(kind, "short_keys", {})


def from_values(kind: type[T], values: Mapping[str, Any]) -> T:
    """A config from nested values, whose keys and task may have former names.

    A class method `upgraded` of `kind`, if defined, and the `former_values` of its sections add
    what configs of earlier versions lack.

    Raises:
      UserError: as `common_jax.fields.from_mapping`.
    """
    values = getattr(kind, "upgraded", dict)(with_current_keys(kind, values))
    for name, section in field_types(kind).items():
        if dataclasses.is_dataclass(section) and isinstance(values.get(name), Mapping):
            values[name] = {**former_values(section), **values[name]}
    if isinstance(task := values.get("task"), str):
        values["task"] = current_class(task)
    return from_mapping(kind, values)


def completed(config: T, overridden: Mapping[str, Any]) -> T:
    """The config with fields that follow from those set on the command line, by its method
    `completed`, if it has one; and without those in `data.inferred`.

    Args:
      overridden: the values before, by the fields' full names.

    Raises:
      UserError: if the overridden fields need others.
    """
    data = getattr(config, "data", None)
    if isinstance(data, SplitsConfig) and data.inferred and "data.inferred" not in overridden:
        is_files = data.source == "files"
        rest = [name for name in data.to_infer if is_files and inferred_key(name) not in overridden]
        changed: Any = {"data": dataclasses.replace(data, inferred=",".join(rest))}
        config = dataclasses.replace(config, **changed)  # type: ignore[type-var]
    complete = getattr(config, "completed", None)
    return complete(overridden) if complete else config


def value_of(config: Any, key: str) -> Any:
    """The value of a field by its full or short name."""
    key = short_keys(type(config)).get(key, key)
    return functools.reduce(getattr, key.split("."), config)
