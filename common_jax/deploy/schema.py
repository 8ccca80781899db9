"""Inputs and outputs of a predictor, declared: their form in JSON and their display on a page.

A server is independent of the family of models. From a `Schema` it generates a predictor's input
lines, the OpenAPI description, the form of a page, and the tables and pictures of an answer.
"""

import dataclasses
import functools
import json
import operator
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from common_jax.columns import Quotes
from common_jax.errors import Location, UserError

JsonSchema = dict[str, Any]  # of the 2020-12 draft, which OpenAPI 3.1 uses
STRING: JsonSchema = {"type": "string"}
NUMBER: JsonSchema = {"type": "number"}
INTEGER: JsonSchema = {"type": "integer"}

_TYPES = {str: "string", int: "integer", float: "number", type(None): "null"}
_INNER_TAB = "\v"  # for a tab in one of the texts that tabs separate; words end at both


def record(required: Mapping[str, JsonSchema], **optional: JsonSchema) -> JsonSchema:
    """The schema of an object."""
    fields = {**required, **optional}
    return {"type": "object", "properties": fields, "required": [*required]}


def array(items: JsonSchema, dims: int = 1) -> JsonSchema:
    """The schema of a list, or of lists of lists."""
    for _ in range(dims):
        items = {"type": "array", "items": items}
    return items


def json_schema(kind: Any) -> JsonSchema:
    """The schema of a class of answers, or of the type of a field (`Answer.to_dict`).

    A field with the default None is not required: an answer has it only on request.
    """
    # plain types, and a choice of them
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)
    if kind in _TYPES:
        return {"type": _TYPES[kind]}
    if origin is types.UnionType:
        return {"type": [json_schema(argument)["type"] for argument in arguments]}

    # objects and lists
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        optional = {field.name for field in dataclasses.fields(kind) if field.default is None}
        given = {n: _without_none(hint) if n in optional else hint for n, hint in hints.items()}
        fields = {field.name: json_schema(given[field.name]) for field in dataclasses.fields(kind)}
        return record(fields) | {"required": [name for name in fields if name not in optional]}
    if origin is dict:
        return {"type": "object", "additionalProperties": json_schema(arguments[1])}
    if origin is list:
        return array(json_schema(arguments[0]))

    # an array, of jaxtyping
    is_whole = any("int" in dtype for dtype in kind.dtypes)
    return array(INTEGER if is_whole else NUMBER, dims=len(kind.dims))


def _without_none(kind: Any) -> Any:
    """X of "X | None"."""
    choices = [choice for choice in typing.get_args(kind) if choice is not type(None)]
    return functools.reduce(operator.or_, choices)


@dataclasses.dataclass(frozen=True)
class Text:
    """A text of an input.

    Attributes:
      name: of its field.
      title: the label of its box on a page.
      lines: the height of the box.
      several: whether each line of the box is the text of a separate input.
      columns: the columns of a table that can be the text beside `name`, in lower case.
      hint: its form in words, which an empty box shows.
    """

    name: str
    title: str
    lines: int = 3
    several: bool = False
    columns: tuple[str, ...] = ()
    hint: str = "a text"


@dataclasses.dataclass(frozen=True)
class View:
    """The display of an output, or of a part of it.

    Attributes:
      kind:
        "text" a string or a number;
        "table" numbers by name, or a list of objects with the same fields;
        "span" the input text `of`, in which the characters from the field "start" to "end" are
          marked, and the field "probability" of the output;
        "curves" an object of "words" and lists of numbers, one for each word;
        "heads" attention [layers, heads, T, N, T] between the pieces in the field `of`, with
          "reach", the first and the last piece of each row [layers, heads, T, 2];
        "words" attention between the words in the field `of`: for each layer a list of objects of
          "text" and "context", numbers of texts, and "weights" (`text` is null for pooling);
        "ranking" the inputs by their outputs' "score", with the number `of` in the field.
      field: of the output; "" for the output itself.
      title: the heading.
      of: another field, as above.
    """

    kind: Literal["text", "table", "span", "curves", "heads", "words", "ranking"]
    field: str
    title: str
    of: str = ""


UNKNOWN_WORDS = View("text", "unknown_words", "Words not in the vocabulary")


@dataclasses.dataclass(frozen=True)
class Schema:
    """Inputs and outputs of a predictor.

    Attributes:
      title: of the task, with the model in brackets; models with the same one can be compared on
        one input.
      line: how a line holds the texts: a single "text", texts separated by a "tab", or a "json"
        object.
      output: the JSON schema of an output, an object.
      plain: whether the line of an output is plain text (`Answer.plain`), not a JSON object.
      views: of an output, in the order of the page; without any, the page shows the JSON.
      escaped_breaks, quotes, separator: of a table of inputs, as `common_jax.data.tables.Table`; as
        in training.
      columns: those of the texts in tables of training, "text=comment" (`text_columns`).
      explained_length: of the longest text whose explanation is served (`ParsedLine.lengths`).
      about: a sentence on what such a model does.
      generated: a sentence on the family's generated corpus, for models that are trained on it.
      outside: the texts of an input unlike that corpus.
    """

    title: str
    texts: tuple[Text, ...]
    line: Literal["text", "tab", "json"] = "text"
    output: JsonSchema = dataclasses.field(default_factory=lambda: {"type": "object"})
    plain: bool = False
    views: tuple[View, ...] = ()
    escaped_breaks: bool = False
    quotes: Quotes = "auto"
    separator: str = "\t"
    columns: str = ""
    explained_length: int = 200
    about: str = ""
    generated: str = ""
    outside: tuple[str, ...] = ()

    @property
    def input(self) -> JsonSchema:
        """The JSON schema of an input."""
        fields = {text.name: {"type": "string", "title": text.title} for text in self.texts}
        item = record(fields) | {"additionalProperties": self.line == "json"}
        return {"anyOf": [{"type": "string", "description": self._form()}, item]}

    @property
    def details(self) -> list[str]:
        """The fields with a view that only explained outputs have."""
        required = self.output.get("required", ())
        return [view.field for view in self.views if view.field and view.field not in required]

    def to_texts(self, line: str) -> tuple[str, ...]:
        """The texts of a line that `to_line` returned."""
        if self.line == "json":
            row = json.loads(line)
            return tuple(row[text.name] for text in self.texts)
        return (line,) if self.line == "text" else tuple(line.split("\t"))

    def to_line(self, value: Any, place: str | Location) -> str:
        """The line of an input: a string, which is the line, or an object of the texts.

        A string that is a JSON object is read as one; its other fields are ignored. The texts keep
        their line ends, as in a corpus, so that the line may have several; see `tab_separated`.

        Raises:
          UserError: for another type or other fields.
        """
        names = [text.name for text in self.texts]

        # A string that is no JSON object is the line itself.
        if isinstance(value, str):
            row = None if self.line == "json" else object_in(value)
            if row is None:
                return _require_complete(value, place)
            value = {name: row[name] for name in names if name in row}

        # Each text must be there, a string, and complete.
        if not isinstance(value, dict):
            raise UserError(f"{place}: must be {self._form()}, or an object of {self._names()}")
        for text in self.texts:
            if text.name not in value:
                raise UserError(f"{place}: has no {text.name!r}; an input has {self._names()}")
            if not isinstance(value[text.name], str):
                raise UserError(f"{place}.{text.name}: must be a string")
            _require_complete(value[text.name], f"{place}.{text.name}")

        if self.line == "json":
            return json.dumps(value)
        if unknown := [name for name in value if name not in names]:
            name = unknown[0][:60].encode(errors="backslashreplace").decode()
            raise UserError(f"{place}: unknown field {name!r}; an input has {self._names()}")
        texts = [value[name] for name in names]
        return tab_separated(texts) if self.line == "tab" else texts[0]

    def _names(self) -> str:
        return " and ".join(repr(text.name) for text in self.texts)

    def _form(self) -> str:
        forms = {
            "text": "a text",
            "tab": f"{len(self.texts)} texts separated by a tab",
            "json": f"a JSON object of {self._names()}, as text",
        }
        return forms[self.line]


def tab_separated(texts: Iterable[str]) -> str:
    """A line of texts, with a vertical tab for each tab in them."""
    return "\t".join(text.replace("\t", _INNER_TAB) for text in texts)


def object_in(line: str) -> dict[str, Any] | None:
    """The object of a line of JSON; None for any other text."""
    line = line.removeprefix("\ufeff")
    try:
        value = json.loads(line) if line.lstrip().startswith("{") else None
    except (ValueError, RecursionError):
        return None  # a text, or JSON whose error `parse` reports
    return value if isinstance(value, dict) else None


def _require_complete(text: str, place: str | Location) -> str:
    """The text; raises UserError for an unpaired surrogate, which UTF-8 cannot have."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UserError(f"{place}: an unpaired surrogate after {error.start} characters") from None
    return text
