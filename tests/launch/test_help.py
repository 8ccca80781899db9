"""`--help` explains all flags, fits a screen and loads no jax; the list of commands."""

import importlib
import json
import re
import shlex

import pytest

from common_jax.errors import UserError
from launch.__main__ import commands, main, module_of
from tests.launch.commands import ROOT, python

LINES, COLUMNS = 40, 100  # of a screen
PAGES = [[name] for name in commands()] + [
    ["bench", sub] for sub in ("attention", "train", "predict")
]


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_each_page_fits_a_screen_explains_every_flag_and_has_an_example(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    command, *rest = words
    with pytest.raises(SystemExit) as exit_:
        importlib.import_module(module_of(command)).main([*rest, "--help"])
    assert exit_.value.code == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= LINES
    assert max(map(len, text.splitlines())) <= COLUMNS
    options = text[text.index("\noptions:") :].replace("\n  --", "\n\n  --")
    listed = re.findall(r"^  (?:-h, )?(--[\w.]+)(.*(?:\n   .*)*)", options, re.MULTILINE)
    assert listed
    for flag, explanation in listed:
        assert re.search(r"(\s{2,}|\n\s+)\S", explanation), f"{flag} is not explained"
    example = text[text.index("\nexample:") : text.index("\noptions:")].replace("\\\n", " ")
    typed = [shlex.split(line) for line in re.findall(r"python -m launch\.(.*)", example)]
    own = [line for line in typed if line[: len(words)] == words]
    assert own
    for line in own if words != ["bench"] else []:
        flags = {word for word in line if word.startswith("--")}
        assert flags <= {flag for flag, _ in listed}, line


def test_the_list_has_each_command_with_a_line(capsys):
    main([])
    page = capsys.readouterr().out
    assert dict(re.findall(r"^  (\w+) {2,}(\S.*)$", page, re.MULTILINE)) == commands()
    assert max(map(len, page.splitlines())) <= COLUMNS
    paths = (ROOT / "launch").rglob("*.py")
    files = [path for path in paths if "\ndef main(argv: list[str])" in path.read_text("utf-8")]
    names = {path.parent.name if path.stem == "__main__" else path.stem for path in files}
    assert {*commands()} == names


@pytest.mark.parametrize("name", ["train", "launch.train"])
def test_a_command_as_argument_is_run(name, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([name, "--help"])
    assert exit_.value.code == 0
    assert "python -m launch.train" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"no such file: file\.py"):
        main([name, "--config", "file.py"])


JAX = {"jax", "flax", "optax", "orbax"}
# One process makes all cases. It has imported only Python's own library when it forks a child for
# each; a child runs its case alone and prints its modules.
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
    status, out, errors = python("-c", FORK, stdin=json.dumps(CONFIGS | COMMANDS | READER))
    assert status == 0, errors
    return {name: {*modules} for name, modules in map(json.loads, out.splitlines())}


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
