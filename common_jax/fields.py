"""Frozen dataclasses whose values come from outside: checked by name, type and choice.

What a person wrote in a config, or what stands in a file that another program may have changed.
"""

import dataclasses
import difflib
import importlib
import importlib.util
import re
import sys
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from common_jax.errors import UserError
from common_jax.old_names import CLASSES

T = TypeVar("T")

LARGEST = 2**31 - 1  # whole number that an array can hold
UNWRITABLE = re.compile("[\0\ud800-\udfff]")  # no name of a file can have them


@dataclasses.dataclass(frozen=True)
class Choice:
    """A config section that names its own class: {"name": "package.module:Class", FIELD: value}.

    A field of a config whose type is a subclass of `Choice` holds any of its subclasses, so that a
    new variant is a new module and an entry in a config file. Its fields are those of the class.
    """

    @property
    def name(self) -> str:
        """ "package.module:Class"."""
        return f"{type(self).__module__}:{type(self).__qualname__}"


def require(condition: bool, message: str) -> None:
    """The check of `__post_init__`: raises UserError(message) unless `condition` holds."""
    if not condition:
        raise UserError(message)


def from_mapping(kind: type[T], values: Mapping[str, Any], at: str = "") -> T:
    """The dataclass `kind` from nested mappings (a ConfigDict, a parsed config.json).

    Raises:
      UserError: an unknown key, one that has no default and is not there, or a value of the wrong
        type, by its full name.
    """
    hints = typing.get_type_hints(kind)
    known = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    fields = {}
    for name, value in values.items():
        key = f"{at}{name}"
        if name not in known:
            raise UserError(f"unknown config key {key!r}{suggestion(name, list(known))}")
        if dataclasses.is_dataclass(section := hints[name]):
            require(isinstance(value, Mapping), f"config key {key!r} is a group of keys")
            if issubclass(section, Choice):  # type: ignore[arg-type]
                section, value = _chosen(section, known[name], value, key)
            fields[name] = from_mapping(section, value, f"{key}.")  # type: ignore[arg-type]
        else:
            fields[name] = _checked(section, value, key)
    for name, field in known.items():
        default = (field.default, field.default_factory)
        if name not in fields and default == (dataclasses.MISSING,) * 2:
            raise UserError(f"config key '{at}{name}' is missing")
    return kind(**fields)


def to_mapping(config: Any) -> dict[str, Any]:
    """A dataclass as nested mappings, from which `from_mapping` makes it again."""
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    nested = {k: to_mapping(v) if dataclasses.is_dataclass(v) else v for k, v in values.items()}
    return {"name": config.name, **nested} if isinstance(config, Choice) else nested


def renamed(values: Mapping[str, Any], aliases: Mapping[str, str]) -> dict[str, Any]:
    """Nested mappings in which keys that have moved are where they are now.

    Args:
      aliases: from the old full name of a key, "model.word_dim", to the new one, "words.dim".
    """
    values = {k: renamed(v, {}) if isinstance(v, Mapping) else v for k, v in values.items()}
    for old, new in aliases.items():
        *above, last = old.split(".")
        node = _node(values, above)
        if node is not None and last in node:
            *above, name = new.split(".")
            target = _node(values, above, make=True)
            assert target is not None
            target[name] = node.pop(last)
    return values


def _node(values: dict[str, Any], path: list[str], make: bool = False) -> dict[str, Any] | None:
    for part in path:
        if not isinstance(values.get(part), dict):
            if not make:
                return None
            values[part] = {}
        values = values[part]
    return values


def from_choice(kind: Any, values: Mapping[str, Any], at: str) -> Any:
    """The `Choice` that `to_mapping` has written.

    Args:
      kind: the class that it must be one of.
      at: what an error calls its place.

    Raises:
      UserError: as `named_class` and `from_mapping`.
    """
    fields = dict(values)
    return from_mapping(named_class(str(fields.pop("name", "")), kind, at), fields, f"{at}.")


def _chosen(
    section: Any, field: dataclasses.Field, value: Mapping[str, Any], key: str
) -> tuple[Any, dict[str, Any]]:
    """The class that a `Choice` names, the field's default if it names none, and its fields."""
    values = dict(value)
    name = values.pop("name", None)
    if name is not None:
        require(isinstance(name, str), f"{key}.name={name!r}: expected str")
        return named_class(name, section, f"{key}.name"), values
    if field.default_factory is not dataclasses.MISSING:
        return type(field.default_factory()), values
    raise UserError(f"config key '{key}.name' is missing")


def named_class(name: str, kind: Any, key: str) -> Any:
    """The class that a text names as "package.module:Class".

    The text may be anybody's. Nothing is imported but modules of packages that somebody installed
    or wrote: never what lies in an export or in another folder of data, nor Python's own.

    Args:
      kind: the class that it must be one of.
      key: what an error calls the place of the name.

    Raises:
      UserError: if there is no such module or class, or it is of another kind.
    """
    module, _, attribute = CLASSES.get(name, name).partition(":")
    wanted = kind.__name__.lower()
    try:
        if module not in sys.modules and not _is_in_a_package(module):
            raise ImportError("of no package that is installed")
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"{key}={name!r}: no such {wanted} ({error})") from error
    if not (isinstance(found, type) and issubclass(found, kind)):
        raise UserError(f"{key}={name!r}: not a {wanted}")
    return found


def _is_in_a_package(module: str) -> bool:
    """Whether the first part of a module's name is a package, which a folder of data is not: it has
    no __init__.py, or it has what an export has."""
    package = module.partition(".")[0]
    if not re.fullmatch(r"[A-Za-z]\w*(\.[A-Za-z]\w*)*", module):
        return False
    spec = None if package in sys.stdlib_module_names else importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return False
    return not (Path(spec.origin).parent / "export.json").exists()


def suggestion(name: str, known: list[str]) -> str:
    """What a person may have meant instead of an unknown name, or all there are."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; known here: {', '.join(sorted(known))}"


def _checked(kind: Any, value: Any, key: str) -> Any:
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        good = any(value == choice and type(value) is type(choice) for choice in choices)
        require(good, f"{key}={value!r}: must be {' | '.join(map(str, choices))}")
        return value
    if type(value) is int and abs(value) > LARGEST:
        raise UserError(f"{key}={_short(value)}: at most {LARGEST}")
    if kind is float and type(value) is int:
        return float(value)
    if typing.get_origin(kind) is tuple and type(value) in (tuple, list):  # JSON has lists
        return tuple(_checked(typing.get_args(kind)[0], one, key) for one in value)
    if type(value) is not kind:
        expected = "a list" if typing.get_origin(kind) is tuple else kind.__name__
        raise UserError(f"{key}={value!r}: expected {expected}, got {type(value).__name__}")
    if kind is str and (wrong := UNWRITABLE.search(value)):
        raise UserError(f"{key}={value!r}: {wrong[0]!r} is no character that a file can hold")
    return value


def _short(number: int) -> str:
    """A number that may have thousands of digits."""
    return str(number) if abs(number) < 10**20 else f"{str(number)[:20]}..."
