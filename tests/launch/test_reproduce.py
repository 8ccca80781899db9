"""`launch.reproduce`: a table's trials are trained once, kept, judged; mistakes are one line."""

import re

import pytest

from launch import local_executor, reproduce, train
from tests.launch.commands import fails
from tests.launch.tiny_runs import ROOT, SMALL

TINY = SMALL["attconv"] | {
    **{"data.examples": 200, "data.holdout_size": 100, "data.max_shapes": 1},
    **{"train.steps": 8, "train.evaluate_every": 4, "train.checkpoint_every": 4},
}
TABLE = """
title = "attention and none"
source = "Yin & Schütze 2017, Table 3"
kind = "{kind}"
split = "test"
metrics = ["accuracy"]

[scales.small]
config = "configs/attconv/quickstart.py"
seeds = 2
overrides = {{ {overrides} }}

[[rows]]
name = "bi-CNN"
system = "cnn"
published = {{ accuracy = 80.3 }}

[[rows]]
name = "light"
system = "light"
published = {{ accuracy = 86.3, parameters_millions = 1.5 }}

[[rows]]
name = "of others"
missing = "their code is not public"
published = {{ accuracy = 77.6 }}

[[claims]]
text = "attention is better than none"
row = "light"
than = "bi-CNN"
metric = "accuracy"
"""


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Tables and kept trials in `tmp_path`; trials are trained in this process."""
    monkeypatch.chdir(ROOT)
    trained = []

    def run_here(trials, jobs):
        for trial in trials:
            train.main(local_executor.command(trial)[3:])
            trained.append(trial.name)
            yield trial

    monkeypatch.setattr(local_executor, "run_here", run_here)
    monkeypatch.setattr(reproduce, "TABLES", tmp_path / "tables")
    monkeypatch.setattr(reproduce, "KEPT", tmp_path / "kept")
    write(tmp_path)
    return tmp_path, trained


def write(folder, kind="table", **changes):
    """A table file; `changes` replace texts of it."""
    values = TINY | {"data.cache_dir": folder / "cache"}
    listed = ", ".join(f'"{key}" = "{value}"' for key, value in values.items())
    text = TABLE.format(kind=kind, overrides=listed)
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "tables" / "attconv").mkdir(parents=True, exist_ok=True)
    (folder / "tables" / "attconv" / "toy.toml").write_text(text)


def made(folder, out, *flags):
    reproduce.main(["attconv/toy", "--out", str(folder / out), "--no_speed", *flags])
    return (folder / out / "page.md").read_text(), (folder / out / "table.csv").read_text()


def test_trials_are_trained_once_kept_and_used_again(folders, capsys):
    folder, trained = folders
    page, table = made(folder, "first", "--keep")
    assert len(trained) == 4
    assert "attention is better than none" in page and "their code is not public" in page
    assert re.search(r"\| (confirmed|contradicted|undecidable) \| [+-]\d", page)
    rows = [line.split(",") for line in table.splitlines()]
    assert [row[:3] for row in rows[1:]] == [
        ["bi-CNN", "accuracy", "80.3"],
        ["light", "accuracy", "86.3"],
        ["of others", "accuracy", "77.6"],
    ]
    assert [row[6] for row in rows[1:]] == ["2", "2", "0"]

    assert made(folder, "first") == (page, table)  # nothing is trained, the same bytes
    files = {path: path.read_bytes() for path in (folder / "kept").rglob("*.zip")}
    assert len(files) == 4
    again, same = made(folder, "second", "--keep")  # from the kept trials
    assert len(trained) == 4 and (again, same) == (page, table)
    assert {path: path.read_bytes() for path in files} == files

    write(folder, **{'"train.steps" = "8"': '"train.steps" = "4"'})
    capsys.readouterr()
    other, _ = made(folder, "third")
    assert len(trained) == 8 and "has another train.steps" in other
    reproduce.main(["--list"])
    assert "2 rows, 4 trials of configs/attconv/quickstart.py; 4 kept" in capsys.readouterr().out


def test_a_dry_run_lists_commands(folders, capsys):
    reproduce.main(["attconv/toy", "--out", "x", "--dry_run"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 8 and "launch.train --config configs/attconv/quickstart.py:cnn" in lines[1]


@pytest.mark.parametrize(
    ("changes", "argv", "message"),
    [
        ({}, ["attconv/toys"], "attconv/toys: no such table; did you mean 'attconv/toy'"),
        ({}, ["attconv/toy", "--scale", "huge"], "--scale huge: attconv/toy has small"),
        ({'"light"\npub': '"lite"\npub'}, ["attconv/toy"], "row 'light': .*'lite': must be cnn"),
        ({'["accuracy"]': '["bleu"]'}, ["attconv/toy"], "no metric 'bleu'; there are accuracy"),
        ({"than = ": "then = "}, ["attconv/toy"], r"claims\[0\]: unknown field 'then'; did you"),
        ({'than = "bi': 'than = "tri'}, ["attconv/toy"], "no row 'tri-CNN'"),
        ({"seeds = 2": "seeds = 0"}, ["attconv/toy"], "seeds = 0: at least 1"),
        ({"[scales.small]": "[scales.small"}, ["attconv/toy"], "not TOML"),
        (
            {"seeds = 2": 'seeds = 2\ndata = "snli"\n\n[data.snli]\nfiles = ["a.jsonl"]\n'
             'origin = "example.org"\n[scales.other]\nconfig = "c"'},
            ["attconv/toy", "--data", "nowhere"],
            "--data: .*nowhere/snli has no a.jsonl; they come from example.org",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(folders, changes, argv, message, monkeypatch, capsys):
    folder, trained = folders
    write(folder, **changes)
    line = fails(monkeypatch, capsys, [*argv, "--out", str(folder / "out")], reproduce.main)
    assert re.search(message, line), line
    assert not trained
