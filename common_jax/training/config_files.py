"""Config files by path or by the name of an installed one: FILE.py, csan/quickstart."""

import os
from pathlib import Path

from common_jax.errors import UserError
from common_jax.fields import nearest, suggestion

FOLDER = Path(__file__).resolve().parents[2] / "configs"


def installed_configs() -> list[str]:
    """The names of the config files beside this package: FAMILY/CONFIG."""
    files = [
        path for path in FOLDER.glob("*/*.py") if "\ndef get_config(" in path.read_text("utf-8")
    ]
    return sorted(f"{path.parent.name}/{path.stem}" for path in files)


def installed_name(file: str) -> str:
    """NAME of an installed config's path in a clone, configs/NAME.py; unchanged in the clone, and
    for other files."""
    path, colon, argument = file.partition(":")
    name = path.removeprefix("configs/").removesuffix(".py")
    if Path.cwd() == FOLDER.parent or name not in installed_configs():
        return file
    return f"{name}{colon}{argument}"


def config_file(file: str) -> str:
    """FILE[:ARGUMENT] with the path of a file.

    Args:
      file: the path of an existing file, or the name of an installed config, which may be written
        as in a clone, configs/NAME.py.

    Raises:
      UserError: if there is neither.
    """
    path, colon, argument = file.partition(":")
    if os.path.isfile(path):
        return file
    name = path.removeprefix("configs/").removesuffix(".py")
    known = installed_configs()
    if name in known:
        return f"{FOLDER / name}.py{colon}{argument}"
    hint = (nearest if path.endswith(".py") else suggestion)(name, known)
    raise UserError(f"--config: no such file: {path}{hint}")
