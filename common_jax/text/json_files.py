"""JSON that a person supplies: each value knows where it stands, and each mistake is one line."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common_jax.errors import UserError
from common_jax.faults import Faults
from common_jax.text.files import decode_line, read_lines, read_raw_lines

_LARGEST = 2**30  # characters: a small file can unpack to any number of them
_HALF = re.compile("[\ud800-\udfff]")
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
          UserError: if this is no object, has no such field, one of another kind, or a string
            with half of a surrogate pair, which JSON can write and no file can hold.
        """
        if type(self.value) is not dict:
            raise UserError(f"{self.place}: {_name(self.value)} where an object is needed")
        value = self.value.get(key)
        if value is None and default is not None:
            return default
        if type(value) is not kind:
            raise UserError(self._wrong(key, kind))
        if isinstance(value, str):
            _check_whole(value, self._below(key))
        return value

    def node(self, key: str, default: dict[str, Any] | None = None) -> "Node":
        """The object in the field `key`."""
        return Node(self.get(key, dict, default), self._below(key))

    def nodes(self, key: str, default: list[Any] | None = None) -> Iterator["Node"]:
        """The elements of the list in the field `key`."""
        below = self._below(key)
        for number, value in enumerate(self.get(key, list, default)):
            yield Node(value, f"{below}[{number}]")

    def strings(self, key: str, default: list[str] | None = None) -> list[str]:
        """The list of strings in the field `key`."""
        values = self.get(key, list, default)
        for number, value in enumerate(values):
            below = f"{self._below(key)}[{number}]"
            if type(value) is not str:
                raise UserError(f"{below}: {_name(value)} where a string is needed")
            _check_whole(value, below)
        return values

    def _below(self, key: str) -> str:
        return f"{self.place}.{key}" if ": " in self.place else f"{self.place}: {key}"

    def _wrong(self, key: str, kind: type) -> str:
        if key not in self.value:
            has = ", ".join(self.value).encode(errors="backslashreplace").decode() or "nothing"
            return f"{self.place}: no {key!r}; it has {has[:200]}"
        return f"{self._below(key)}: {_name(self.value[key])} where {_NAMES[kind]} is needed"


def read_json(path: str | Path) -> Node:
    """The content of a JSON file, plain or gzipped.

    Raises:
      UserError: if it cannot be read or is not JSON, with line and column. Nothing in such a file
        can be used, so that no `Faults` can skip it.
    """
    text = io.StringIO()
    for number, line in enumerate(read_lines(path)):
        text.write(f"\n{line}" if number else line)
        if text.tell() > _LARGEST:
            raise UserError(
                f"{path}: more than {_LARGEST >> 20} MiB of JSON, which must fit memory"
            )
    return parse_json(text.getvalue(), str(path))


def read_json_lines(path: str | Path, faults: Faults) -> Iterator[Node]:
    """The values of a file with one on each line, plain or gzipped, streaming; blank lines none.

    A line that is not JSON is reported to `faults`.

    Raises:
      UserError: if the file cannot be read, and whatever `faults` raises.
    """
    parse = lambda line, number: parse_json(decode_line(line, path, number), path, number)
    for number, line in enumerate(read_raw_lines(path), start=1):
        if line.strip() and (node := faults.attempt(parse, line, number)):
            yield node


def parse_json(text: str, file: str | Path, line: int | None = None) -> Node:
    """The value that a text is.

    Args:
      file: what messages call the place where the text stands.
      line: the text's number where it is one line of several.

    Raises:
      UserError: if it is not JSON, with line and column.
    """
    place = str(file) if line is None else f"{file}:{line}"
    try:
        return Node(json.loads(text), place)
    except json.JSONDecodeError as error:
        where = f"{file}:{(line or 1) + error.lineno - 1}:{error.colno}"
        raise UserError(f"{where}: not JSON ({error.msg})") from error
    except RecursionError as error:
        raise UserError(f"{place}: not JSON that can be read (nested too deeply)") from error
    except ValueError as error:
        raise UserError(
            f"{place}: not JSON that can be read (a number with too many digits)"
        ) from error


def _check_whole(text: str, place: str) -> None:
    if half := _HALF.search(text):
        raise UserError(f"{place}: {half[0]!r} is half a character (a surrogate without the other)")


def _name(value: Any) -> str:
    return "null" if value is None else _NAMES.get(type(value), "a number")
