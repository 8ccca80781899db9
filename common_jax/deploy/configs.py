"""Configs and tasks whose `data.vocabulary_from` is a run, an export, or the name of a model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from common_jax.data.word_rule import WordLevelConfig
from common_jax.io.paths import AnyPath, expand_user
from common_jax.io.storage import local_copy
from common_jax.training.config import ConfigFile, key_of, read_config, task_class

if TYPE_CHECKING:
    from common_jax.deploy.parameters import Source
    from common_jax.training.task import Task


class OpenedSources:
    """The runs and exports that a config names, each opened once; an export is verified then."""

    def __init__(self) -> None:
        self._opened: dict[str, Source] = {}

    def open(self, path: str) -> "Source":
        """The run or the export of a path or a name.

        Raises:
          UserError: as `common_jax.deploy.parameters.source_of`.
        """
        from common_jax.deploy.parameters import source_of

        name = expand_user(path)
        if name not in self._opened:
            self._opened[name] = source_of(name)
        return self._opened[name]


def parse(
    file: str | ConfigFile, overrides: Sequence[str], sources: OpenedSources | None = None
) -> Any:
    """The config of `--config FILE[:ARGUMENT] --config.KEY=VALUE ...`, checked; with the
    `words.rule` of `data.vocabulary_from`'s vocabulary, unless an override sets it.

    Args:
      file: `--config`, or the file when it has been executed.
      sources: opens the model, for `task_of` too.

    Raises:
      UserError: as `read_config` and `ConfigFile.parse`.
    """
    config_file = read_config(file) if isinstance(file, str) else file
    config = config_file.parse(overrides)
    sets_rule = "words.rule" in map(key_of, overrides)
    if sets_rule or not isinstance(config, WordLevelConfig):
        return config
    folder = _given_vocabulary(config, sources)
    if folder is None or not folder.is_dir():
        return config
    from common_jax.text.vocabulary import Vocabulary

    rule = Vocabulary.load(local_copy(folder)).rule
    return config.with_rule(rule)


def task_of(config: Any, sources: OpenedSources | None = None) -> "Task":
    """The task of a config.

    Args:
      sources: of `parse`.

    Raises:
      UserError: if `data.vocabulary_from` names a model that cannot be loaded.
    """
    task = task_class(config.task)(config)
    if task.data is not None and (folder := _given_vocabulary(config, sources)):
        task.prepare_as(vocabulary_from=folder)
    return task


def _given_vocabulary(config: Any, sources: OpenedSources | None) -> AnyPath | None:
    """The folder of `data.vocabulary_from`'s vocabulary."""
    if not (given := config.data.vocabulary_from):
        return None
    path = expand_user(given, "data.vocabulary_from")
    return (sources or OpenedSources()).open(path).folder.vocabulary
