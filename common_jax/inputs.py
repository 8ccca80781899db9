"""What a model reads of an example beside the numbers of its words.

A model declares its inputs as a tuple of these objects. Each is a `Choice`, so that the predictor
of a run or an export makes it again from its name and fields, and the data pipeline encodes with it
when a corpus is prepared; its name and fields are part of the corpus's fingerprint.
"""

import abc
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int32

from common_jax.fields import Choice, from_choice, to_mapping

Annotations = Mapping[str, str]  # what a source says of a text by name: {"binary_parse": ...}


@dataclasses.dataclass(frozen=True)
class Input(Choice):
    """Integers of an example.

    Attributes:
      key: its arrays are called by this: "KEY" of an example, "TEXT_KEY" of the text "TEXT".
      width: how many integers there are for each word, or for each example.
    """

    key: ClassVar[str]

    @property
    @abc.abstractmethod
    def width(self) -> int:
        """Integers of each word of a text, or of each example."""


@dataclasses.dataclass(frozen=True)
class WordInput(Input):
    """Integers for each word of each text: characters, letter trigrams, a parse's transitions."""

    @abc.abstractmethod
    def encode(
        self, words: Sequence[str], annotations: Annotations
    ) -> Int32[np.ndarray, "T {self.width}"]:
        """The integers of a text's words; 0 is padding.

        Raises:
          UserError: for an annotation that is needed and missing.
        """


@dataclasses.dataclass(frozen=True)
class ExampleInput(Input):
    """Integers for each example: how many words its texts share."""

    @abc.abstractmethod
    def encode(
        self, texts: Sequence[Sequence[str]], annotations: Sequence[Annotations]
    ) -> Int32[np.ndarray, "{self.width}"]:
        """The integers of an example, given the words of its texts."""


def by_kind(inputs: Sequence[Input]) -> tuple[list[WordInput], list[ExampleInput]]:
    """Those of each word, and those of each example."""
    words = [one for one in inputs if isinstance(one, WordInput)]
    return words, [one for one in inputs if isinstance(one, ExampleInput)]


def inputs_to_text(inputs: Sequence[Input]) -> str:
    """Inputs as JSON, for a predictor's settings and a corpus's fingerprint; "" for none."""
    return json.dumps([to_mapping(one) for one in inputs], sort_keys=True) if inputs else ""


def inputs_from_text(text: str, place: str) -> list[Any]:
    """The inputs that `inputs_to_text` has written.

    Raises:
      UserError: for a class that is not installed, or fields that it does not have.
    """
    kind: Any = Input
    return [from_choice(kind, values, place) for values in json.loads(text or "[]")]
