"""Models by name: hf://OWNER/NAME@REVISION and demo:NAME."""

import os
from pathlib import Path, PurePosixPath

from common_jax.errors import UserError
from common_jax.fields import nearest
from common_jax.io.paths import DEMO, HF, AnyPath, as_path


def is_name(path: str | os.PathLike[str]) -> bool:
    """Whether an argument names a model instead of its folder."""
    return is_foreign(path) or os.fspath(path).startswith(DEMO)


def is_foreign(path: str | os.PathLike[str]) -> bool:
    """Whether an argument names a model of a hub, which is not trusted."""
    return os.fspath(path).startswith(HF)


def located(path: str | AnyPath) -> AnyPath:
    """The local folder of a named model, downloaded unless cached; any other argument as a path.

    Raises:
      UserError: for a malformed name, or one of no model.
    """
    text = os.fspath(path)
    if text.startswith(HF):
        from common_jax.deploy.hub import download

        return download(text)
    return _demo(text.removeprefix(DEMO)) if text.startswith(DEMO) else as_path(path)


def short_name(path: str) -> str:
    """The model's part of a name; of another argument the name of its folder."""
    if path.startswith(HF):
        return PurePosixPath(path.partition("@")[0]).name
    if path.startswith(DEMO):
        return path.removeprefix(DEMO)
    return Path(os.path.abspath(path)).name


def demos() -> dict[str, Path]:
    """The small trained models of the installed papers, NAME_jax/demo, by NAME."""
    packages = Path(__file__).parents[2]
    folders = sorted(file.parent for file in packages.glob("*_jax/demo/export.json"))
    return {folder.parent.name.removesuffix("_jax"): folder for folder in folders}


def _demo(name: str) -> Path:
    if (folder := demos().get(name)) is None:
        known = ", ".join(DEMO + known for known in demos()) or "none is installed"
        hint = nearest(name, demos()) or f"; there are {known}"
        raise UserError(f"{DEMO}{name}: no such model{hint}")
    return folder
