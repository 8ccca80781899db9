"""JSON that a person supplies: each value knows where it stands, and each mistake is one line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common_jax.errors import UserError
from common_jax.text.files import read_lines

_NAMES = {dict: "an object", list: "a list", str: "a string", int: "a whole number", bool: "a bool"}


class Node:
    """A value of a JSON file.

    Attributes:
      value: as `json` has it.
      place: as in "FILE: data[3].paragraphs[0]".
    """

    __slots__ = ("place", "value")

    def __init__(self, value: Any, place: str):
        self.value, self.place = value, place

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        """The field `key` of an object.

        Args:
          kind: dict, list, str, int or bool; exactly this (true is no whole number).
          default: for an object without the field or with null there; None for none.

        Raises:
          UserError: if this is no object, has no such field, or one of another kind.
        """
        if type(self.value) is not dict:
            raise UserError(f"{self.place}: {_name(self.value)} where an object is needed")
        value = self.value.get(key)
        if value is None and default is not None:
            return default
        if type(value) is not kind:
            raise UserError(self._wrong(key, kind))
        return value

    def node(self, key: str) -> "Node":
        """The object in the field `key`."""
        return Node(self.get(key, dict), self._below(key))

    def nodes(self, key: str, default: list[Any] | None = None) -> Iterator["Node"]:
        """The elements of the list in the field `key`."""
        below = self._below(key)
        for number, value in enumerate(self.get(key, list, default)):
            yield Node(value, f"{below}[{number}]")

    def strings(self, key: str, default: list[str] | None = None) -> list[str]:
        """The list of strings in the field `key`."""
        values = self.get(key, list, default)
        for number, value in enumerate(values):
            if type(value) is not str:
                below = f"{self._below(key)}[{number}]"
                raise UserError(f"{below}: {_name(value)} where a string is needed")
        return values

    def _below(self, key: str) -> str:
        return f"{self.place}.{key}" if ": " in self.place else f"{self.place}: {key}"

    def _wrong(self, key: str, kind: type) -> str:
        if key not in self.value:
            has = ", ".join(map(str, self.value)) or "nothing"
            return f"{self.place}: no {key!r}; it has {has[:200]}"
        return f"{self._below(key)}: {_name(self.value[key])} where {_NAMES[kind]} is needed"


def read_json(path: str | Path) -> Node:
    """The content of a JSON file, plain or gzipped.

    Raises:
      UserError: if it cannot be read or is not JSON, with line and column.
    """
    return _parse("\n".join(read_lines(path)), path, 1, str(path))


def read_json_lines(path: str | Path) -> Iterator[Node]:
    """The values of a file with one on each line, plain or gzipped, streaming; blank lines none.

    Raises:
      UserError: as `read_json`.
    """
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield _parse(line, path, number, f"{path}:{number}")


def _parse(text: str, path: str | Path, line: int, place: str) -> Node:
    try:
        return Node(json.loads(text), place)
    except json.JSONDecodeError as error:
        where = f"{path}:{line + error.lineno - 1}:{error.colno}"
        raise UserError(f"{where}: not JSON ({error.msg})") from error
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits, or 5,000 brackets
        raise UserError(f"{place}: not JSON that can be read ({error})") from error


def _name(value: Any) -> str:
    return "null" if value is None else _NAMES.get(type(value), "a number")
