"""Frozen dataclasses from configs and JSON files, checked by name, type and choice."""

import csv
import dataclasses
import difflib
import importlib
import importlib.util
import io
import math
import pkgutil
import re
import sys
import typing
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from common_jax.errors import UserError, error_context, own_error
from common_jax.renames import current_class

T = TypeVar("T")

LARGEST = 2**31 - 1  # of int32 arrays
FORMER = "former"
_LIMIT = "limit"
DERIVED = "derived"  # in the metadata of a field that no file has


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of a config, whose values are checked against the limits of its fields:

        rows: int = size(8)
        dropout: float = rate(0.1)

    Attributes:
      section: its name in the config, for messages: "model" for "model.rows=0: at least 1".
    """

    section: ClassVar[str] = ""

    def __post_init__(self):
        at = f"{self.section}." if self.section else ""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            holds, limit = field.metadata.get(_LIMIT, (bool, ""))
            require(not limit or holds(value), f"{at}{field.name}={value}: {limit}")


def size(default: int, least: int = 1) -> Any:
    """A field that is at least `least`."""
    return _limited(default, lambda value: value >= least, f"at least {least}")


def odd(default: int) -> Any:
    """A field that is odd and at least 1."""
    return _limited(default, lambda value: value >= 1 and value % 2 == 1, "must be odd, at least 1")


def rate(default: float) -> Any:
    """A field in [0, 1)."""
    return _limited(default, lambda value: 0 <= value < 1, "a rate in [0, 1)")


def share(default: float) -> Any:
    """A field in [0, 1]."""
    return _limited(default, lambda value: 0 <= value <= 1, "a share from 0 to 1")


def positive(default: float) -> Any:
    """A finite field above 0."""
    return _limited(default, lambda value: 0 < value < math.inf, "above 0, and finite")


def not_negative(default: float) -> Any:
    """A field of at least 0."""
    return _limited(default, lambda value: value >= 0, "not negative")


def _limited(default: Any, holds: Callable[[Any], bool], limit: str) -> Any:
    """A dataclass field whose values must hold; `limit` says it in a message."""
    return dataclasses.field(default=default, metadata={_LIMIT: (holds, limit)})


@dataclasses.dataclass(frozen=True)
class Choice(Section):
    """A config section that names its class: {"name": "package.module:Class", FIELD: value}.

    A config field whose type is a subclass of `Choice` accepts any of its subclasses, so that a new
    variant is a new module and an entry in a config file.
    """

    @property
    def name(self) -> str:
        """ "package.module:Class"."""
        return f"{type(self).__module__}:{type(self).__qualname__}"


@dataclasses.dataclass(frozen=True)
class DefaultChoice:
    """A `default_factory` for a `Choice` field that imports the default's class only when called.

    The field's annotation is the quoted name of one of that class's bases.

    Attributes:
      name: the class of the default, "package.module:Class".
    """

    name: str

    @property
    def type(self) -> Any:
        """The class."""
        return pkgutil.resolve_name(self.name)

    def __call__(self) -> Any:
        return self.type()


def former_values(kind: Any) -> dict[str, Any]:
    """The values of a section's fields in stored configs of versions without them: those in the
    fields' metadata as `FORMER`."""
    fields = dataclasses.fields(kind)
    return {field.name: field.metadata[FORMER] for field in fields if FORMER in field.metadata}


def field_types(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields by name."""
    factories = [field.default_factory for field in dataclasses.fields(kind)]
    defaults = [factory.type for factory in factories if isinstance(factory, DefaultChoice)]
    bases = {base.__name__: base for default in defaults for base in default.__mro__}
    return typing.get_type_hints(kind, localns=bases)


def require(condition: bool, message: str) -> None:
    """Raises UserError(message) unless `condition` is true."""
    if not condition:
        raise UserError(message)


def split_list(text: str, key: str) -> list[str]:
    """The items of a comma-separated list, without blanks around them; an item with a comma is in
    quotation marks, as in CSV.

    Args:
      key: the name of the setting, for messages.

    Raises:
      UserError: for quotation marks that are not those of CSV.
    """
    try:
        items = next(csv.reader([text], strict=True, skipinitialspace=True)) if '"' in text else []
    except csv.Error as error:
        raise UserError(f'{key}={text}: quotation marks as in CSV, "a, b",c ({error})') from error
    return [item.strip() for item in items or text.split(",")]


def join_list(items: Iterable[str]) -> str:
    """The text of which `split_list` makes the items."""
    file = io.StringIO()
    csv.writer(file, lineterminator="").writerow(items)
    return file.getvalue()


def from_mapping(kind: type[T], values: Mapping[str, Any], at: str = "") -> T:
    """The dataclass `kind` from nested mappings (a ConfigDict, a parsed JSON or TOML file).

    A field is a str, int, float, bool, `Literal`, `Choice` or dataclass, a `tuple[X, ...]` or
    `Mapping[str, X]` of them, or `X | None`. Messages name an element as "FIELD[0]: " or
    "FIELD.KEY: ", also those of its class's `__post_init__`.

    Raises:
      UserError: for an unknown key, a missing one without a default, or a value of the wrong type.
    """
    hints = field_types(kind)
    fields_by_name = {
        field.name: field
        for field in dataclasses.fields(kind)  # type: ignore[arg-type]
        if DERIVED not in field.metadata
    }
    values_by_name = {}

    # each value, converted to the type of its field
    for name, value in values.items():
        key = f"{at}{name}"
        if name not in fields_by_name:
            raise UserError(f"unknown key {key!r}{suggestion(name, list(fields_by_name))}")
        section = hints[name]
        if isinstance(section, type) and issubclass(section, Choice):
            _require_group(value, key)
            section, value = _choice_class(section, fields_by_name[name], value, key)
        values_by_name[name] = _checked(section, value, key)

    # the other fields need a default
    for name, field in fields_by_name.items():
        default = (field.default, field.default_factory)
        if name not in values_by_name and default == (dataclasses.MISSING,) * 2:
            raise UserError(f"key '{at}{name}' is missing")
    return kind(**values_by_name)


def to_mapping(config: Any) -> dict[str, Any]:
    """A dataclass as nested mappings, the inverse of `from_mapping`."""
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    nested = {k: to_mapping(v) if dataclasses.is_dataclass(v) else v for k, v in values.items()}
    return {"name": config.name, **nested} if isinstance(config, Choice) else nested


def from_choice(kind: Any, values: Mapping[str, Any], at: str) -> Any:
    """The `Choice` that `to_mapping` wrote.

    Args:
      kind: the required base class.
      at: the location for error messages.

    Raises:
      UserError: as `named_class` and `from_mapping`.
    """
    fields = dict(values)
    return from_mapping(named_class(str(fields.pop("name", "")), kind, at), fields, f"{at}.")


def _choice_class(
    section: Any, field: dataclasses.Field, value: Mapping[str, Any], key: str
) -> tuple[Any, dict[str, Any]]:
    """The class that a `Choice` names, or the field's default, and the values of its fields."""
    values = dict(value)
    name = values.pop("name", None)
    if name is not None:
        require(isinstance(name, str), f"{key}.name={name!r}: expected str")
        return named_class(name, section, f"{key}.name"), values
    if field.default_factory is not dataclasses.MISSING:
        return type(field.default_factory()), values
    raise UserError(f"key '{key}.name' is missing")


def named_class(name: str, kind: Any, key: str) -> Any:
    """The class with the name "package.module:Class".

    The name may come from an untrusted file, so only modules of installed packages and the user's
    own are imported: none of the standard library, of an export or of another data folder.

    Args:
      kind: the required base class.
      key: the location of the name for error messages.

    Raises:
      UserError: if there is no such module or class, or it is no subclass of `kind`.
    """
    module, _, attribute = current_class(name).partition(":")
    role = kind.__name__.lower()
    try:
        if module not in sys.modules and not _is_in_a_package(module):
            raise ImportError("not in an installed package")
        resolved = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        reason = own_error(error) or error
        raise UserError(f"{key}={name!r}: no such {role} ({reason})") from error
    if not (isinstance(resolved, type) and issubclass(resolved, kind)):
        raise UserError(f"{key}={name!r}: not a {role}")
    return resolved


def _is_in_a_package(module: str) -> bool:
    """Whether Python finds a module's top-level package, a file or a folder with an __init__.py and
    no export.json, outside the standard library."""
    package = module.partition(".")[0]
    if not re.fullmatch(r"[A-Za-z]\w*(\.[A-Za-z]\w*)*", module):
        return False
    spec = None if package in sys.stdlib_module_names else importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return False
    return not (Path(spec.origin).parent / "export.json").exists()


def flat(config: Mapping[str, Any], at: str = "") -> dict[str, Any]:
    """A config's values by the fields' full names."""
    fields: dict[str, Any] = {}
    for name, value in config.items():
        key = f"{at}{name}"
        fields.update(flat(value, f"{key}.") if isinstance(value, dict) else {key: value})
    return fields


def nearest(name: str, known: Iterable[str]) -> str:
    """The closest known name to an unknown one, as the end of a message; "" if none is close."""
    close = difflib.get_close_matches(name, [*known], n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def suggestion(name: str, known: list[str]) -> str:
    """As `nearest`, or all known names if none is close."""
    rest = f"; known here: {', '.join(sorted(known))}" if known else "; it has no fields"
    return nearest(name, known) or rest


def _require_group(value: Any, key: str) -> None:
    require(isinstance(value, Mapping), f"key {key!r} is a group of keys")


def _checked(kind: Any, value: Any, key: str) -> Any:
    """A value checked against, and converted to, a field's type (`from_mapping` lists them)."""
    origin = typing.get_origin(kind)
    arguments = typing.get_args(kind)

    # None, groups and lists, whose elements are checked in turn
    if type(None) in arguments:
        (inner,) = (argument for argument in arguments if argument is not type(None))
        return None if value is None else _checked(inner, value, key)
    if dataclasses.is_dataclass(kind):
        _require_group(value, key)
        return from_mapping(kind, value, f"{key}.")  # type: ignore[arg-type]
    if origin is Mapping:
        _require_group(value, key)
        return {k: _element(arguments[1], v, f"{key}.{k}") for k, v in value.items()}
    if origin is tuple and type(value) in (tuple, list):  # JSON has lists
        return tuple(_element(arguments[0], v, f"{key}[{n}]") for n, v in enumerate(value))

    # one of a field's choices, of the same type
    if origin is Literal:
        choices = arguments
        good = any(value == choice and type(value) is type(choice) for choice in choices)
        require(good, f"{key}={value!r}: must be {' | '.join(map(str, choices))}")
        return value

    # plain values; only an int converts to another type, float
    if type(value) is int and abs(value) > LARGEST:
        raise UserError(f"{key}: at most {LARGEST}")
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind and kind is not Any:
        expected = "a list" if origin is tuple else kind.__name__
        raise UserError(f"{key}={value!r}: expected {expected}, got {type(value).__name__}")
    return value


def _element(kind: Any, value: Any, key: str) -> Any:
    """`_checked` of an element; errors of a dataclass are prefixed with its location."""
    if not dataclasses.is_dataclass(kind):
        return _checked(kind, value, key)
    _require_group(value, key)
    with error_context(key):
        return from_mapping(kind, value)  # type: ignore[arg-type]
