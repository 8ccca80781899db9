"""One saved step, read onto the shapes that a model wants."""

import json
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from common_jax.io.parameters import require_same

Position = tuple[int, int]  # epoch, and batch within it: those that come next

_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)


class UnreadableError(Exception):
    """A step that is damaged; the message names what."""


def read_state(path: Path, abstract: Any, under: str = "") -> Any:
    """The tree that Orbax saved in a folder, or a part of it.

    Args:
      path: the folder; errors name the one around it.
      abstract: shapes, types and shardings. Orbax alone would cast what differs from them.
      under: reads only leaves whose name begins so; `abstract` has no others.

    Raises:
      UserError: a leaf is missing, or one too many, or of another shape or type, by its name.
      UnreadableError: if Orbax cannot read it.
    """
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
        try:
            saved = _leaves(reader.metadata(path.absolute()).item_metadata.tree)
            part = {name: leaf for name, leaf in saved.items() if name.startswith(under)}
            require_same(str(path.parent), part, _leaves(abstract))
        except _UNREADABLE as error:
            raise UnreadableError(f"{path.name}: cannot be read: {error}") from error
        args = ocp.args.PyTreeRestore(
            item=abstract,  # type: ignore[call-arg]
            restore_args=ocp.checkpoint_utils.construct_restore_args(abstract),  # type: ignore[call-arg]
            partial_restore=bool(under),  # type: ignore[call-arg]
        )
        try:
            return reader.restore(path.absolute(), args=args)
        except _UNREADABLE as error:
            raise UnreadableError(f"{path.name}: cannot be read: {error}") from error


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


def _leaves(tree: Any) -> dict[str, Any]:
    """By their "params/a/b" names."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    name = lambda path: jax.tree_util.keystr(path, simple=True, separator="/")
    return {name(path): leaf for path, leaf in leaves}
