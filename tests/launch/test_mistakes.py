"""Mistaken and hostile inputs of each command: each ends in one line with the error.

`MISTAKES=write pytest -n 0 tests/launch/test_mistakes.py` writes the lines to docs/mistakes.md.
"""

import io
import os
import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from launch import evaluate, report
from launch.bench import __main__ as bench
from launch.export import __main__ as export
from launch.predict import __main__ as predict
from launch.sweep import __main__ as sweep
from launch.train import __main__ as train
from tests.families.runs import FAMILIES
from tests.launch.bad_inputs import MISTAKES, Mistake
from tests.launch.commands import fails

MODULES = (bench, evaluate, export, predict, report, sweep, train)
COMMANDS = {module.__name__.split(".")[1]: module for module in MODULES}
PAGE = Path(__file__).parents[2] / "docs" / "mistakes.md"
HEAD = """# Error messages

Each of these mistakes ends the command with exit status 2 and this one line on standard
error. Made by `MISTAKES=write pytest -n 0 tests/launch/test_mistakes.py`.

| mistake | message |
| --- | --- |
"""
WRITES = os.environ.get("MISTAKES") == "write"


@pytest.fixture(scope="module")
def runs(tiny, tmp_path_factory):
    """The folder of an unscored run of each family, by the family's name, and of an export."""
    folder = tmp_path_factory.mktemp("mistakes")
    for name in FAMILIES:
        run = tiny(name, folder / f"of_{name}") / "run"
        shutil.rmtree(run / "eval")
        shutil.rmtree(run / "checkpoints" / "2")
        (folder / name).symlink_to(run)
    tiny.exported("attconv", folder / "export")
    return folder


def line_of(mistake: Mistake, here: Path, runs: Path, monkeypatch, capsys) -> str:
    """The message for a mistake, without the names of temporary folders."""
    command, _, family = mistake.command.partition(" ")
    own = FAMILIES[family].arguments(here) if family else []
    if family == "csan":  # on generated sentences
        own = [text for text in own if not text.startswith("--config.data.")]
        own += [f"--config.data.cache_dir={here / 'cache'}", "--config.data.vocab_size=400"]
    elif family:
        for path in (runs / f"of_{family}").glob("*.*"):
            shutil.copy(path, here)
    mistake.make(here, runs)
    fields = {name: runs / name for name in (*FAMILIES, "export")}
    argv = [*own, *(part.format(here=here, **fields) for part in shlex.split(mistake.argv))]
    if mistake.stdin is not None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(mistake.stdin)))
    capsys.readouterr()
    line = fails(monkeypatch, capsys, argv, COMMANDS[command].main)
    return line.replace(f"{here}/", "").replace(f"{runs}/", "").replace(str(here), "FOLDER")


@pytest.fixture(scope="module")
def rows():
    """The page's rows, or those of this session if it writes the page."""
    if not WRITES:
        yield [line for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| ")][2:]
        return
    written = []
    yield written
    assert len(written) == len(MISTAKES)
    PAGE.write_text(HEAD + "".join(f"{row}\n" for row in written), "utf-8")


def row_of(what: str, line: str) -> str:
    # What Orbax and safetensors add depends on their versions.
    text = re.sub(r"(?<=bytes, not )[\d,]+|(?<=deserializing header: ).*(?=\))", "...", line)
    text = text if len(text) < 240 else f"{text[:240]} ..."
    text = text.encode(errors="backslashreplace").decode().replace("|", "\\|")
    return f"| `{MISTAKES[what].command}`: {what} | {text} |"


@pytest.mark.parametrize("what", MISTAKES)
def test_a_mistake_is_the_line_of_the_page(what, rows, runs, tmp_path, monkeypatch, capsys):
    line = line_of(MISTAKES[what], tmp_path, runs, monkeypatch, capsys)
    assert len(line) < 2000
    if WRITES:
        rows.append(row_of(what, line))
    assert row_of(what, line) in rows


def test_the_page_has_the_tables_mistakes_in_its_order(rows):
    mistakes = [row.removeprefix("| ").partition(" | ")[0] for row in rows]
    assert mistakes == [f"`{m.command}`: {what}" for what, m in MISTAKES.items()]
