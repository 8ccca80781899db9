"""Variables of the shell: settings of jax, platforms that are not there, -OO, other locales; and
a copy of the packages without the commands in folders of their own."""

import importlib.util
import os
import shutil
import subprocess
import sys

import pytest

from common_jax.numerics import REQUIRED
from launch.__main__ import commands
from tests.launch.commands import ROOT, toy_config
from tests.test_layers import PACKAGES

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
SETTINGS = {
    "JAX_ENABLE_X64": "1",
    "JAX_THREEFRY_PARTITIONABLE": "0",
    "JAX_RANDOM_SEED_OFFSET": "7",
    "JAX_DEFAULT_MATMUL_PRECISION": "bfloat16",
}


def started(environment, *words, cwd=ROOT):
    """The status, the output and the messages of a Python process with these variables."""
    environment = {**os.environ, **environment}
    done = subprocess.run([sys.executable, *words], env=environment, cwd=cwd, capture_output=True)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def ran(environment, body):
    """As `started`, of a command with this body."""
    code = f"from launch.cli import run\ndef main(argv):\n    import jax, os\n    {body}\nrun(main)"
    return started(environment, "-c", code)


def test_commands_set_what_changes_results_also_for_processes_that_they_start():
    read = f"[getattr(jax.config, name) for name in {[*REQUIRED]}]"
    left = f"{{*os.environ}} & {{*{[*SETTINGS]}}}"
    status, out, messages = ran(SETTINGS, f"print({read}, {left})")
    assert (status, out) == (0, f"{[*REQUIRED.values()]} set()\n")
    (line,) = messages.splitlines()
    assert line.startswith("not used, as it would change results: ")
    assert all(f"{name}={value}" in line for name, value in SETTINGS.items())


@pytest.mark.parametrize("platform", ["cuda", "tpu", "foo"])
def test_a_platform_that_is_not_there_is_one_line(platform):
    if any(map(importlib.util.find_spec, ("jax_cuda12_plugin", "jax_cuda13_plugin", "libtpu"))):
        pytest.skip("needs an environment without accelerators' packages")
    status, _, messages = ran({"JAX_PLATFORMS": platform}, "jax.devices()")
    (line,) = messages.splitlines()
    assert status == 2 and line.startswith(f"error: JAX_PLATFORMS={platform}: ")
    assert (f"needs the extra {platform} (" in line) == (platform != "foo")


# Prints the help of all commands, those of the arguments, each below a line with its name.
HELP = """
import importlib, sys
from launch.__main__ import commands, module_of

if [*commands()] != sys.argv[1:]:
    sys.exit(f"the commands are {[*commands()]}")
for name in commands():
    print(f"## {name}")
    try:
        importlib.import_module(module_of(name)).main(["--help"])
    except SystemExit as end:
        if end.code:
            raise
    else:
        sys.exit(f"{name} has no --help")
"""


def test_help_without_docstrings():
    status, out, messages = started({"PYTHONOPTIMIZE": "2"}, "-c", HELP, *commands())
    assert (status, messages) == (0, "")
    helps = out.split("## ")[1:]
    assert len(helps) == len(commands()) and all("\nexample" in text for text in helps)


def test_names_of_files_and_texts_are_utf8_in_any_locale():
    status, _, messages = started(ASCII, "-m", "launch.predict", "--workdir", "dü")
    assert status == 2 and messages == "error: dü: not the folder of a run (no config.json)\n"
    # a library's caller keeps its locale
    read = "from common_jax.training.config_files import installed_configs as f; print(len(f()))"
    assert started(ASCII, "-c", read)[0] == 0


def test_a_run_is_trained_without_the_other_commands_in_folders(tmp_path):
    folders = {*copied_packages(tmp_path)} - {"train"}
    for folder in folders:
        shutil.rmtree(tmp_path / "launch" / folder)
    config = toy_config(tmp_path, {"train.steps": 2, "data.cache_dir": str(tmp_path / "cache")})
    argv = ["--config", config, "--workdir", str(tmp_path / "run")]
    alone = {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    status, _, messages = started(alone, "-m", "launch.train", *argv, cwd=tmp_path)
    assert folders and status == 0, messages
    assert (tmp_path / "run" / "result.json").exists()


def copied_packages(folder):
    """Copies the packages and the toy task; returns the folders of commands."""
    for package in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, folder / package, ignore=ignored)
    (folder / "tests").mkdir()
    shutil.copy(ROOT / "tests" / "toy.py", folder / "tests")
    return [path.parent.name for path in sorted((ROOT / "launch").glob("*/__main__.py"))]
