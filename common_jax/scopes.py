"""Names for the parts of a step, by which `launch.bench train` tells where its time goes."""

import contextlib
import re

import jax

_MARK = "part."


def part(name: str) -> contextlib.AbstractContextManager:
    """What is traced inside belongs to the part, and so does its gradient."""
    return jax.named_scope(_MARK + name)


def part_of(operation: str) -> str:
    """The innermost part in the name of a compiled operation; "other" if it is in none."""
    found = re.findall(rf"{re.escape(_MARK)}(\w+)", operation)
    return found[-1] if found else "other"
