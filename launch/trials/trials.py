"""The trials of a sweep: a run for each combination of field values and each seed."""

import dataclasses
import functools
import hashlib
import itertools
import json
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from common_jax.config import short_keys, value_of
from common_jax.deploy.configs import OpenedSources, parse
from common_jax.errors import UserError, error_context
from common_jax.fields import require
from common_jax.io.paths import AnyPath
from common_jax.training.config import ConfigFile, read_config
from common_jax.training.identity import SEED
from common_jax.training.scored_run import ScoredRun
from launch.arguments import system_files
from launch.trials.reuse import require_same_settings

SYSTEM = "system"
TRIALS = "trials"  # the folder of a sweep's runs
_MOST = 10_000  # trials of a sweep; all configs are checked before training starts
_LONGEST = 120  # characters of a trial's name; file systems take 255 bytes


class Axis(NamedTuple):
    """One field, or several zipped ones.

    Attributes:
      fields: their keys in the config.
      points: tuples of their values as text, one for each field.
    """

    fields: tuple[str, ...]
    points: tuple[tuple[str, ...], ...]


@dataclasses.dataclass(frozen=True)
class Trial:
    """One run of a sweep.

    Attributes:
      values: of the system if there are several, and of the swept fields, the seed last.
      overrides: "--config.KEY=VALUE", those of all trials first.
      folder: of all trials of the sweep.
    """

    values: dict[str, Any]
    file: str
    overrides: tuple[str, ...]
    config: Any
    folder: AnyPath

    @functools.cached_property
    def name(self) -> str:
        """The values as a file name: model.token_window=11,train.seed=0."""
        text = ",".join(f"{field}={value}" for field, value in self.values.items())
        plain = re.sub(r"[^\w.,=+-]", "_", text, flags=re.ASCII)
        if plain == text and len(text) <= _LONGEST:
            return text
        digest = hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()[:8]
        return f"{plain[:_LONGEST]}-{digest}"

    @functools.cached_property
    def workdir(self) -> ScoredRun:
        """The folder of its run."""
        return ScoredRun(self.folder / self.name)

    @property
    def log(self) -> AnyPath:
        """The file with its process's output."""
        return self.folder / f"{self.name}.log"

    @property
    def record(self) -> AnyPath:
        """Its `record_file`."""
        return record_file(self.folder, self.name)


def record_file(folder: AnyPath, name: str) -> AnyPath:
    """The file that records why a trial was stopped or failed, if so."""
    return folder / f"{name}.json"


def list_file(folder: AnyPath) -> AnyPath:
    """The file with the names of a sweep's trials: OUT/trials.json for OUT/trials."""
    return folder.with_name(f"{folder.name}.json")


def grid_axis(text: str) -> Axis:
    """An axis of one field: "KEY=VALUE,VALUE,...", or 'KEY=["VALUE", ...]' for values with commas.

    Raises:
      UserError: for another form.
    """
    key, equals, values = text.partition("=")
    points = _listed(values) if values.startswith("[") else values.split(",")
    if not (key and equals and points) or not all(point.strip() for point in points):
        raise UserError(f"{text!r}: write KEY=VALUE,VALUE,...")
    return Axis((key.strip(),), tuple((point.strip(),) for point in points))


def zipped_axis(texts: Sequence[str]) -> Axis:
    """An axis of zipped fields, each written as for `grid_axis`.

    Raises:
      UserError: if they have unequal numbers of values.
    """
    axes = [grid_axis(text) for text in texts]
    counts = [len(axis.points) for axis in axes]
    if len(axes) < 2 or len(set(counts)) > 1:
        raise UserError(
            f"{' '.join(texts)}: two fields or more, with equally many values, not "
            f"{' and '.join(map(str, counts))}"
        )
    fields = tuple(axis.fields[0] for axis in axes)
    columns = [[value for (value,) in axis.points] for axis in axes]
    return Axis(fields, tuple(zip(*columns, strict=True)))


def grid_trials(
    file: str | ConfigFile,
    overrides: Sequence[str],
    axes: Sequence[Axis],
    seeds: int,
    folder: AnyPath,
    systems: Sequence[str] = (),
    models: OpenedSources | None = None,
) -> list[Trial]:
    """All trials, with parsed configs; the seeds of one setting follow each other.

    Args:
      file: `--config`, with its argument; or the file, if it has been executed.
      overrides: of all trials.
      seeds: their number, counted up from the config's `train.seed`.
      folder: of the sweep.
      systems: arguments of the config file, as in FILE:SYSTEM; none for `file` only.
      models: opens runs and exports that the configs name.

    Raises:
      UserError: for an unknown or repeated field, or an invalid value.
    """
    config_files = _config_files(file, systems)
    models = models or OpenedSources()
    swept = [field for axis in axes for field in axis.fields]
    first_point = itertools.chain(*(axis.points[0] for axis in axes))
    first = [f"--config.{field}={v}" for field, v in zip(swept, first_point, strict=True)]
    base = parse(next(iter(config_files.values())), [*overrides, *first], models)
    full_names = short_keys(type(base))

    def full(key: str) -> str:
        return full_names.get(key, key)

    keys = [override.removeprefix("--config.").partition("=")[0] for override in overrides]
    for field in swept:
        if [*map(full, swept)].count(full(field)) > 1:
            raise UserError(f"{field}: swept twice")
        for key in keys:
            if full(key) == full(field):
                raise UserError(f"{field}: swept, and set with --config.{key} too")
    count = math.prod([seeds, len(config_files), *(len(axis.points) for axis in axes)])
    if count > _MOST:
        raise UserError(
            f"{count} trials: at most {_MOST} in one sweep; sweep fewer values or seeds"
        )
    if SEED not in swept:
        seed = value_of(base, SEED)
        axes = [*axes, Axis((SEED,), tuple((str(seed + n),) for n in range(seeds)))]
        swept.append(SEED)
    elif seeds > 1:
        raise UserError(f"{SEED}: swept, so --seeds cannot be set")
    trials: dict[str, Trial] = {}
    points = [*itertools.product(*(axis.points for axis in axes))]
    for (system, config_file), point in itertools.product(config_files.items(), points):
        written = dict(zip(swept, itertools.chain(*point), strict=True))
        changes = [f"--config.{field}={value}" for field, value in written.items()]
        system_value = {SYSTEM: system} if system else {}
        with error_context(
            ",".join(f"{name}={value}" for name, value in {**system_value, **written}.items())
        ):
            config = parse(config_file, [*overrides, *changes], models)
            values = system_value | {field: value_of(config, field) for field in swept}
            values[SEED] = values.pop(SEED)
            trial = Trial(values, config_file.name, (*overrides, *changes), config, folder / TRIALS)
            if trial.name in trials:
                raise UserError("the same as another trial")
        trials[trial.name] = trial
    return list(trials.values())


def _config_files(file: str | ConfigFile, systems: Sequence[str]) -> dict[str, ConfigFile]:
    """The executed file of each system by its name; {"": file} for no systems."""
    if isinstance(file, ConfigFile):
        if not systems:
            return {"": file}
        file = file.name
    return {system: read_config(path) for system, path in system_files(file, systems).items()}


def require_own_folders(trials: Sequence[Trial]) -> None:
    """Raises UserError if a trial's folder has a run with another config, with more steps, with
    other settings if it is finished, or with the learning rate schedule of another number of steps,
    which a resumed run keeps."""
    for trial in trials:
        trial.workdir.require(trial.config)
        result = trial.workdir.result() or {}
        taken = max([result.get("steps", 0), *trial.workdir.steps])
        require(
            taken <= trial.config.train.steps,
            f"{trial.workdir.path} has {taken} steps, more than train.steps="
            f"{trial.config.train.steps}: choose another --out",
        )

        # the schedule with which it was begun
        optimizer = trial.config.optimizer
        steps = trial.config.train.steps
        if optimizer.derives_cooldown and trial.workdir.has_begun:
            old = trial.workdir.scheduled_optimizer(type(trial.config)).last_step
            if old != (new := optimizer.scheduled(steps).last_step):
                raise UserError(
                    f"{trial.workdir.path} was begun with a learning rate that ends at step {old}, "
                    f"and train.steps={steps} ends at {new}: choose another --out"
                )

        # the settings of a result that is not made again
        if trial.workdir.finished(trial.config):
            require_same_settings(trial.workdir, trial.config)


def _listed(text: str) -> list[str]:
    try:
        return [str(value) for value in json.loads(text)]
    except (ValueError, RecursionError) as error:
        raise UserError(f'{text[:40]}: not a JSON list such as ["1,2", "2,1"]') from error
