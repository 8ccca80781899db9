"""Griffe extension: adapts docstrings to mkdocstrings."""

import re

import griffe

NAMES = re.compile(r"^( +)(\w+(?:, \w+)+): ", re.MULTILINE)  # "a, b: text"
TAG = re.compile(r"`[^`]*`|<(?=[A-Za-z/])")  # code, or text that Markdown reads as HTML


def adapted(docstring: str) -> str:
    """A docstring with one entry for each name of "a, b: text", and with "<" escaped."""

    def entries(names: re.Match) -> str:
        *others, last = names[2].split(", ")
        lines = [f"{names[1]}{name}: see `{last}`.\n" for name in others]
        return f"{''.join(lines)}{names[1]}{last}: "

    docstring = NAMES.sub(entries, docstring)
    return TAG.sub(lambda one: "&lt;" if one[0] == "<" else one[0], docstring)


class Docstrings(griffe.Extension):
    """Adapts the docstring of each object."""

    def on_object(self, *, obj: griffe.Object, **kwargs) -> None:
        if obj.docstring is not None:
            obj.docstring.value = adapted(obj.docstring.value)
