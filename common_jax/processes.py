"""Processes that run a module of this package."""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).parents[1])
_CODE = "import sys; sys.path.append(sys.argv.pop(1)); from {} import main; main()"


def module_process(module: str, *arguments: str) -> list[str]:
    """The command line of a process that calls `main` of a module with the arguments in
    `sys.argv[1:]`, without the current folder on `sys.path`."""
    return [sys.executable, "-P", "-c", _CODE.format(module), _ROOT, *arguments]
