"""Named scopes for the parts of a training step, by which `launch.bench train` reports its time."""

import contextlib
import re

import jax

_MARK = "part."


def part(name: str) -> contextlib.AbstractContextManager:
    """A named scope; the operations traced in it, and their gradients, belong to the part."""
    return jax.named_scope(_MARK + name)


def part_of(operation: str) -> str:
    """The innermost part in the name of a compiled operation; "other" if it is in none."""
    names = re.findall(rf"{re.escape(_MARK)}(\w+)", operation)
    return names[-1] if names else "other"
