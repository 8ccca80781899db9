"""Importing a config, and `--help` of every command, load no jax."""

import subprocess
import sys
from pathlib import Path

import pytest

from launch.__main__ import commands, module_of

ROOT = Path(__file__).parents[2]
CONFIGS = sorted(path.parent.name for path in ROOT.glob("*_jax/config.py"))
HEAVY = {"jax", "flax", "optax", "orbax"}
PAGES = [
    *([name] for name in commands()),
    *(["bench", part] for part in ("attention", "train", "predict")),
]


def loaded(code, *argv):
    """The top-level modules that a new process has loaded after the code."""
    script = f"import sys\n{code}\nprint('\\n' + ' '.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script, *argv], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return {name.split(".")[0] for name in done.stdout.splitlines()[-1].split()}


def test_a_heavy_module_is_seen():
    assert "jax" in loaded("import csan_jax.model") & HEAVY


def test_reading_an_export_loads_no_orbax():
    modules = loaded("import common_jax.training.load_parameters")
    assert "jax" in modules and "orbax" not in modules


@pytest.mark.parametrize("package", CONFIGS)
def test_importing_a_config_loads_no_jax(package):
    modules = loaded(f"import {package}.config")
    assert package in modules
    assert modules & HEAVY == set()


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--version"], *([name, "--help"] for (name,) in PAGES[:-3])],
    ids=" ".join,
)
def test_the_console_command_loads_neither_jax_nor_numpy(words):
    code = f"sys.argv = ['conv-attention', *{words}]\nfrom launch.__main__ import console\ntry:\n"
    modules = loaded(f"{code}    console()\nexcept SystemExit as exit_:\n    assert not exit_.code")
    assert modules & {*HEAVY, "numpy"} == set()


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_help_loads_neither_jax_nor_numpy(words):
    command, *rest = words
    code = f"from {module_of(command)} import main\ntry:\n    main({[*rest, '--help']})\n"
    modules = loaded(f"{code}except SystemExit as exit_:\n    assert exit_.code == 0")
    assert "launch" in modules
    assert modules & {*HEAVY, "numpy"} == set()
