"""Configs and tasks whose `data.vocabulary_from` is a run, an export, or the name of a model."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from common_jax.data.word_rule import WordLevelConfig
from common_jax.io.paths import expand_user
from common_jax.io.storage import local_copy
from common_jax.training.config import ConfigFile, key_of, read_config, task_class
from common_jax.training.run_folder import RunFolder

if TYPE_CHECKING:
    from common_jax.training.task import Task


def parse(file: str | ConfigFile, overrides: Sequence[str]) -> Any:
    """The config of `--config FILE[:ARGUMENT] --config.KEY=VALUE ...`, checked; with the
    `words.rule` of `data.vocabulary_from`'s vocabulary, unless an override sets it.

    Args:
      file: `--config`, or the file when it has been executed.

    Raises:
      UserError: as `read_config` and `ConfigFile.parse`.
    """
    config_file = read_config(file) if isinstance(file, str) else file
    config = config_file.parse(overrides)
    sets_rule = "words.rule" in map(key_of, overrides)
    if sets_rule or not isinstance(config, WordLevelConfig):
        return config
    given = config.data.vocabulary_from  # type: ignore[attr-defined]
    folder = _given(given).vocabulary if given else None
    if folder is None or not folder.is_dir():
        return config
    from common_jax.text.vocabulary import Vocabulary

    rule = Vocabulary.load(local_copy(folder)).rule
    return config.with_rule(rule)


def task_of(config: Any) -> "Task":
    """The task of a config.

    Raises:
      UserError: if `data.vocabulary_from` names a model that cannot be loaded.
    """
    task = task_class(config.task)(config)
    if task.data is not None and (given := config.data.vocabulary_from):
        task.prepare_as(vocabulary_from=_given(given).vocabulary)
    return task


def _given(path: str) -> RunFolder:
    from common_jax.deploy.parameters import source_of

    return source_of(expand_user(path, "data.vocabulary_from")).folder
