"""Times of a translator's training steps."""

import json
from itertools import islice

import pytest

from common_jax.training.config import parse
from csan_jax.task import Translation
from launch.bench.__main__ import main
from launch.measure import steps
from tests.launch.commands import arguments
from tests.launch.tiny_runs import TINY

SIZES = TINY["csan"] | {"data.batch_tokens": 256, "data.max_shapes": 1, "model.local_layers": 0}
SIZES |= {"train.steps_per_call": 2, "mesh.data": 1}


def small_config(folder, **values):
    return arguments("configs/csan/quickstart.py", folder, **(SIZES | values))[:-2]


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


def test_a_call_of_several_steps_has_batches_of_one_shape(tmp_path):
    path = tmp_path / "train.json"
    config = small_config(tmp_path, **{"data.max_shapes": 2})
    main(["train", *config, "--steps", "4", "--json", str(path)])
    rows = {row["measure"]: row for row in json.loads(path.read_text())["rows"]}
    assert rows["shapes"]["2 a call"] > 1
    assert rows["padding_fraction"]["2 a call"] == rows["padding_fraction"]["1 a call"]
