"""Importing a config, and `--help` of every command, load no jax.

One process makes all cases. It has imported only Python's own library when it forks a child for
each; a child runs its case alone and prints its modules, so that a case sees no module of another.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from launch.__main__ import module_of
from tests.launch.test_help import PAGES

ROOT = Path(__file__).parents[2]
JAX = {"jax", "flax", "optax", "orbax"}
FORK = """
import contextlib, io, json, os, sys
import argparse, ast, csv, dataclasses, inspect, logging, pathlib, shlex, subprocess, zipfile
for name, code in json.load(sys.stdin).items():
    if os.fork():
        assert os.wait()[1] == 0, name
        continue
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            exec(code, {})
        except SystemExit as end:
            assert not end.code
    print(json.dumps([name, sorted({module.partition(".")[0] for module in sys.modules})]))
    sys.stdout.flush()
    os._exit(0)
"""
CONSOLE = "import sys\nsys.argv = {}\nfrom launch.__main__ import console\nconsole()"
HELP = "from {} import main\nmain({})"
CONFIGS = {
    f"import {path.parent.name}.config": f"import {path.parent.name}.config"
    for path in sorted(ROOT.glob("*_jax/config.py"))
}
COMMANDS = {
    " ".join(["conv-attention", *words]): CONSOLE.format(["conv-attention", *words])
    for words in ([], ["--help"], ["--version"], *([*p, "--help"] for p in PAGES if len(p) == 1))
} | {
    " ".join(["launch", *page]): HELP.format(module_of(page[0]), [*page[1:], "--help"])
    for page in PAGES
}
READER = {"reading an export": "import common_jax.deploy.parameters"}


@pytest.fixture(scope="module")
def loaded():
    """The top-level modules that each case has loaded."""
    done = subprocess.run(
        [sys.executable, "-c", FORK],
        input=json.dumps(CONFIGS | COMMANDS | READER),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return {name: {*modules} for name, modules in map(json.loads, done.stdout.splitlines())}


@pytest.mark.parametrize("name", CONFIGS)
def test_importing_a_config_loads_no_jax(name, loaded):
    assert name.removeprefix("import ").partition(".")[0] in loaded[name]
    assert loaded[name] & JAX == set()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_and_the_list_load_neither_jax_nor_numpy(name, loaded):
    assert "launch" in loaded[name]
    assert loaded[name] & {*JAX, "numpy"} == set()


def test_reading_an_export_loads_jax_but_no_orbax(loaded):
    assert loaded["reading an export"] & JAX >= {"jax"}
    assert "orbax" not in loaded["reading an export"]
