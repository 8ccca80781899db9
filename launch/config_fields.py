"""The fields of a config as arguments: for `--help`, for completion and as overrides."""

import argparse
import dataclasses
import inspect
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from common_jax.fields import Choice, field_types

_ATTRIBUTE = re.compile(r"^  (\w+(?:, \w+)*): (.*(?:\n    .*)*)", re.MULTILINE)


# What people set first, in the order of `--help`; a config has some of them.
_FIRST = (
    *("data.dir", "data.train", "data.dev", "data.test", "data.columns", "data.labels"),
    *("data.source_language", "data.target_language", "train.steps", "train.seed"),
    *("data.batch_size", "data.batch_tokens", "optimizer.learning_rate"),
)


class Field(NamedTuple):
    """A field of a config.

    Attributes:
      key: with its sections, "model.dim".
      value: in this config.
      type: annotation.
      text: its line in the docstring of its class; "" if there is none.
      has_effect: beside the values of the other fields.
    """

    key: str
    value: Any
    type: Any
    text: str
    has_effect: bool


def fields_of(config: Any, section: str = "") -> Iterator[Field]:
    """All fields of a config and its sections; of a `Choice` its class's name first."""
    unused = config.unused() if hasattr(config, "unused") else {}
    types = field_types(type(config))
    texts = _texts(type(config))
    if isinstance(config, Choice):
        text = (inspect.getdoc(type(config)) or "").partition("\n")[0]
        yield Field(f"{section}name", config.name, str, text, True)
    for field in dataclasses.fields(config):
        key = f"{section}{field.name}"
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            yield from fields_of(value, f"{key}.")
        else:
            text = texts.get(field.name, "")
            has_effect = field.name not in unused
            yield Field(key, value, types[field.name], text, has_effect)


def _texts(kind: type) -> Mapping[str, str]:
    """The texts of a dataclass's attributes by name, from its docstring and those of its bases."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        _, _, attributes = inspect.cleandoc(base.__doc__ or "").partition("\nAttributes:\n")
        for names, text in _ATTRIBUTE.findall(attributes):
            texts |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return texts


def as_overrides(config: Any) -> list[str]:
    """The fields of a config as `--config.KEY=VALUE`, without those that have no effect."""
    return [f"--config.{f.key}={f.value}" for f in fields_of(config) if f.has_effect]


def add_fields(parser: argparse.ArgumentParser, file: str, overrides: Sequence[str]) -> None:
    """Adds an argument for each field of a config, with type, value and docstring.

    Args:
      file, overrides: of the config; an override without a value is ignored.

    Raises:
      UserError: as `common_jax.training.config.parse`.
    """
    from common_jax.deploy.configs import parse

    config = parse(file, [override for override in overrides if "=" in override])
    parser.usage = parser.format_usage().removeprefix("usage: ").strip()

    # those that people set first have a group of their own
    fields = {field.key: field for field in fields_of(config)}
    first = [fields.pop(key) for key in _FIRST if key in fields]
    groups = {"fields to begin with": first, "further fields": [*fields.values()]}
    for title, members in groups.items():
        group = parser.add_argument_group(f"{title}, with their values in {file}")
        for field in members:
            _add_field(group, field)


def _add_field(group: "argparse._ArgumentGroup", field: Field) -> None:
    value = str(field.value)
    value = value if value and value.isprintable() else repr(field.value)
    text = f"{field.text} ({value})".strip().replace("%", "%%")
    name = f"--config.{field.key}"
    choices = _choices(field.type)
    group.add_argument(name, metavar=_metavar(field), help=text, choices=choices)


def _choices(kind: Any) -> list[str] | None:
    """The values of a field's type, if they can be listed."""
    if kind is bool:
        return ["True", "False"]
    return [*map(str, typing.get_args(kind))] if typing.get_origin(kind) is Literal else None


def _metavar(field: Field) -> str:
    if choices := _choices(field.type):
        return "|".join(choices)
    name = getattr(typing.get_origin(field.type) or field.type, "__name__", "value")
    return {"str": "TEXT", "tuple": "LIST"}.get(name, name.upper())
