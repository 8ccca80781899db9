import json

import pytest

from common_jax.errors import UserError
from launch import bench
from launch.bench import main

SMALL = ["--heads", "3", "--head_size", "4", "--window", "3"]
TINY = ["attention", *SMALL, "--repeats", "1", "--lengths", "5"]


def test_attention_table_and_json_show_the_same(tmp_path, capsys):
    path = tmp_path / "bench.json"
    main([*TINY, "--json", str(path)])
    shown = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    report = json.loads(path.read_text())
    assert report["command"].startswith("python -m launch.bench attention --heads 3")
    assert report["versions"]["jax"] and report["device"]
    rows = report["rows"]
    assert len(rows) == 7 and len(shown) == 1 + len(rows)
    assert shown[0] == list(rows[0])
    for line, row in zip(shown[1:], rows, strict=True):
        assert " ".join(line) == " ".join(bench._cell(value) for value in row.values())
        assert row["milliseconds"] > 0 and row["temporary_mib"] > 0
    dense = [row for row in rows if row["form"].startswith("dense")]
    assert all(row["speed_to_dense"] == row["memory_to_dense"] == 1 for row in dense)


def test_calls_take_turns_as_often_as_asked():
    turns = []
    bench.medians({name: lambda name=name: turns.append(name) for name in "ab"}, rounds=2)
    assert set(turns) == {"a", "b"} and turns.count("a") >= 2 + 2


@pytest.mark.parametrize(
    "flags, message",
    [
        ("", "COMMAND"),
        ("attention --window 4", "odd number of tokens, not 4"),
        ("attention --head_window 11", "11 heads does not fit 8 heads"),
        ("attention --heads 0", "--heads: .* not '0'"),
        ("attention --lengths 16,,32", "--lengths: .* not ''"),
        ("attention --json missing/bench.json", "no folder .*missing"),
        ("attention --head 4", "--head"),
    ],
)
def test_mistakes_are_named(flags, message):
    with pytest.raises(UserError, match=message):
        main(flags.split())
