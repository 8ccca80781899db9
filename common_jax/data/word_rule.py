"""Base class of configs with a word-splitting rule (`common_jax.text.word_tokenizer`)."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from common_jax.fields import split_list

if TYPE_CHECKING:
    from common_jax.text.word_tokenizer import Rule

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class WordLevelConfig:
    """Base of configs with sections `words` and `data`, which sets `words.rule`."""

    def completed(self: T, overridden: Mapping[str, Any]) -> T:
        """The config, with the rule for all scripts if the command line replaced all of
        `data.train`'s files and did not set the rule."""
        config: Any = self
        if "words.rule" in overridden or not replaces_train(config, overridden):
            return self
        return config.with_rule("unicode")

    def with_rule(self: T, rule: "Rule") -> T:
        """The config with another `words.rule`."""
        config: Any = self
        words = dataclasses.replace(config.words, rule=rule)
        return dataclasses.replace(config, words=words)


def replaces_train(config: Any, overridden: Mapping[str, Any]) -> bool:
    """Whether all files of `data.train` are others than before the command line.

    Args:
      overridden: as of `common_jax.config.completed`.
    """
    before = overridden.get("data.train")
    if config.data.source != "files":
        return False
    if before is None:
        return overridden.get("data.source") == "generated"
    file_names = split_list(config.data.train, "data.train")
    return not {*split_list(before, "data.train")} & {*file_names}
