"""The console command: in foreign folders, configs by name, completion, output for scripts."""

import importlib
import json
import os
import pty
import re
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

from common_jax.errors import UserError
from common_jax.fields import flat, to_mapping
from common_jax.training.config import default_workdir, parse, systems_of
from common_jax.training.config_files import installed_configs
from launch import cli
from launch.__main__ import main
from launch.cli import module_command
from launch.reproduce import __main__ as reproduce
from launch.train import __main__ as train
from tests.docs.manual import blocks
from tests.launch.commands import fails, toy_config

ROOT = Path(__file__).parents[2]
CONSOLE = Path(sys.executable).with_name("conv-attention")
FAMILIES = ("attconv", "csan", "qanet")


@pytest.fixture
def foreign(tmp_path, monkeypatch):
    """The current folder, in which packages and tables have the names of this project's."""
    for package in ("configs", "launch", "common_jax"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise ImportError('foreign')")
    (tmp_path / "configs" / "csan").mkdir()
    (tmp_path / "configs" / "csan" / "quickstart.py").write_text("raise ImportError('foreign')")
    (tmp_path / "tables" / "csan").mkdir(parents=True)
    (tmp_path / "tables" / "csan" / "figure2.toml").write_text("foreign")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return tmp_path


def printed(*command, **keywords):
    """What a process prints; it must succeed."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **keywords)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_foreign_folder_hides_neither_packages_nor_tables(foreign):
    described = printed(CONSOLE, "train", "--config", "csan/quickstart", "--describe")
    in_clone = ["launch.train", "--config", "configs/csan/quickstart.py", "--describe"]
    assert described == printed(sys.executable, "-m", *in_clone, cwd=ROOT)
    listed = printed(CONSOLE, "reproduce", "--list")
    assert listed == printed(sys.executable, "-m", "launch.reproduce", "--list", cwd=ROOT)


def test_processes_of_a_command_use_its_packages(foreign, monkeypatch):
    plain = [sys.executable, "-m", "launch.train"]
    assert "Trains a model" in printed(*module_command("train"), "--help")
    assert subprocess.run([*plain, "--help"], capture_output=True).returncode != 0
    monkeypatch.chdir(ROOT)
    assert module_command("train") == plain  # as a user types it in the clone


def test_a_config_can_use_modules_of_the_current_folder(foreign):
    (foreign / "mine").mkdir()
    (foreign / "mine" / "sizes.py").write_text("DIM = 48\n")
    own = "from configs.csan import quickstart\nfrom mine.sizes import DIM\n\n\ndef get_config():\n"
    own += "    config = quickstart.get_config()\n    config.model.dim = DIM\n    return config\n"
    (foreign / "configs" / "own.py").write_text(own)
    for command in ([CONSOLE, "train"], module_command("train")):
        argv = ["--config", "configs/own.py", "--print_config"]
        assert "--config.model.dim=48" in printed(*command, *argv)


OWN = """
from common_jax.config import to_config_dict
from configs.csan import quickstart
from every_second import EverySecond


def get_config():
    config = quickstart.get_config()
    config.model.encoder_attention = to_config_dict(EverySecond(local_layers=1))
    return config
"""


@pytest.mark.parametrize(
    "old,new,flags,message",
    [
        ("", "", ["--config.model.encoder_attention.window=7"], "window=7: must be 4 n \\+ 1$"),
        ("require(", "requir(", [], "own.py: every_second.py:26: NameError: .* --traceback prints"),
        ("odd(9)", "odd(9)[", [], "own.py: every_second.py:22: SyntaxError: .* --traceback prints"),
        ("relative(", "relatve(", [], "^error: every_second.py:29: NameError: name 'relatve'"),
    ],
)
def test_an_error_of_a_module_of_ones_own_names_its_line(
    old, new, flags, message, tmp_path, monkeypatch, capsys
):
    """The module of the manual, with a mistake."""
    page = ROOT / "docs" / "adding_a_system.md"
    (text,) = (block.text for block in blocks(page) if "__post_init__" in block.text)
    (tmp_path / "every_second.py").write_text(text.replace(old, new))
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "every_second", raising=False)
    with pytest.raises((SystemExit, NameError)) as raised:
        argv = ["--config", "own.py", "--describe", "--traceback", *flags]
        cli.run(train.main, argv)
    lines = "".join(traceback.format_exception(raised.value)).splitlines()
    if isinstance(raised.value, SystemExit):
        assert raised.value.code == 2
        lines = capsys.readouterr().err.splitlines()
        assert lines[0].startswith("Traceback")
    assert re.search(message, lines[-1]), lines[-1]


def test_all_configs_have_names(tmp_path, monkeypatch):
    files = {path for path in (ROOT / "configs").glob("*/*.py")}
    names = {f"{p.parent.name}/{p.stem}" for p in files if p.stem not in ("__init__", "systems")}
    assert {*installed_configs()} == names
    monkeypatch.chdir(tmp_path)
    for name in names:
        assert parse(name, []) == parse(str(ROOT / "configs" / f"{name}.py"), [])
        assert default_workdir(f"{name}:x") == Path("runs") / f"{name}-x"
    assert parse("csan/multi30k:transformer", []).paper.system == "transformer"
    assert parse("configs/csan/multi30k.py", []) == parse("csan/multi30k", [])


def test_a_users_file_comes_before_an_installed_config(foreign):
    with pytest.raises(UserError, match=r"configs/csan/quickstart.py:1: ImportError: foreign"):
        parse("configs/csan/quickstart.py", [])
    (foreign / "csan").mkdir()
    (foreign / "csan" / "quickstart").write_text("")
    with pytest.raises(UserError, match="csan/quickstart"):
        parse("csan/quickstart", [])


@pytest.mark.parametrize(
    "argv,message",
    [
        (["trian"], r"no command 'trian'; did you mean 'train'\? \(see .* --help\)"),
        (["train", "--config", "configs/qanet/sqad.py"], "did you mean 'qanet/squad'"),
        (["train", "--config", "nothing"], "no such file: nothing; known here: attconv/"),
        (["train", "--config", "csan/multi30k:cnn"], "'cnn': must be .*; did you mean 'cnns'"),
        (["train", "--config", "qanet/squad:rnn4"], "did you mean 'rnn"),
        (["train", "--config", "attconv/snli:lite"], "did you mean 'light'"),
        (["train", "--config", "attconv/snli:nse-origin"], "did you mean 'nse-original'"),
        (["reproduce", "csan/figur2"], "no such table; did you mean 'csan/figure2'"),
        (["sweep", "--config", "attconv/quickstart", "--seeds", "2", "--out", "/proc/x"],
         "/proc/x/trials.json: cannot be written"),
    ],
)  # fmt: skip
def test_a_mistake_is_answered_in_one_line(argv, message, monkeypatch, capsys):
    # a sweep logs before it fails
    line = fails(monkeypatch, capsys, [*argv, *["--quiet"] * (argv[0] == "sweep")], main)
    assert re.search(message, line)


@pytest.mark.parametrize("family", FAMILIES)
def test_systems_are_those_of_the_configs_table(family):
    table = importlib.import_module(f"configs.{family}.systems").SYSTEMS
    names = [name for name in systems_of(f"{family}/quickstart") if not name.startswith("wide-")]
    assert names == [*table]
    assert {"base", "big", "big-csan_1d"} <= {*systems_of("csan/wmt14_ende")}
    assert systems_of("no/config") == []


@pytest.mark.parametrize(
    "file,overrides",
    [
        ("csan/multi30k", ["--config.data.separator=\t", "--config.model.unroll=auto"]),
        ("csan/wmt14_ende:big-local_soft", ["--config.train.steps=7", "--config.data.dir=it's $x"]),
        ("qanet/triviaqa:rnn1", ["--config.paper.source=a \"b\" 'c'"]),
        ("attconv/snli:nse-original", ["--config.optimizer.l2=1e-07"]),
        ("attconv/yelp:lin_cnn", []),
    ],
)
def test_a_printed_config_pasted_back_is_the_same(file, overrides, capsys):
    train.main(["--config", file, *overrides, "--print_config"])
    pasted = printed("bash", "-c", f"printf '%s\\0' {capsys.readouterr().out}")
    flag, name, *words, _ = pasted.split("\0")
    assert (flag, name) == ("--config", file)
    assert parse(name, words) == parse(file, overrides)
    assert {*overrides} <= {*words}


@pytest.mark.parametrize("file", ["csan/quickstart:local_soft", "qanet/squad", "attconv/snli:nse"])
def test_help_of_a_config_has_each_field_with_its_value_and_text(file, capsys):
    with pytest.raises(SystemExit):
        train.main(["--help", "--config", file, "--config.train.steps=77", "--config.model.dim"])
    page = capsys.readouterr().out.partition("fields to begin with")[2].partition("\n")[2]
    page = re.sub(r"^further fields.*\n", "", page, flags=re.M)
    entry = r"^  --config\.(\S+) (\S+)\s+(\S(?:.*\n)+?) *(?=^  --config|\Z)"
    fields = {key: " ".join(rest.split()) for key, _, rest in re.findall(entry, page, re.M)}
    values = flat(to_mapping(parse(file, ["--config.train.steps=77"])))
    assert fields.keys() == values.keys()
    for key, value in values.items():
        shown = repr(value) if value in ("", "\t") else value
        assert fields[key].endswith(f" ({shown})"), key
    assert fields["train.steps"].startswith("total optimizer steps")


COMPLETE = """
source <("$1" completion bash)
COMP_LINE=$2 COMP_POINT=${#2} COMP_TYPE=9 COMP_WORDS=($2) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_python_argcomplete "$1" "${COMP_WORDS[-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""


def completed(line, folder):
    """What bash has after a line and a tab."""
    path = f"{CONSOLE.parent}{os.pathsep}{os.environ['PATH']}"
    script = ["bash", "-c", COMPLETE, "bash", CONSOLE.name, f"{CONSOLE.name} {line}"]
    return printed(*script, cwd=folder, env={**os.environ, "PATH": path}).split()


COMPLETED = [
    ("tr", "train"),
    ("train --config qanet/squad:rnn", "rnn1 rnn2 rnn3"),
    ("train --config csan/quickstart --config.model.ti", "--config.model.tie"),
]
RARELY = [
    ("train --config csan/q", "csan/quickstart"),
    ("train --config ow", "own.py"),
    ("sweep --config csan/quickstart --systems cnns,csan_", "cnns,csan_1d cnns,csan_2d"),
    ("train --config csan/quickstart --config.model.tie=", "none target all"),
    ("bench train --config attconv/quickstart --config.mesh.f", "--config.mesh.fsdp"),
    ("reproduce csan/f", "csan/figure1 csan/figure2 csan/figure3"),
    ("train --pri", "--print_config"),
    ("export --format s", "stablehlo safetensors"),
    ("trian --", ""),
]


@pytest.mark.parametrize(
    "line,expected", [*COMPLETED, *(pytest.param(*row, marks=pytest.mark.slow) for row in RARELY)]
)
def test_bash_completes(line, expected, tmp_path):
    (tmp_path / "own.py").write_text("")
    assert completed(line, tmp_path) == expected.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    "shell,registers", [("zsh", "compdef _python_argcomplete"), ("fish", "complete --command")]
)
def test_other_shells_have_a_script(shell, registers, capsys):
    main(["completion", shell])
    assert registers in capsys.readouterr().out


@pytest.mark.slow
def test_only_a_terminal_has_colors():
    def shown(**variables):
        terminal, end = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", **variables}
        environment.pop("NO_COLOR") if variables.get("NO_COLOR") == "" else None
        subprocess.run([CONSOLE, "trian"], stderr=end, env=environment)
        os.close(end)
        return os.read(terminal, 1000).decode()

    assert shown(NO_COLOR="").startswith("\x1b[31merror:\x1b[0m no command")
    for variables in ({"NO_COLOR": "1"}, {"NO_COLOR": "", "TERM": "dumb"}):
        assert shown(**variables).startswith("error: no command")
    piped = subprocess.run([CONSOLE, "trian"], capture_output=True, text=True)
    assert piped.stderr.startswith("error: ") and piped.returncode == 2


def test_the_unstarted_writes_of_a_failed_save_are_not_reported(recwarn):
    async def write():
        """Never awaited."""

    cli.configure_logging()
    write()
    assert not recwarn.list


def test_the_result_alone_is_printed_as_json(tmp_path, capfd):
    config = toy_config(tmp_path, {"train.steps": 2, "data.cache_dir": str(tmp_path / "cache")})
    argv = ["--config", config, "--workdir", str(tmp_path / "run"), "--quiet", "--json"]
    for _ in range(2):  # the second time, the run is finished
        train.main(argv)
        captured = capfd.readouterr()
        assert json.loads(captured.out) == json.loads((tmp_path / "run/result.json").read_text())
        assert captured.err == ""


def test_a_table_can_be_a_file(tmp_path, monkeypatch, capsys):
    table = (ROOT / "tables" / "csan" / "figure2.toml").read_text("utf-8")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "windows.toml").write_text(table)
    (tmp_path / "shared.toml").write_text((ROOT / "tables" / "shared.toml").read_text("utf-8"))
    monkeypatch.chdir(tmp_path)
    printed_by = []
    for name in ("csan/figure2", "own/windows.toml"):
        reproduce.main([name, "--scale", "small", "--out", "out", "--dry_run"])
        printed_by.append(capsys.readouterr().out)
    assert printed_by[0] == printed_by[1] != ""
    assert "launch.train --config csan/" in printed_by[0]


def test_a_package_stores_no_trials(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reproduce, "ROOT", tmp_path)
    for argv in (["--list", "--keep"], ["csan/figure2", "--keep", "--out", str(tmp_path)]):
        assert "store in docs/results of a clone" in fails(
            monkeypatch, capsys, argv, reproduce.main
        )
