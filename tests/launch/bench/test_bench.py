import json
from itertools import islice

import pytest

from common_jax.errors import UserError
from common_jax.training.config import parse
from launch import text_table
from launch.bench import forms
from launch.bench.__main__ import main
from launch.measure import timing
from tests.launch.commands import toy_config
from tests.toy import Toy

SMALL = ["--heads", "3", "--head_size", "4", "--window", "3"]
SMALL_ATTENTION = ["attention", *SMALL, "--repeats", "1"]
PACKED = "--config configs/csan/quickstart.py --config.data.batching=packed"
TINY = [*SMALL_ATTENTION, "--lengths", "5"]


def test_attention_table_and_json_show_the_same(tmp_path, capsys):
    path = tmp_path / "bench.json"
    main([*TINY, "--json", str(path)])
    shown = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    report = json.loads(path.read_text())
    assert report["command"].startswith("python -m launch.bench attention --heads 3")
    assert report["versions"]["jax"] and report["device"]
    rows = report["rows"]
    assert len(rows) == 8 and len(shown) == 1 + len(rows)
    assert shown[0] == list(rows[0])
    for line, row in zip(shown[1:], rows, strict=True):
        assert " ".join(line) == " ".join(text_table._cell(value) for value in row.values())
        form = "dense 2D" if row["form"].endswith("2D") else "dense 1D"
        (dense,) = (r for r in rows if (r["length"], r["form"]) == (row["length"], form))
        ratios = (dense["milliseconds"] / row["milliseconds"], row["temporary_mib"])
        assert row["speed_to_dense"] == pytest.approx(ratios[0])
        assert row["memory_to_dense"] == pytest.approx(ratios[1] / dense["temporary_mib"])


def test_a_form_that_does_not_fit_into_memory_has_no_time(monkeypatch, capsys):
    monkeypatch.setattr(forms, "physical_memory", lambda: 3 * 2**19)
    main([*SMALL_ATTENTION, "--lengths", "512"])
    header, *rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    for row in rows:
        timed = dict(zip(header[2:], row[-5:], strict=True))
        fits = float(timed["temporary_mib"].replace(",", "")) <= 1.5
        assert fits == (timed["milliseconds"] != "-")
        assert timed["speed_to_dense"] == "-" and timed["memory_to_dense"] != "-"
    assert {row[-5] == "-" for row in rows} == {True, False}


def test_calls_are_timed_in_turn():
    turns = []
    timing.medians({name: lambda name=name: turns.append(name) for name in "ab"}, rounds=2)
    assert set(turns) == {"a", "b"} and turns.count("a") >= 2 + 2


@pytest.mark.parametrize(
    "flags, message",
    [
        ("attention --head_window 11", "11 heads does not fit 8 heads"),
        ("attention --heads 0", "--heads: .* not '0'"),
        ("attention --lengths 16,,32", "--lengths: .* not ''"),
        ("attention --json missing/bench.json", "no folder .*missing"),
        ("attention --head 4", "--head"),
        ("train --config README.md --json ./README.md", "--json: the same file as --config"),
        ("predict --workdir x --model y --input README.md --json README.md", "as --input"),
        (f"train {PACKED} --inference", "--inference: predictions need data.batching=buckets"),
        (f"train {PACKED} --profile README.md", "--profile README.md: not a folder"),
    ],
)
def test_mistakes_are_named(flags, message):
    with pytest.raises(UserError, match=message):
        main(flags.split())


def test_inference_is_measured_too(tmp_path):
    config = toy_config(tmp_path)
    path = tmp_path / "toy.json"
    cache = f"--config.data.cache_dir={tmp_path / 'cache'}"
    flags = ["--inference", "--steps", "3", "--json", str(path)]
    main(["train", "--config", config, cache, *flags])
    values = {row["measure"]: row["1 a call"] for row in json.loads(path.read_text())["rows"]}
    batches, examples = (values[f"inference_{n}_per_second"] for n in ("batches", "examples"))
    task = Toy(parse(config, [cache]))
    task.prepare()
    batches_read = islice(task.train_batches().epoch(0), 3)
    first = [(batch["index"] >= 0).sum() for batch in batches_read]
    assert examples / batches == pytest.approx(sum(first) / 3)
    assert values["flop_utilisation"] == 0  # the toy has no products
