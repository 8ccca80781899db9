"""`launch.plan`: the training step, compiled for devices that are not here; collectives."""

import importlib.util
import json
import re
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from common_jax.training.config import parse, task_class
from common_jax.training.mesh import local_rows, make_mesh, put_batch
from common_jax.training.state import abstract_state, init_state, run_key
from common_jax.training.step import make_train_step
from launch.measure.chips import CHIPS
from launch.plan import __main__ as plan
from launch.plan import compile, topology
from launch.plan.collectives import collectives
from tests.attconv_jax import anss
from tests.launch.commands import fails
from tests.launch.tiny_runs import SMALL

VOCABULARY = ["--config.model.source_vocab_size=400", "--config.model.target_vocab_size=400"]
TINY = [f"--config.{key}={value}" for key, value in SMALL["csan"].items()]
CSAN = ["--config", "configs/csan/quickstart.py", *TINY, *VOCABULARY]
needs_tpu = pytest.mark.skipif(
    importlib.util.find_spec("libtpu") is None, reason="needs the extra tpu, to compile for one"
)


@pytest.mark.slow_for("csan", "qanet", "attconv")
@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("csan", {"data.examples": 300}),
        ("csan", {"data.examples": 300, "data.batching": "packed", "data.row_tokens": 64}),
        ("qanet", {"data.examples": 30, "data.holdout_size": 5, "mesh.fsdp": 2}),
        ("attconv", {"data.examples": 100, "data.holdout_size": 50}),
        ("ranking", {}),
    ],
)
def test_the_program_equals_that_of_training(family, changes, tmp_path):
    if family == "ranking":
        family = "attconv"
        changes = {f"data.{key}": value for key, value in (anss.FORM | anss.FILES).items()}
        changes |= {"data.source": "files", "data.dir": tmp_path, "data.examples": 0}
        changes |= {"train.steps_per_call": 1}
        anss.write(tmp_path)
    values = {**SMALL[family], "data.max_shapes": 1, "data.cache_dir": tmp_path, **changes}
    flags = [f"--config.{key}={value}" for key, value in values.items()]
    config = parse(f"configs/{family}/quickstart.py", flags)
    task = task_class(config.task)(config)
    (shape,) = compile.prepared_shapes(task)
    mesh = make_mesh(config.mesh)
    batch = task.train_batches().select_rows(local_rows(mesh)).epoch(0)[0]
    arguments = init_state(task, mesh), (put_batch(batch, mesh),), run_key(0, mesh)
    trained = make_train_step(task, mesh).trace(*arguments)
    planned = compile.trace_step(task, mesh, shape)
    assert str(planned.jaxpr) == str(trained.jaxpr)
    programs = [traced.lower().compile() for traced in (planned, trained)]
    memory = [str(program.memory_analysis()) for program in programs]
    assert memory[0] == memory[1]
    # a CPU has an analysis, and the one of any program is equal
    (analysis,) = {program.cost_analysis()["bytes accessed"] for program in programs}
    of_gpu = mock.Mock(wraps=programs[0], **{"cost_analysis.return_value": {}})
    assert compile._cost_analysis(of_gpu)["bytes accessed"] == analysis


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--topology", "v9:2x2"], "'v9:2x2': the chips are v4, v5e, v5p, v6e, tpu7x, a100, "),
        (["--topology", "v5e:8"], "'v5e:8': write v5e:2x2"),
        (["--topology", "h100:2x2"], "'h100:2x2': write h100:8"),
        (["--topology", "v5e:2x2", "--shape", "8,0"], "'8,0': write sizes above 0"),
        (["--topology", "v5e:2x2", "--shape", "8,9"], "--shape 8,9: a batch has 3 sizes"),
        (["--topology", "v5e:2x2", "--json", "no/where.json"], "--json: there is no folder"),
    ],
)
def test_mistyped_arguments_are_one_line(argv, message, monkeypatch, capsys):
    assert message in fails(monkeypatch, capsys, [*CSAN, *argv], plan.main)


@pytest.mark.parametrize(("chip", "extra"), [("v5e:2x2", "tpu"), ("h100:8", "cuda")])
def test_a_missing_extra_is_named(chip, extra, monkeypatch, capsys):
    monkeypatch.setattr(topology.importlib.util, "find_spec", lambda name: None)
    argv = [*CSAN, "--topology", chip, "--shape", "8,8,8"]
    assert f"needs the extra {extra} " in fails(monkeypatch, capsys, argv, plan.main)


@needs_tpu
@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--topology", "v5e:3x7"], "--topology v5e:3x7: no such topology ("),
        (["--topology", "v5e:2x2", "--config.mesh.fsdp=3"], "4 devices are not a multiple of 3"),
    ],
)
def test_an_unknown_topology_or_one_that_the_mesh_does_not_divide(
    argv, message, monkeypatch, capsys
):
    argv = [*CSAN, "--shape", "8,8,8", *argv]
    assert message in fails(monkeypatch, capsys, argv, plan.main)


MESH = {"data": 2, "fsdp": 2, "tensor": 2}
SIZE = 64 * 256 * 4  # bytes of the array that is exchanged


def found(function, spec):
    """Those of the compiled function of an array sharded by `spec`, `SIZE` bytes on each device, as
    (kind, axes, count, bytes)."""
    mesh = Mesh(np.array(jax.devices()).reshape(tuple(MESH.values())), tuple(MESH))
    sharded = jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=P(), check_vma=False)
    shards = int(np.prod([mesh.shape[axis] for axis in spec if axis]))
    sharding = NamedSharding(mesh, spec)
    x = jax.ShapeDtypeStruct((64 * shards, 256), jnp.float32, sharding=sharding)
    text = jax.jit(sharded).lower(x).compile().as_text()
    return [(c.kind, c.axes, c.count, c.bytes) for c in collectives(text, MESH)]


def repeated(x):
    def body(x, _):
        return jnp.tanh(jax.lax.psum(x, "data")), None

    return jax.lax.scan(body, x, length=7)[0]


@pytest.mark.parametrize(
    ("function", "spec", "expected"),
    [
        # a sum over a ring of n devices sends each array 2 (n - 1) / n times
        (lambda x: jax.lax.psum(x, "data"), P(None), ("all-reduce", ("data",), 1, SIZE)),
        (lambda x: jax.lax.psum(x, "fsdp"), P(None), ("all-reduce", ("fsdp",), 1, SIZE)),
        (
            lambda x: jax.lax.psum(x, ("data", "tensor")),
            P(None),
            ("all-reduce", ("data", "tensor"), 1, SIZE * 3 // 2),
        ),
        # what is sent to the other of two devices
        (
            lambda x: jax.lax.all_gather(x, "fsdp", tiled=True),
            P("fsdp"),
            ("all-gather", ("fsdp",), 1, SIZE),
        ),
        (
            lambda x: jax.lax.psum_scatter(x, "tensor", tiled=True),
            P(None),
            ("reduce-scatter", ("tensor",), 1, SIZE // 2),
        ),
        (
            lambda x: jax.lax.ppermute(x, "data", [(0, 1), (1, 0)]),
            P(None),
            ("collective-permute", ("data",), 1, SIZE),
        ),
        (repeated, P(None), ("all-reduce", ("data",), 7, 7 * SIZE)),
    ],
)
def test_what_a_device_sends(function, spec, expected):
    assert found(function, spec) == [expected]


TPU = """
%body (p: (f32[8,4])) -> (f32[8,4]) {
  %all-gather.1 = bf16[64,4]{1,0:T(8,128)(2,1)} all-gather(%p), channel_id=5, replica_groups=\
mesh['axis_0'=2,'axis_1'=4] {'axis_1'}, dimensions={0}
}
%condition (p: (f32[8,4])) -> pred[] {
  %constant.9 = s32[] constant(3)
}
%async_collective_fusion.1 (p: bf16[2,4]) -> bf16[8,4] {
  %all-gather.7 = bf16[8,4]{1,0:T(8,128)(2,1)S(1)} all-gather(%p), channel_id=7, replica_groups=\
[2,4]<=[2,4], dimensions={0}
}
%async_collective_fusion.2 (p: bf16[2,4]) -> bf16[8,4] {
  %all-gather.8 = bf16[8,4]{0,1:T(8,128)(2,1)} all-gather(%p), channel_id=7, replica_groups=\
[2,4]<=[2,4], dimensions={0}
}
%all-reduce-scatter.3 (p: f32[4,4]) -> f32[2,4] {
  %all-reduce.2 = f32[4,4]{1,0} all-reduce(%p), channel_id=8, replica_groups=[4,2]<=[2,4]T(1,0), \
to_apply=%sum
}
ENTRY %main (p: f32[8,4]) -> f32[8,4] {
  %while.1 = (f32[8,4]) while(%tuple), condition=%condition, body=%body
  %fusion.1 = bf16[8,4]{1,0} fusion(%a), kind=kCustom, calls=%async_collective_fusion.1
  %fusion.2 = bf16[8,4]{1,0} fusion(%b), kind=kCustom, calls=%async_collective_fusion.2
  %fusion.3 = f32[2,4]{1,0} fusion(%c), kind=kCustom, calls=%all-reduce-scatter.3
}
"""


def test_a_program_of_a_tpu():
    """A loop without a noted length, a collective that two fusions share, and a scattered sum."""
    assert [(c.kind, c.axes, c.count, c.bytes) for c in collectives(TPU, {"x": 2, "y": 4})] == [
        ("all-gather", ("y",), 4, 3 * 512 * 3 // 4 + 64 * 3 // 4),
        ("reduce-scatter", ("x",), 1, 64 // 2),
    ]


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
    traced = compile.trace_step(task, mesh, shape or (ROWS, *LENGTHS[family]))
    text = traced.lower().compile().as_text()
    params = jax.tree.leaves(abstract_state(task, mesh).params)
    return text, collectives(text, dict(mesh.shape)), sum(leaf.size for leaf in params)


PACKED = ["data.batching=packed", "data.row_tokens=64", "model.unroll=False"]


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("mesh", [(1, 8, 1), (8, 1, 1)])
def test_a_step_sends_what_the_method_needs(mesh):
    """FSDP gathers parameters for both passes and sums gradients once, in float32.

    On a CPU the sum is an all-reduce.
    """
    _, exchanges, params = compiled("csan", mesh, "model.unroll=False")
    gathers = 2 * 4 * params if mesh[1] > 1 else 0
    sums = 2 * 4 * params
    assert sum(exchange.bytes for exchange in exchanges) <= 1.2 * (gathers + sums) * 7 / 8


@pytest.mark.slow
@needs_tpu
def test_a_step_on_a_pod_sends_what_fsdp_needs(monkeypatch):
    for name, value in topology.ENVIRONMENT.items():  # also beside a process that has libtpu
        monkeypatch.setenv(name, value)
    changes = ("train.compute_dtype=bfloat16", "model.dim=256", "model.mlp_dim=1024")
    devices = topology.topology_devices("v5e:2x4")
    _, exchanges, params = compiled("csan", (1, 8, 1), *changes, devices=devices)
    kinds = {exchange.kind: exchange.bytes for exchange in exchanges}
    assert sum(kinds.values()) <= 1.2 * (2 * 2 + 4) * params * 7 / 8
    assert kinds["reduce-scatter"] >= 0.95 * 4 * params * 7 / 8  # in float32


def test_float32_is_multiplied_at_the_rate_of_jaxs_default():
    """TensorFloat-32 on GPUs, dense, by NVIDIA's data sheets; bfloat16 on TPUs."""
    rates = {"a100": 156, "h100": 495, "h200": 495, "b200": 1125, "v5e": 197}
    for name, teraflops in rates.items():
        assert CHIPS[name].peak["float32"] == pytest.approx(teraflops * 1e12, rel=0.002)


@pytest.mark.slow
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
