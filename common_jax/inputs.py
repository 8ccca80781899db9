"""Model inputs beside the word ids.

A model declares its inputs as a tuple of these objects. The data pipeline encodes with them when a
corpus is prepared, and their names and fields are part of its fingerprint. Each is a `Choice`, so
that the predictor of a run or an export restores it from its name and fields.
"""

import abc
import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Int, Int32

from common_jax.data.corpus import Corpus
from common_jax.errors import UserError
from common_jax.fields import Choice, from_choice, require, to_mapping

WIDEST = 1000  # largest `width` in an export, which determines the memory of a batch

Annotations = Mapping[str, str]  # of a text, by the source's names: {"binary_parse": ...}


@dataclasses.dataclass(frozen=True)
class Input(Choice):
    """Integers of an example.

    Attributes:
      key: the name of its array: "KEY" of an example, "TEXT_KEY" of the text "TEXT".
      width: integers per word, or per example.
    """

    key: ClassVar[str]

    @property
    @abc.abstractmethod
    def width(self) -> int:
        """Integers per word of a text, or per example."""


@dataclasses.dataclass(frozen=True)
class WordInput(Input):
    """Integers for each word of each text: characters, letter trigrams, parser transitions."""

    @abc.abstractmethod
    def encode(
        self, words: Sequence[str], annotations: Annotations
    ) -> Int32[np.ndarray, "T {self.width}"]:
        """The integers of a text's words; 0 is padding.

        Raises:
          UserError: if a required annotation is missing.
        """


@dataclasses.dataclass(frozen=True)
class ExampleInput(Input):
    """Integers for each example, such as the number of words that its texts share."""

    @abc.abstractmethod
    def encode(
        self, texts: Sequence[Sequence[str]], annotations: Sequence[Annotations]
    ) -> Int32[np.ndarray, "{self.width}"]:
        """The integers of an example, given the words of its texts."""


class Column(NamedTuple):
    """One array of an example, as an input encodes it.

    Attributes:
      name: of the array and of its column in a corpus, "TEXT_KEY" or "KEY".
      text: the name of its text; "" if it is of the example.
      input: encodes it.
    """

    name: str
    text: str
    input: Any

    def dims(self, texts: Mapping[str, str]) -> str:
        """The array's dims, such as "B, T, 3", given those of the texts' words, "B, T"."""
        return f"{texts[self.text] if self.text else 'B'}, {self.input.width}"

    def gather(
        self, corpus: Corpus, rows: Int[np.ndarray, "B"], words: int
    ) -> Int32[np.ndarray, "B ..."]:
        """The array of a batch: [B, words, width], zeros at padding, or [B, width].

        Args:
          rows: of the corpus; a negative one is all zeros.
          words: the padded length of the text; unused for an array of the example.
        """
        width = self.input.width
        if not self.text:
            return corpus.gather(rows, self.name, width)
        return corpus.gather(rows, self.name, words * width).reshape(len(rows), words, width)


def columns_of(inputs: Sequence[Input], texts: Sequence[str]) -> list[Column]:
    """The arrays of an example with these texts."""
    columns = []
    for feature in inputs:
        of_words = isinstance(feature, WordInput)
        names = {f"{text}_{feature.key}": text for text in texts} if of_words else {feature.key: ""}
        columns += [Column(name, text, feature) for name, text in names.items()]
    return columns


def encode(
    columns: Sequence[Column],
    texts: Mapping[str, Sequence[str]],
    annotations: Mapping[str, Annotations],
) -> dict[str, Int32[np.ndarray, "..."]]:
    """The arrays of one example by name: [T, width] of a text, [width] of the example.

    Args:
      texts: the words of each text.
      annotations: of each text, by its name; texts without annotations can be absent.

    Raises:
      UserError: if a required annotation is missing.
      ValueError: if an input returns an array of another shape.
    """
    arrays = {}
    for name, text, feature in columns:
        if text:
            array = feature.encode(texts[text], annotations.get(text, {}))
            shape: tuple[int, ...] = (len(texts[text]), feature.width)
        else:
            array = feature.encode([*texts.values()], [annotations.get(text, {}) for text in texts])
            shape = (feature.width,)
        if array.shape != shape:
            raise ValueError(f"{feature.name}: gave an array of {array.shape}, not {shape}")
        arrays[name] = array.astype(np.int32)
    return arrays


def padded_inputs(
    columns: Sequence[Column],
    examples: Sequence[Mapping[str, np.ndarray]],
    rows: int,
    widths: Mapping[str, int],
) -> dict[str, Int32[np.ndarray, "{rows} ..."]]:
    """The arrays of a batch of encoded examples, as of `Column.gather`.

    Args:
      widths: the padded length of each text.
    """
    batch = {}
    for name, text, feature in columns:
        shape = (rows, widths[text], feature.width) if text else (rows, feature.width)
        batch[name] = np.zeros(shape, np.int32)
        for row, example in zip(batch[name], examples, strict=False):
            row[: len(example[name])] = example[name]
    return batch


def inputs_to_text(inputs: Sequence[Input]) -> str:
    """Inputs as JSON, for a predictor's settings and a corpus's fingerprint; "" for none."""
    return json.dumps([to_mapping(feature) for feature in inputs], sort_keys=True) if inputs else ""


def inputs_from_text(text: str) -> list[Any]:
    """The inputs that `inputs_to_text` wrote.

    Raises:
      UserError: for a class that is not installed, unknown fields, or a width above `WIDEST`.
    """
    base: Any = Input
    try:
        sections = [dict(values) for values in json.loads(text or "[]")]
    except (ValueError, TypeError, RecursionError) as error:
        raise UserError(f"inputs: not a list of objects in JSON ({error})") from error
    inputs = [from_choice(base, values, "inputs") for values in sections]
    for feature in inputs:
        message = f"inputs: {feature.name}: {feature.width} numbers; at most {WIDEST}"
        require(feature.width <= WIDEST, message)
    return inputs
