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


COOLDOWNS = {
    "attconv/quickstart": (400, 600),
    "attconv/reviews_small": (1000, 1000),
    "attconv/snli_small": (1100, 1100),
    "csan/multi30k": (1000, 5000),
    "csan/multi30k_small": (300, 700),
    "csan/quickstart": (120, 120),
    "csan/tanaka_jaen": (700, 5300),
    "csan/tatoeba_deen": (1000, 2000),
    "qanet/quickstart": (180, 220),
    "qanet/squad_small": (4000, 8000),
}


@pytest.mark.parametrize("name", COOLDOWNS)
def test_cooldowns_are_those_of_stored_runs(name):
    """Start and length at the config's number of steps, in integers, and at twice as many."""
    config = parse(str(FOLDER / f"{name}.py"), [])
    scheduled = config.optimizer.scheduled(config.train.steps)
    assert (scheduled.cooldown_start, scheduled.cooldown_steps) == COOLDOWNS[name]
    twice = config.optimizer.scheduled(2 * config.train.steps)
    assert twice.last_step == 2 * config.train.steps
    assert twice.cooldown_steps == 2 * scheduled.cooldown_steps
