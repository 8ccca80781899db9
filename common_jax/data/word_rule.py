"""Base class of configs with a word-splitting rule (`common_jax.text.word_tokenizer`)."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

from common_jax.config import replaces_train
from common_jax.text.word_tokenizer import UNICODE

T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class WordLevelConfig:
    """Base of configs with sections `words` and `data`, which sets `words.rule`."""

    def completed(self: T, overridden: Mapping[str, Any]) -> T:
        """The config, with `UNICODE` if the command line replaced all of `data.train`'s files and
        did not set the rule."""
        config: Any = self
        if "words.rule" in overridden or not replaces_train(config, overridden):
            return self
        words = dataclasses.replace(config.words, rule=UNICODE)
        return dataclasses.replace(config, words=words)
