"""The YAML metadata at the head of a model card, by which hubs index it."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common_jax.errors import UserError

FIELDS = ("license", "language", "datasets", "metrics")  # that a card needs
_HEAD = re.compile(r"---\n(.*?\n)---\n", re.DOTALL)
_LONGEST = 2**16  # characters of a card that are read


def head(fields: Mapping[str, Any]) -> str:
    """The YAML block with these fields; values are JSON, which is valid YAML."""
    lines = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in fields.items())
    return "\n".join(("---", *lines, "---"))


def require_head(card: Path) -> None:
    """Raises UserError if a card's head lacks one of `FIELDS`."""
    try:
        with card.open(encoding="utf-8", errors="replace") as file:
            match = _HEAD.match(file.read(_LONGEST))
    except OSError as error:
        raise UserError(f"{card}: {error.strerror}") from error
    names = re.findall(r"^([\w-]+):", match[1], re.MULTILINE) if match else []
    if missing := [name for name in FIELDS if name not in names]:
        raise UserError(f"{card}: its head has no {missing[0]}; it needs {', '.join(FIELDS)}")
