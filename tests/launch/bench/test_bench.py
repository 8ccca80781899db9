import json
from itertools import islice

import pytest

from common_jax.errors import UserError
from common_jax.training.config import parse
from csan_jax.task import Translation
from launch import text_table
from launch.bench import forms
from launch.bench.__main__ import main
from launch.measure import steps, timing
from tests.launch.commands import arguments, toy_config
from tests.launch.tiny_runs import TINY
from tests.toy import Toy

SMALL = ["--heads", "3", "--head_size", "4", "--window", "3"]
SMALL_ATTENTION = ["attention", *SMALL, "--repeats", "1"]
PACKED = "--config configs/csan/quickstart.py --config.data.batching=packed"


def test_attention_table_and_json_show_the_same(tmp_path, capsys):
    path = tmp_path / "bench.json"
    main([*SMALL_ATTENTION, "--lengths", "5", "--json", str(path)])
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


SIZES = TINY["csan"] | {"data.batch_tokens": 256, "data.max_shapes": 1, "model.local_layers": 0}
SIZES |= {"data.examples": 200, "data.holdout_size": 8, "data.vocab_size": 350}
SIZES |= {"train.steps_per_call": 2, "mesh.data": 1}


def small_config(folder, **values):
    return arguments("configs/csan/quickstart.py", folder, **(SIZES | values))[:-2]


@pytest.mark.slow
def test_a_training_step_is_measured_with_its_parts(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(steps.StepTimer, "_peak", lambda _: 1e9)
    path = tmp_path / "train.json"
    config = small_config(tmp_path)
    main(["train", *config, "--steps", "4", "--parts", "--json", str(path)])
    rows = {row.pop("measure"): row for row in json.loads(path.read_text())["rows"]}
    assert all(set(row) == {"1 a call", "2 a call"} for row in rows.values())
    one = {name: row["1 a call"] for name, row in rows.items()}
    assert one["shapes"] == 1 and one["compile_seconds"] > 0 and one["saving_seconds"] > 0
    task = Translation(parse(config[1], config[2:]))
    task.prepare()
    sizes = [task.count_units(batch) for batch in islice(task.train_batches().epoch(0), 4)]
    tokens, positions = (float(sum(size)) for size in zip(*sizes, strict=True))
    assert one["padding_fraction"] == pytest.approx(1 - tokens / positions)
    assert one["tokens_per_second"] / one["steps_per_second"] == pytest.approx(tokens / 4)
    assert one["waiting_for_data_share"] < 1
    assert one["gflop_per_second"] > 0 and one["flop_utilisation"] > 0
    parts = {name: share for name, share in one.items() if name.startswith("part: ")}
    assert {"part: encoder", "part: decoder", "part: vocabulary", "part: optimizer"} <= set(parts)
    assert sum(parts.values()) == pytest.approx(1)
    assert "tokens_per_second" in capsys.readouterr().out


@pytest.mark.slow
def test_a_call_of_several_steps_has_batches_of_one_shape(tmp_path):
    path = tmp_path / "train.json"
    config = small_config(tmp_path, **{"data.max_shapes": 2})
    main(["train", *config, "--steps", "4", "--json", str(path)])
    rows = {row["measure"]: row for row in json.loads(path.read_text())["rows"]}
    assert rows["shapes"]["2 a call"] > 1
    assert rows["padding_fraction"]["2 a call"] == rows["padding_fraction"]["1 a call"]
