"""Mistaken and hostile inputs of each command: each ends in one line with the error.

`MISTAKES=write pytest -n 0 tests/launch/test_mistakes.py` writes the table of bad_inputs.py to
docs/mistakes.md.
"""

import io
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from launch import evaluate, export, predict, report, train
from launch.bench import __main__ as bench
from launch.sweep import __main__ as sweep
from tests.launch import test_attconv, test_csan, test_qanet
from tests.launch.bad_inputs import MISTAKES, Mistake
from tests.launch.commands import begun, fails

FAMILIES = {"csan": test_csan, "qanet": test_qanet, "attconv": test_attconv}
MODULES = (bench, evaluate, export, predict, report, sweep, train)
COMMANDS = {module.__name__.split(".")[1]: module for module in MODULES}
PAGE = Path(__file__).parents[2] / "docs" / "mistakes.md"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder of a run of each family, by the family's name, and of an export."""
    folder = tmp_path_factory.mktemp("mistakes")
    for name, family in FAMILIES.items():
        begun(family, folder / f"of_{name}")
        (folder / name).symlink_to(folder / f"of_{name}" / "run")
    export.main(["--workdir", str(folder / "attconv"), "--out", str(folder / "export")])
    return folder


def line_of(mistake: Mistake, here: Path, runs: Path, monkeypatch, capsys) -> str:
    """The message for a mistake, without the names of temporary folders."""
    command, _, family = mistake.command.partition(" ")
    own = FAMILIES[family].arguments(here) if family else []
    if family in ("qanet", "attconv"):
        for path in (runs / f"of_{family}").glob("*.*"):
            shutil.copy(path, here)
    mistake.make(here, runs)
    fields = {name: runs / name for name in (*FAMILIES, "export")}
    fields |= {"here": here, "long": "a" * 300, "many": ",".join(map(str, range(3000)))}
    argv = [*own, *(part.format(**fields) for part in shlex.split(mistake.argv))]
    if "--config.data.source=files" in argv:
        argv = [text for text in argv if not text.startswith("--config.data.examples=")]
    if mistake.stdin is not None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(mistake.stdin)))
    capsys.readouterr()
    line = fails(monkeypatch, capsys, argv, COMMANDS[command].main)
    return line.replace(f"{here}/", "").replace(f"{runs}/", "").replace(str(here), "FOLDER")


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_one_line(what, runs, tmp_path, monkeypatch, capsys):
    line = line_of(MISTAKES[what], tmp_path, runs, monkeypatch, capsys)
    assert re.search(MISTAKES[what].message, line)
    assert len(line) < 2000
    _lines[what] = line


_lines: dict[str, str] = {}


def test_the_page_shows_the_table():
    if os.environ.get("MISTAKES") == "write" and _lines.keys() == MISTAKES.keys():
        PAGE.write_text(page(_lines), "utf-8", errors="backslashreplace")
    rows = [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")][2:]
    lines_by_mistake = dict(
        row.removeprefix("| ").removesuffix(" |").split(" | ", 1) for row in rows
    )
    assert [*lines_by_mistake] == [f"`{m.command}`: {what}" for what, m in MISTAKES.items()]
    for what, line in _lines.items():
        assert row_of(what, line) in rows


def page(lines: dict[str, str]) -> str:
    rows = "\n".join(row_of(what, line) for what, line in lines.items())
    return (
        "# Error messages\n\n"
        "Each of these mistakes ends the command with exit status 2 and this one line on standard\n"
        "error. Made by `MISTAKES=write pytest -n 0 tests/launch/test_mistakes.py`.\n\n"
        f"| mistake | message |\n| --- | --- |\n{rows}\n"
    )


def row_of(what: str, line: str) -> str:
    # What Orbax and safetensors add depends on their versions.
    text = re.sub(r"(?<=bytes, not )[\d,]+|(?<=deserializing header: ).*(?=\))", "...", line)
    text = text if len(text) < 240 else f"{text[:240]} ..."
    text = text.encode(errors="backslashreplace").decode().replace("|", "\\|")
    return f"| `{MISTAKES[what].command}`: {what} | {text} |"
