"""Removes the folders of this machine from what an export stores."""

import re
from typing import Any

_HOME = r"(?:~[^\s/]*)?/"
_FOLDERS = re.compile(  # of an absolute path, or of one below a home
    rf"""^{_HOME}(?:[^,;'"=]*/)?"""  # that begins a text, and may have blanks
    rf"""|(?<=['"]){_HOME}(?:[^'"]*/)?"""  # in quotes
    rf"""|(?<=[\s=,;\[({{]){_HOME}(?:[^\s,;'"]*/)?"""
)


_TEXTS = frozenset({"labels", "ignored_labels", "separator"})  # fields that have no paths


def shareable(value: Any) -> Any:
    """A JSON value in whose texts each absolute path is shortened to its last component, except in
    fields that have no paths, such as labels."""
    if isinstance(value, dict):
        return {key: v if key in _TEXTS else shareable(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [shareable(item) for item in value]
    return _FOLDERS.sub("", value) if isinstance(value, str) else value
