"""Every number in the tables of a page in docs/results is that of the raw files beside it.

A page is made by a command, which it names, from the trials in the zip files, speed.json and
examples.json of its folder; made again from these files, it has the same tables. A page without
such files has "raw file missing" in it, and is counted.
"""

import json
import shlex
from pathlib import Path

import pytest

from common_jax.report import markdown
from common_jax.tables.kept import path_of, unpack
from common_jax.tables.page import page, read_results
from common_jax.tables.spec import read_table
from common_jax.tables.trials import trials_of
from launch import reproduce

MISSING = "raw file missing"
PAGES = sorted((Path(__file__).parents[1] / "docs" / "results").rglob("*.md"))


def table_lines(path):
    return [line for line in path.read_text().splitlines() if line.startswith("|")]


def unfounded(path, tables, out):
    """The lines of the tables of a page that its raw files do not give."""
    (made_by,) = (line for line in path.read_text().splitlines() if line.startswith("Made by: "))
    argv = shlex.split(made_by.partition("launch.reproduce ")[2])
    args = reproduce._parser().parse_args(argv)
    spec = read_table(tables / f"{args.table}.toml")
    scale = reproduce._scale(spec, args)
    trials = trials_of(spec, scale, out / "data", out)
    for trial in trials:
        if (kept := path_of(trial, path.parent)).exists():
            unpack(trial, kept)
    files = [path.parent / name for name in (reproduce.SPEED, reproduce.ANSWERS)]
    speeds, answers = (json.loads(f.read_text()) if f.exists() else {} for f in files)
    results = read_results(spec, scale, trials, speeds, [])
    markdown.write(out / "again.md", page(results, "again", answers))
    return [line for line in table_lines(path) if line not in table_lines(out / "again.md")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.parent.name)
def test_each_number_is_that_of_raw_files(path, tmp_path, monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[1])
    if MISSING in path.read_text():
        pytest.skip(f"{path} waits for its raw files")
    assert not unfounded(path, reproduce.TABLES, tmp_path)


def test_how_many_pages_have_no_raw_files(capsys):
    count = sum(MISSING in path.read_text() for path in PAGES)
    with capsys.disabled():
        print(f"\n{count} of {len(PAGES)} pages of docs/results: {MISSING}")
