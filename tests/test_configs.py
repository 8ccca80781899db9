"""Every config of every family can be parsed, and its docstring has the command."""

import importlib
from pathlib import Path

import pytest

from common_jax.training.config import parse

FOLDER = Path(__file__).parents[1] / "configs"
FILES = sorted(
    path.relative_to(FOLDER)
    for path in FOLDER.glob("*/*.py")
    if path.stem not in ("__init__", "systems")
)


@pytest.mark.parametrize("file", FILES, ids=str)
def test_parses_and_has_its_command(file):
    assert parse(str(FOLDER / file), []).task.startswith(f"{file.parent}_jax.task:")
    module = importlib.import_module(f"configs.{file.parent}.{file.stem}")
    assert f"python -m launch.train --config configs/{file}" in module.__doc__
