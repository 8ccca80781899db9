"""Variables of the shell, platforms, locales, and paths and homes that a run cannot have."""

import importlib.util
import pwd

import pytest

from common_jax.errors import UserError
from common_jax.io.paths import expand_user
from common_jax.numerics import REQUIRED
from common_jax.training.run_folder import RunFolder
from launch.train import __main__ as train
from tests.launch.commands import fails, python, toy_config

ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
SETTINGS = {
    "JAX_ENABLE_X64": "1",
    "JAX_THREEFRY_PARTITIONABLE": "0",
    "JAX_RANDOM_SEED_OFFSET": "7",
    "JAX_DEFAULT_MATMUL_PRECISION": "bfloat16",
}


def ran(environment, body):
    """As `python`, of a command with this body."""
    code = f"from launch.cli import run\ndef main(argv):\n    import jax, os\n    {body}\nrun(main)"
    return python("-c", code, **environment)


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


def test_names_of_files_and_texts_are_utf8_in_any_locale():
    status, _, messages = python("-m", "launch.predict", "--workdir", "dü", **ASCII)
    assert status == 2 and messages == "error: dü: not the folder of a run (no config.json)\n"
    # a library's caller keeps its locale
    read = "from common_jax.training.config_files import installed_configs as f; print(len(f()))"
    assert python("-c", read, **ASCII)[0] == 0


def test_a_path_that_checkpoints_cannot_have_makes_no_folder(tmp_path, monkeypatch, capsys):
    argv = ["--config", toy_config(tmp_path), "--workdir", str(tmp_path / "a[1]")]
    assert "[ in the path of a run: the libraries" in fails(monkeypatch, capsys, argv, train.main)
    assert not (tmp_path / "a[1]").exists()


def test_a_folder_above_counts_too(tmp_path, monkeypatch):
    (tmp_path / "a\\b").mkdir()
    monkeypatch.chdir(tmp_path / "a\\b")
    with pytest.raises(UserError, match=r"a\\b/run: \\ in the path of a run"):
        RunFolder("run").require_path()


def test_a_home_that_is_not_there_is_refused_by_name(tmp_path, monkeypatch, capsys):
    """HOME is not set, and the user is not in the list of users, as in some containers."""

    def unknown(user):
        raise KeyError(user)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.delenv("HOME")
    monkeypatch.chdir(tmp_path)
    missing = "this user has no home folder: set the variable HOME, or write the path"
    with pytest.raises(UserError, match=f"^~/x: {missing}$"):
        expand_user("~/x")
    assert expand_user("a/~") == "a/~"
    argv = ["--config", toy_config(tmp_path), "--workdir", "run"]
    argv += ["--config.data.cache_dir=~/corpora"]
    line = fails(monkeypatch, capsys, argv, train.main)
    assert line == f"error: data.cache_dir=~/corpora: {missing}"
    assert not (tmp_path / "~").exists()
