"""Collectives of programs compiled for eight CPU devices, against hand counts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from launch.plan.collectives import collectives

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
