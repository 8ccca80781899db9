"""One saved step, read onto the shapes that a model wants."""

import json
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from common_jax.errors import UserError

Position = tuple[int, int]  # epoch, and batch within it: those that come next

_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)


class UnreadableError(Exception):
    """A step that is damaged; the message names what."""


def read_state(folder: Path, abstract: Any, under: str = "") -> Any:
    """The state saved in a step's folder, or a part of it.

    Args:
      folder: of the step.
      abstract: shapes, types and shardings. Orbax alone would cast what differs from them.
      under: reads only leaves whose name begins so; `abstract` has no others.

    Raises:
      UserError: a leaf is missing, or one too many, or of another shape or type, by its name.
      UnreadableError: if Orbax cannot read it.
    """
    path = folder.absolute() / "state"
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
        try:
            saved = _leaves(reader.metadata(path).item_metadata.tree)
        except _UNREADABLE as error:
            raise UnreadableError(f"state: cannot be read: {error}") from error
        _require_same(folder, saved, _leaves(abstract), under)
        args = ocp.args.PyTreeRestore(
            item=abstract,  # type: ignore[call-arg]
            restore_args=ocp.checkpoint_utils.construct_restore_args(abstract),  # type: ignore[call-arg]
            partial_restore=bool(under),  # type: ignore[call-arg]
        )
        try:
            return reader.restore(path, args=args)
        except _UNREADABLE as error:
            raise UnreadableError(f"state: cannot be read: {error}") from error


def read_position(folder: Path) -> Position:
    """The data position saved in a step's folder.

    Raises:
      UnreadableError: if it cannot be read.
    """
    try:
        position = json.loads((folder / "position" / "metadata").read_text(encoding="utf-8"))
        return position["epoch"], position["batch"]
    except _UNREADABLE as error:
        raise UnreadableError(f"position: cannot be read: {error}") from error


def _leaves(tree: Any) -> dict[str, str]:
    """ "params/a/b" -> "float32 [3, 4]"."""
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): f"{leaf.dtype} {list(leaf.shape)}"
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree)
    }


def _require_same(folder: Path, saved: dict[str, str], wanted: dict[str, str], under: str) -> None:
    for name in sorted({*saved, *wanted}):
        there, want = saved.get(name, "missing"), wanted.get(name, "none")
        if there != want and name.startswith(under):
            raise UserError(f"{folder}: {name}: {there}, the model wants {want}")
