"""Removes the folders of this machine from what an export stores."""

import re
from typing import Any

_HOME = r"(?:~[^\s/]*)?/"
_FOLDERS = re.compile(  # of an absolute path, or of one below a home
    rf"""^{_HOME}(?:[^,;'"=]*/)?"""  # that begins a text, and may have blanks
    rf"""|(?<=['"]){_HOME}(?:[^'"]*/)?"""  # in quotes
    rf"""|(?<=[\s=,;\[({{]){_HOME}(?:[^\s,;'"]*/)?"""
)


def shareable(value: Any) -> Any:
    """A JSON value in whose texts each absolute path is shortened to its last component."""
    if isinstance(value, dict):
        return {key: shareable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shareable(item) for item in value]
    return _FOLDERS.sub("", value) if isinstance(value, str) else value
