"""Base class of configs with a rule of words (`common_jax.text.word_tokenizer`)."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from common_jax.text.word_tokenizer import ENGLISH, UNICODE

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class WordLevelConfig:
    """Base of configs with sections `words` and `data`: the rule of words, `words.rule`."""

    @classmethod
    def upgraded(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Names the rule of words of configs of earlier versions, which had one."""
        words = values.get("words", {})
        known = isinstance(words, Mapping)
        return {**values, "words": {"rule": ENGLISH, **words} if known else words}

    def completed(self: T, overridden: Mapping[str, Any]) -> T:
        """The config with the rule of words for all scripts if its files are not the config
        file's."""
        config: Any = self
        before = overridden.get("data.train")
        if "words.rule" in overridden or before is None or config.data.source != "files":
            return self
        if {*before.split(",")} & {*config.data.train.split(",")}:
            return self
        words = dataclasses.replace(config.words, rule=UNICODE)
        return dataclasses.replace(config, words=words)
