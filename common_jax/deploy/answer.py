"""Answers of predictors: objects with fields, and the lines that the commands print."""

import dataclasses
import json
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float


@dataclasses.dataclass(frozen=True, eq=False)
class Answer:
    """The answer of a predictor to one input. Each family has a subclass with its fields.

    A field whose default and value are None is left out. `str` of an answer is its line; answers of
    one class with the same line are equal.

    Attributes:
      plain: the field that is printed as plain text if the answer has no other; "" if a line is
        always a JSON object.
    """

    plain: ClassVar[str] = ""

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON has them, arrays as nested lists."""
        return _fields(self)

    @property
    def columns(self) -> dict[str, Any]:
        """The fields as columns of a table."""
        return self.to_dict()

    @property
    def json(self) -> str:
        """The fields as a JSON object."""
        return json.dumps(self.to_dict(), ensure_ascii=False)

    @property
    def line(self) -> str:
        """As `launch.predict` prints it: JSON, or plain text."""
        fields = self.to_dict()
        if fields.keys() == {self.plain}:
            return str(fields[self.plain])
        return json.dumps(fields, ensure_ascii=False)

    def __str__(self) -> str:
        return self.line

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Answer) and type(self) is type(other) and self.line == other.line

    def __hash__(self) -> int:
        return hash(self.line)


@dataclasses.dataclass(frozen=True)
class AttentionMap:
    """An attention map, of which a view "words" (`common_jax.deploy.schema.View`) shows lists.

    Attributes:
      text: index of the attending text; None for pooling, whose rows of `weights` are weighted
        sums of the context.
      context: index of the text attended to.
      weights: a row for each word or sum, a column for each word of the context.
    """

    text: int | None
    context: int
    weights: Float[np.ndarray, "T S"]


def _fields(part: Any) -> dict[str, Any]:
    values = ((field, getattr(part, field.name)) for field in dataclasses.fields(part))
    return {
        field.name: _to_json(value)
        for field, value in values
        if not (value is None and field.default is None)
    }


def _to_json(value: Any) -> Any:
    """A value of a field as JSON has it."""
    if dataclasses.is_dataclass(value):
        return _fields(value)
    if isinstance(value, list | tuple):
        return [_to_json(element) for element in value]
    return value.tolist() if hasattr(value, "tolist") else value
