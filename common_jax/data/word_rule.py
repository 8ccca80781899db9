"""Base class of configs with a word-splitting rule (`common_jax.text.word_tokenizer`)."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from common_jax.text.word_tokenizer import ENGLISH, UNICODE

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class WordLevelConfig:
    """Base of configs with sections `words` and `data`, which sets `words.rule`."""

    @classmethod
    def upgraded(cls, values: Mapping[str, Any]) -> dict[str, Any]:
        """Adds `words.rule` to configs of earlier versions, which had only `ENGLISH`."""
        words = values.get("words", {})
        known = isinstance(words, Mapping)
        return {**values, "words": {"rule": ENGLISH, **words} if known else words}

    def completed(self: T, overridden: Mapping[str, Any]) -> T:
        """The config, with `UNICODE` if the command line replaced all of `data.train`'s files and
        did not set the rule."""
        config: Any = self
        before = overridden.get("data.train")
        if "words.rule" in overridden or before is None or config.data.source != "files":
            return self
        if {*before.split(",")} & {*config.data.train.split(",")}:
            return self
        words = dataclasses.replace(config.words, rule=UNICODE)
        return dataclasses.replace(config, words=words)
