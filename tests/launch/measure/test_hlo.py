"""Traffic and collectives of programs compiled for eight CPU devices, against hand counts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from launch.measure.hlo import Program

SHAPE = {"data": 2, "fsdp": 2, "tensor": 2}
SIZE = 64 * 256 * 4  # bytes of the array that is exchanged


@pytest.fixture(scope="module")
def mesh():
    return Mesh(np.array(jax.devices()).reshape(tuple(SHAPE.values())), tuple(SHAPE))


def program(function, mesh, spec):
    """The compiled function of an array sharded by `spec`, with `SIZE` bytes on each device."""
    sharded = jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=P(), check_vma=False)
    parts = np.prod([mesh.shape[axis] for axis in spec if axis], dtype=int)
    x = jax.ShapeDtypeStruct(
        (64 * int(parts), 256), jnp.float32, sharding=NamedSharding(mesh, spec)
    )
    return Program(jax.jit(sharded).lower(x).compile().as_text(), SHAPE)


@pytest.mark.parametrize("axes", [("data",), ("fsdp",), ("tensor",), ("data", "tensor")])
def test_a_sum_over_axes_sends_each_part_twice(mesh, axes):
    (collective,) = program(lambda x: jax.lax.psum(x, axes), mesh, P(None)).collectives
    group = 2 ** len(axes)
    assert (collective.kind, collective.axes, collective.count) == ("all-reduce", axes, 1)
    assert collective.bytes == 2 * SIZE * (group - 1) // group


PARTS = {
    # its own part, to the one other device
    "all-gather": ("fsdp", P("fsdp"), SIZE, lambda x: jax.lax.all_gather(x, "fsdp", tiled=True)),
    "reduce-scatter": (
        *("tensor", P(None), SIZE // 2),
        lambda x: jax.lax.psum_scatter(x, "tensor", tiled=True),
    ),
    "collective-permute": (
        *("data", P(None), SIZE),
        lambda x: jax.lax.ppermute(x, "data", [(0, 1), (1, 0)]),
    ),
}


@pytest.mark.parametrize("kind", PARTS)
def test_what_is_sent_to_the_other_of_two_devices(mesh, kind):
    axis, spec, size, function = PARTS[kind]
    (collective,) = program(function, mesh, spec).collectives
    assert (collective.kind, collective.axes, collective.bytes) == (kind, (axis,), size)


def test_a_loop_sends_as_often_as_it_runs(mesh):
    def repeated(x):
        body = lambda x, _: (jnp.tanh(jax.lax.psum(x, "data")), None)
        return jax.lax.scan(body, x, length=7)[0]

    (collective,) = program(repeated, mesh, P(None)).collectives
    assert (collective.count, collective.bytes) == (7, 7 * SIZE)


def test_one_kernel_reads_its_arguments_and_writes_its_result(mesh):
    moved = program(lambda x: jnp.tanh(x) * 2, mesh, P(None)).bytes_moved
    assert 2 * SIZE <= moved <= 4 * SIZE  # a copy beside it, perhaps


def test_a_loop_writes_its_parts_of_a_stack_and_not_the_stack(mesh):
    stacked = lambda x: jax.lax.scan(lambda x, _: (jnp.tanh(x) * 2, x), x, length=32)[1]
    moved = program(stacked, mesh, P(None)).bytes_moved
    assert 32 * 2 * SIZE <= moved <= 32 * 8 * SIZE  # with a copy of x, and the zeros at first
