"""`--help` explains all flags and fits a screen; `python -m launch` lists the commands."""

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from common_jax.errors import UserError
from launch.__main__ import commands, main, module_of

ROOT = Path(__file__).parents[2]
LINES, COLUMNS = 40, 100  # of a screen
PAGES = [[name] for name in commands()] + [
    ["bench", sub] for sub in ("attention", "train", "predict")
]


def page(capsys, command, *words):
    with pytest.raises(SystemExit) as exit_:
        importlib.import_module(module_of(command)).main([*words, "--help"])
    assert exit_.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_each_page_explains_every_flag_and_has_an_example(words, capsys):
    text = page(capsys, *words)
    options = text[text.index("\noptions:") :].replace("\n  --", "\n\n  --")
    listed = re.findall(r"^  (?:-h, )?(--[\w.]+)(.*(?:\n   .*)*)", options, re.MULTILINE)
    assert listed
    for flag, rest in listed:
        assert re.search(r"(\s{2,}|\n\s+)\S", rest), f"{flag} is not explained"
    example = text[text.index("\nexample:") : text.index("\noptions:")].replace("\\\n", " ")
    typed = [shlex.split(line) for line in re.findall(r"python -m launch\.(.*)", example)]
    own = [line for line in typed if line[: len(words)] == words]
    assert own
    for line in own if words != ["bench"] else []:
        flags = {word for word in line if word.startswith("--")}
        assert flags <= {flag for flag, _ in listed}, line


@pytest.mark.parametrize("words", PAGES, ids=" ".join)
def test_each_page_fits_a_screen(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    lines = page(capsys, *words).splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= COLUMNS


def test_the_list_has_each_command_with_a_line_and_imports_no_jax():
    code = "import sys; from launch.__main__ import main; main([]); assert 'jax' not in sys.modules"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    listed = dict(re.findall(r"^  (\w+) {2,}(\S.*)$", done.stdout, re.MULTILINE))
    assert listed == commands()
    files = [path for path in (ROOT / "launch").rglob("*.py") if is_command(path)]
    names = {path.parent.name if path.stem == "__main__" else path.stem for path in files}
    assert set(listed) == names
    assert max(map(len, done.stdout.splitlines())) <= COLUMNS


def is_command(path):
    """Whether a file of `launch` has the entry point of a command."""
    text = path.read_text("utf-8")
    return "\ndef main(argv: list[str])" in text and path != ROOT / "launch" / "__main__.py"


@pytest.mark.parametrize("name", ["train", "launch.train"])
def test_a_command_as_argument_is_run(name, capsys):
    with pytest.raises(SystemExit) as exit_:
        main([name, "--help"])
    assert exit_.value.code == 0
    assert "python -m launch.train" in capsys.readouterr().out
    with pytest.raises(UserError, match=r"no such file: file\.py"):
        main([name, "--config", "file.py"])
