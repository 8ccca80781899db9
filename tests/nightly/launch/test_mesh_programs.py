"""Sharding and collectives of training steps, from programs for eight devices."""

import json
import re

import jax
import pytest

from common_jax.training.config import parse, task_class
from common_jax.training.mesh import make_mesh
from common_jax.training.state import abstract_state
from launch.plan import __main__ as plan
from launch.plan.collectives import collectives
from launch.plan.compile import trace_step
from launch.plan.topology import topology_devices
from tests.launch.plan.test_plan import CSAN, VOCABULARY, needs_tpu

ROWS, LENGTHS = 104, {"csan": (24, 24), "qanet": (24, 16), "attconv": (24, 24)}
SIZES = {
    "csan": ["model.tie=none", "model.dim=64", "model.mlp_dim=128", "model.num_heads=4"],
    "qanet": ["model.dim=32", "model.num_heads=4", "model.model_blocks=2"],
    "attconv": ["model.dim=32"],
}


def compiled(family, mesh, *changes, shape=None, devices=None):
    """The program of a training step, its collectives, and the number of parameters."""
    flags = [f"--config.{change}" for change in (*SIZES[family], *changes)]
    axes = ("data", "fsdp", "tensor")
    flags += [f"--config.mesh.{axis}={size}" for axis, size in zip(axes, mesh, strict=True)]
    flags += VOCABULARY if family == "csan" else []
    config = parse(f"configs/{family}/quickstart.py", flags)
    task = task_class(config.task)(config)
    mesh = make_mesh(config.mesh, devices or jax.devices())
    text = trace_step(task, mesh, shape or (ROWS, *LENGTHS[family])).lower().compile().as_text()
    params = jax.tree.leaves(abstract_state(task, mesh).params)
    return text, collectives(text, dict(mesh.shape)), sum(leaf.size for leaf in params)


PACKED = ["data.batching=packed", "data.row_tokens=64", "model.unroll=False"]


@pytest.mark.parametrize(
    ("family", "changes", "shape"),
    [
        ("attconv", [], None),
        ("qanet", [], None),
        ("csan", ["model.unroll=False"], None),
        ("csan", ["model.unroll=True"], None),
        ("csan", PACKED, (ROWS,)),
    ],
)
def test_rows_are_sharded_over_data_and_fsdp(family, changes, shape):
    text, exchanges, _ = compiled(family, (2, 2, 2), *changes, shape=shape)
    assert re.search(rf"f32\[{ROWS // 4},\d+,\d+", text)
    on_every_device = re.findall(rf"f32\[(?:{ROWS}|{ROWS // 2}),\d+,\d+[\d,]*\]", text)
    assert not on_every_device
    # only indices and metrics are gathered over data
    gathers = [exchange for exchange in exchanges if exchange.kind == "all-gather"]
    assert sum(gather.bytes for gather in gathers if "data" in gather.axes) < 100_000


@pytest.mark.parametrize("mesh", [(1, 8, 1), (8, 1, 1)])
def test_a_step_sends_what_the_method_needs(mesh):
    """FSDP gathers parameters for both passes and sums gradients once, in float32.

    On a CPU the sum is an all-reduce.
    """
    _, exchanges, params = compiled("csan", mesh, "model.unroll=False")
    gathers = 2 * 4 * params if mesh[1] > 1 else 0
    sums = 2 * 4 * params
    assert sum(exchange.bytes for exchange in exchanges) <= 1.2 * (gathers + sums) * 7 / 8


@needs_tpu
def test_a_step_on_a_pod_sends_what_fsdp_needs():
    changes = ("train.compute_dtype=bfloat16", "model.dim=256", "model.mlp_dim=1024")
    devices = topology_devices("v5e:2x4")
    _, exchanges, params = compiled("csan", (1, 8, 1), *changes, devices=devices)
    kinds = {exchange.kind: exchange.bytes for exchange in exchanges}
    assert sum(kinds.values()) <= 1.2 * (2 * 2 + 4) * params * 7 / 8
    assert kinds["reduce-scatter"] >= 0.95 * 4 * params * 7 / 8  # in float32


@needs_tpu
def test_a_step_for_four_chips(tmp_path, capsys):
    file = tmp_path / "plan.json"
    argv = [*CSAN, "--topology", "v5e:2x2", "--shape", "64,8,8", "--json", str(file)]
    plan.main(argv)
    (row,) = json.loads(file.read_text())["rows"]
    assert row["mesh"] == {"data": 4, "fsdp": 1, "tensor": 1} and row["fits"]
    assert 0 < row["memory_bytes"] < row["chip_memory_bytes"] == 16 * 2**30
    config = parse(CSAN[1], CSAN[2:])
    params = abstract_state(task_class(config.task)(config), make_mesh(config.mesh)).params
    gradients = 4 * sum(leaf.size for leaf in jax.tree.leaves(params))
    # all gradients are summed over the chips, those of tied tables once for each use
    assert 1 <= row["collective_bytes"] / (2 * gradients * 3 / 4) < 1.5
    assert set(row["seconds"]) == {"arithmetic", "links", "compile"}  # no memory on a TPU
    assert "all-reduce over data" in capsys.readouterr().out
