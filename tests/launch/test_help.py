"""`--help` explains all flags and fits a screen; `python -m launch` lists the commands."""

import importlib
import re
import shlex
from pathlib import Path

import pytest

from common_jax.errors import UserError
from launch.__main__ import commands, main, module_of

ROOT = Path(__file__).parents[2]
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
    files = [path for path in (ROOT / "launch").rglob("*.py") if _is_command(path)]
    names = {path.parent.name if path.stem == "__main__" else path.stem for path in files}
    assert {*commands()} == names


def _is_command(path):
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
