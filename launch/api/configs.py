"""Configs from files, with overrides."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from common_jax.deploy.configs import OpenedSources, parse, task_of
from common_jax.document import Section, Table
from common_jax.training.config import ConfigFile, key_of, read_config
from common_jax.training.run_folder import RunFolder
from common_jax.training.task import Task
from launch.config_fields import fields_of
from launch.pages.html import to_fragment

Overrides = Mapping[str, Any] | Sequence[str]


@dataclasses.dataclass(frozen=True)
class Config:
    """A checked config: in a notebook, a table of the fields that differ from its file.

    Attributes:
      file: as `--config`: a file, or the name of an installed config, with its ":SYSTEM".
      overrides: as `--config.KEY=VALUE`.
      values: the dataclass of the family, such as `csan_jax.config.Config`.
      source: the file as it was executed.
      models: runs and exports that it names, as they were opened.
    """

    file: str
    overrides: tuple[str, ...]
    values: Any = dataclasses.field(repr=False)
    source: ConfigFile = dataclasses.field(repr=False, compare=False)
    models: OpenedSources = dataclasses.field(repr=False, compare=False)

    @property
    def fields(self) -> dict[str, Any]:
        """All values by their keys, "train.steps"."""
        return {field.key: field.value for field in fields_of(self.values)}

    def differences(self, other: "Config | None" = None) -> dict[str, tuple[Any, Any]]:
        """The fields with other values in another config, by default the file's without overrides:
        (the other's value, this one's), None for a missing field."""
        before = (other or _config(self.source, ())).fields
        after = self.fields
        return {
            key: (before.get(key), after.get(key))
            for key in dict.fromkeys([*before, *after])
            if before.get(key) != after.get(key)
        }

    def with_inferred(self, runs: Sequence[RunFolder] = ()) -> "Config":
        """This config, with the fields that one's own files decide; all processes of a run call it.

        Args:
          runs: of this config, the first of which that has begun has these fields already.

        Raises:
          UserError: for files that can be meant in several ways.
        """
        from common_jax.training.inference import inferred_overrides

        keys = map(key_of, self.overrides)
        if "data.inferred" in keys:
            return self
        overrides = inferred_overrides(self.values, runs)
        if not overrides:
            return self
        return _config(self.source, [*self.overrides, *overrides], self.models)

    def make_task(self) -> Task:
        """A new task of this config."""
        return task_of(self.values, self.models)

    def prepare(self, runs: Sequence[RunFolder] = (), workers: int | None = None) -> None:
        """Prepares the corpus, on `workers` threads; `runs` as for `with_inferred`."""
        self.with_inferred(runs).make_task().prepare(workers)

    def describe(self) -> str:
        """The table of the model's parameters; reads no data."""
        from launch.api.parameters_table import describe

        return describe(self.make_task())

    def _repr_html_(self) -> str:
        rows = [[key, str(old), str(new)] for key, (old, new) in self.differences().items()]
        table = Table(("field", "in the file", "here"), rows)
        elements = [table] if rows else ["All fields have the values of the file."]
        return to_fragment([Section(f"Config {self.file}", elements)])


def config(file: str, overrides: Overrides = (), models: OpenedSources | None = None) -> Config:
    """The config of a file, with some fields set.

    Args:
      file: a file, or the name of an installed config: "csan/quickstart:csan_1d".
      overrides: values by key, {"train.steps": 100}; or texts, "--config.train.steps=100".
      models: opens runs and exports that the config names, if other configs name them too.

    Raises:
      UserError: for a missing file, an unknown key, or an invalid value.
    """
    return _config(read_config(file), override_texts(overrides), models)


def checked(given: str | Config, overrides: Overrides) -> Config:
    """The config of a file's name, or a config itself, with overrides."""
    if isinstance(given, str):
        return config(given, overrides)
    further = override_texts(overrides)
    if not further:
        return given
    return _config(given.source, [*given.overrides, *further], given.models)


def _config(
    source: ConfigFile, overrides: Sequence[str], models: OpenedSources | None = None
) -> Config:
    models = models or OpenedSources()
    values = parse(source, overrides, models)
    return Config(source.name, tuple(overrides), values, source, models)


def override_texts(overrides: Overrides) -> list[str]:
    """Overrides as `--config.KEY=VALUE`."""
    if isinstance(overrides, Mapping):
        return [f"--config.{key}={value}" for key, value in overrides.items()]
    return [*overrides]
