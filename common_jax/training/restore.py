"""Reads a saved step onto the shapes and shardings of a model."""

import json
from typing import Any

import jax
import orbax.checkpoint as ocp

from common_jax.data.batches import Position
from common_jax.errors import UserError
from common_jax.io.parameters import require_same
from common_jax.io.paths import AnyPath
from common_jax.io.storage import bucket_state

_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)


class UnreadableError(Exception):
    """A damaged step; the message names the damage."""


def read_state(path: AnyPath, abstract: Any, part: str = "") -> Any:
    """The tree that Orbax saved in a folder, or a part of it.

    Args:
      path: the folder; errors name its parent.
      abstract: shapes, types and shardings. Orbax itself would cast other types.
      part: reads only this top-level entry, which must be the only one of `abstract`.

    Raises:
      UserError: if a leaf is missing, unexpected, or of another shape or type, by its name.
      UnreadableError: if Orbax cannot read it.
    """
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
        # names, shapes and types are compared first, so that an error can name the leaf
        try:
            tree = reader.metadata(path.absolute()).item_metadata.tree
            tree = {name: tree[name] for name in tree if part in ("", name)}
            require_same(str(path.parent), _leaves(tree), _leaves(abstract))
        except _UNREADABLE as error:
            raise _unreadable(path, error) from error

        # the arrays, onto the shardings of `abstract`
        args = ocp.args.PyTreeRestore(
            item=abstract,  # type: ignore[call-arg]
            restore_args=ocp.checkpoint_utils.construct_restore_args(abstract),  # type: ignore[call-arg]
            partial_restore=bool(part),  # type: ignore[call-arg]
        )
        try:
            return reader.restore(path.absolute(), args=args)
        except _UNREADABLE as error:
            raise _unreadable(path, error) from error


def _unreadable(path: AnyPath, error: Exception) -> Exception:
    """The error for a folder that Orbax cannot read: a UserError if a bucket's service failed."""
    buckets = bucket_state()
    if buckets and (reason := buckets.service_error(error)):
        return UserError(f"{path}: {reason}")
    return UnreadableError(f"{path.name}: cannot be read: {error}")


def read_position(folder: AnyPath) -> tuple[Position, str]:
    """The data position saved in a step's folder, and `Restored.data`.

    Raises:
      UnreadableError: if it cannot be read.
    """
    try:
        position = json.loads((folder / "position" / "metadata").read_text(encoding="utf-8"))
        return (position["epoch"], position["batch"]), position.get("data", "")
    except _UNREADABLE as error:
        raise UnreadableError(f"position: cannot be read: {error}") from error


def _leaves(tree: Any) -> dict[str, Any]:
    """Leaves by their "params/a/b" names."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}
