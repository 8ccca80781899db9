"""JSON files of users: values with their locations, and errors as one line."""

import functools
import io
import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common_jax.bad_examples import BadExamples
from common_jax.errors import Location, UserError
from common_jax.io.files import decode_line, read_lines, read_raw_lines
from common_jax.io.paths import AnyPath

_LARGEST = 2**30  # characters: a small compressed file can unpack to any number of them
_NAME_LENGTH = 60  # characters of a name
_SURROGATE = re.compile("[\ud800-\udfff]")
_NAMES: dict[type, str] = {
    **{dict: "an object", list: "a list", tuple: "a list", str: "a string"},
    **{int: "a whole number", float: "a number", bool: "a bool"},
}


class Node:
    """A value of a JSON file.

    Attributes:
      value: as `json` has it.
      place: as in "FILE: data[3].paragraphs[0]".
    """

    __slots__ = ("place", "value")

    def __init__(self, value: Any, place: str):
        self.value = value
        self.place = place

    def get(self, key: str, kind: Any, default: Any = None) -> Any:
        """The field `key` of an object.

        Args:
          kind: dict, list, str, int, float or bool, exactly (true is no int), except that an int is
            accepted as a float; or with the types of the elements: dict[str, X], list[X], or
            tuple[X, Y] for a list in JSON. The value returned is of this kind.
          default: used if the field is absent or null; None for no default.

        Raises:
          UserError: if this is no object, lacks the field, or the field has another kind, or a
            string with an unpaired surrogate, which no file can hold.
        """
        _of_kind(self.value, dict, self.place)
        value = self.value.get(key)
        if value is None and default is not None:
            return default
        if key not in self.value:
            has = ", ".join(self.value).encode(errors="backslashreplace").decode() or "nothing"
            raise UserError(f"{self.place}: no {key!r}; it has {has[:200]}")
        return _of_kind(value, kind, self._below(key))

    def node(self, key: str, default: dict[str, Any] | None = None) -> "Node":
        """The object in the field `key`."""
        return Node(self.get(key, dict, default), self._below(key))

    def nodes(self, key: str, default: list[Any] | None = None) -> Iterator["Node"]:
        """The elements of the list in the field `key`."""
        below = self._below(key)
        for number, value in enumerate(self.get(key, list, default)):
            yield Node(value, f"{below}[{number}]")

    def _below(self, key: str) -> str:
        return f"{self.place}.{key}" if ": " in self.place else f"{self.place}: {key}"


def read_json(path: str | AnyPath) -> Node:
    """The content of a JSON file, plain or compressed.

    Raises:
      UserError: if it cannot be read or is not JSON, with line and column.
    """
    text = io.StringIO()
    for number, line in enumerate(read_lines(path)):
        text.write(f"\n{line}" if number else line)
        if text.tell() > _LARGEST:
            raise UserError(
                f"{path}: more than {_LARGEST >> 20} MiB of JSON, which must fit memory"
            )
    return parse_json(text.getvalue(), str(path))


def read_json_lines(path: str | Path, bad_examples: BadExamples) -> Iterator[Node]:
    """Streams the values of a file with one a line, plain or compressed; skips blank lines.

    A line that is not JSON is reported to `bad_examples`.

    Raises:
      UserError: if the file cannot be read, or by `bad_examples`.
    """

    def parse(line: bytes, number: int) -> Node:
        return parse_json(decode_line(line, path, number), Location(str(path), number))

    for number, line in enumerate(read_raw_lines(path), start=1):
        if line.strip() and (node := bad_examples.parse(parse, line, number)):
            yield node


def read_json_array(path: str | Path) -> Iterator[Node]:
    """The elements of a JSON file with a list.

    Raises:
      UserError: as `read_json`, or for another value.
    """
    node = read_json(path)
    for number, value in enumerate(_of_kind(node.value, list, node.place)):
        yield Node(value, f"{path}: [{number}]")


def filled_lines(path: str | Path) -> Iterator[bytes]:
    """The lines of a file that are not blank, without blanks around them."""
    return filter(None, map(bytes.strip, read_raw_lines(path)))


def has_one_value(path: str | Path) -> bool:
    """Whether a JSON file has one value that is no list, and not a value on each line."""
    filled = filled_lines(path)
    first = next(filled, b"")
    if first.startswith(b"["):
        return False
    if not next(filled, b""):
        return True
    try:
        json.loads(first)
        return False
    except (ValueError, RecursionError):
        return True


def parse_json(text: str, file: str | AnyPath | Location) -> Node:
    """Parses a JSON text.

    Args:
      file: for error messages; the location of the text's first line if others are before it.

    Raises:
      UserError: if it is not JSON, with line and column.
    """
    location = str(file)
    name, first = (file.file, file.line) if isinstance(file, Location) else (file, 1)
    try:
        return Node(json.loads(text, object_pairs_hook=_object), location)
    except json.JSONDecodeError as error:
        place = f"{name}:{first + error.lineno - 1}:{error.colno}"
        raise UserError(f"{place}: not JSON ({error.msg})") from error
    except RecursionError as error:
        raise UserError(f"{location}: not JSON that can be read (nested too deeply)") from error
    except _RepeatedNameError as error:
        raise UserError(f"{location}: not JSON that can be read ({error})") from error
    except ValueError as error:
        raise UserError(
            f"{location}: not JSON that can be read (a number with too many digits)"
        ) from error


class _RepeatedNameError(ValueError):
    """An object has two values of one name, of which `json` would keep the last."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The `object_pairs_hook` that rejects repeated names."""
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise _RepeatedNameError(f"two values of {repeated[:_NAME_LENGTH]!r}")
    return result


def _of_kind(value: Any, kind: Any, place: str) -> Any:
    """A value as `kind`; raises UserError if it or an element has another kind; see `Node.get`."""
    outer, inner, json_types = _unpack(kind)
    if type(value) not in json_types:
        raise UserError(f"{place}: {_kind_name(value)} where {_NAMES[outer]} is needed")
    if outer is str and (lone := _SURROGATE.search(value)):
        raise UserError(f"{place}: {lone[0]!r} is an unpaired surrogate")

    # the names and values of an object
    if outer is dict and inner:
        values_by_name = {}
        for name, item in value.items():
            below = f"{place}[{name[:_NAME_LENGTH]!r}]"
            values_by_name[_of_kind(name, str, below)] = _of_kind(item, inner[1], below)
        return values_by_name

    # the elements of a list or tuple
    if inner:
        kinds = inner if outer is tuple else inner * len(value)
        if len(value) != len(kinds):
            raise UserError(f"{place}: {len(value)} values where {len(kinds)} are needed")
        typed_items = enumerate(zip(value, kinds, strict=True))
        return outer(_of_kind(item, of, f"{place}[{number}]") for number, (item, of) in typed_items)
    return float(value) if outer is float else value


@functools.cache
def _unpack(kind: Any) -> tuple[type, tuple[Any, ...], tuple[type, ...]]:
    """For dict[str, int]: dict, the types of its elements, and its types in JSON."""
    outer = typing.get_origin(kind) or kind
    return outer, typing.get_args(kind), {tuple: (list,), float: (float, int)}.get(outer, (outer,))


def _kind_name(value: Any) -> str:
    return "null" if value is None else _NAMES.get(type(value), f"a {type(value).__name__}")
