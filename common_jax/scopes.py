"""Named scopes of a training step, by which `launch.bench train` reports its time."""

import contextlib
import re

import jax

_MARK = "scope."


def scope(name: str) -> contextlib.AbstractContextManager:
    """A named scope, for the operations traced in it and their gradients."""
    return jax.named_scope(_MARK + name)


def scope_of(operation: str) -> str:
    """The innermost scope in the name of a compiled operation; "other" if it is in none."""
    names = re.findall(rf"{re.escape(_MARK)}(\w+)", operation)
    return names[-1] if names else "other"
