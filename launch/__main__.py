"""The console command: lists the commands, and runs one by its name."""

import ast
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from common_jax.errors import UserError
from launch.cli import BOLD, colored, program, run, spelled

FOLDER = Path(__file__).parent


def commands() -> dict[str, str]:
    """The first line of the docstring of each command of this folder, by name."""
    docstrings = {name: ast.get_docstring(ast.parse(text)) for name, text in _sources().items()}
    return {name: (text or "").partition("\n")[0] for name, text in docstrings.items()}


def _sources() -> dict[str, str]:
    """The text of each command's module, by the command's name."""
    files = [*FOLDER.glob("[!_]*.py"), *FOLDER.glob("*/__main__.py")]
    texts = {
        path.parent.name if path.stem == "__main__" else path.stem: path.read_text("utf-8")
        for path in sorted(files)
    }
    return {name: text for name, text in sorted(texts.items()) if "\n    run(main)" in text}


def module_of(command: str) -> str:
    """The full name of the module with the `main` of a command."""
    is_folder = (FOLDER / command).is_dir()
    return f"launch.{command}.__main__" if is_folder else f"launch.{command}"


def main_of(command: str) -> Callable[[list[str]], None]:
    """The function that runs a command on its arguments."""
    return importlib.import_module(module_of(command)).main


def main(argv: Sequence[str]) -> None:
    """Runs the command that the first argument names, or lists all."""
    if not argv or argv[0] in ("-h", "--help"):
        _list(commands())
    elif argv[0] == "--version":
        print(_version())
    else:
        name = argv[0].removeprefix("launch.")
        known = _sources()
        if name not in known:
            from common_jax.fields import nearest

            hint = f"{nearest(name, known)} (see {program()} --help)"
            raise UserError(f"no command {argv[0]!r}{hint}")
        main_of(name)([*argv[1:]])


def console() -> NoReturn:
    """The entry point of `conv-attention`."""
    if "_ARGCOMPLETE" in os.environ:  # set by the script of `launch.completion`
        from launch.completion import answer

        answer(_sources(), main_of)
    run(main)


def _list(known: dict[str, str]) -> None:
    width = max(map(len, known))
    print(spelled("Commands: python -m launch.NAME; --help explains each.\n"))
    for name, line in known.items():
        print(f"  {colored(f'{name:{width}}', BOLD, sys.stdout)}  {line}")
    print(spelled("\nexample:\n  python -m launch.train --config configs/csan/quickstart.py"))


def _version() -> str:
    """Versions of this project and of the packages that results depend on."""
    from common_jax.versions import commit, versions

    installed = {"conv-attention-jax": "not installed", **versions()}
    text = f"conv-attention-jax {installed.pop('conv-attention-jax')}"
    rest = ", ".join(f"{name} {version}" for name, version in installed.items())
    return f"{text} ({', '.join(filter(None, (rest, commit() and f'commit {commit()}')))})"


if __name__ == "__main__":
    console()
