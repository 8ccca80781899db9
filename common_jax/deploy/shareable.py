"""What an export tells of the machine that made it: nothing."""

import re
from typing import Any

_HOME = r"(?:~[^\s/]*)?/"
_FOLDERS = re.compile(  # of an absolute path, or of one below a home
    rf"""^{_HOME}(?:[^,;'"=]*/)?"""  # that begins a text, and may have blanks
    rf"""|(?<=['"]){_HOME}(?:[^'"]*/)?"""  # in quotes
    rf"""|(?<=[\s=,;\[({{]){_HOME}(?:[^\s,;'"]*/)?"""
)


def shareable(value: Any) -> Any:
    """A value of JSON with the last component of each absolute path in its texts."""
    if isinstance(value, dict):
        return {key: shareable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shareable(item) for item in value]
    return _FOLDERS.sub("", value) if isinstance(value, str) else value
