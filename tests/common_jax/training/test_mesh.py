"""Meshes and shardings."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec as P

from common_jax.config import MeshConfig
from common_jax.errors import UserError
from common_jax.training.mesh import make_mesh, mesh_shape, shardings
from tests.sharded_batch import placed


@pytest.mark.parametrize(
    "requested,devices,shape",
    [
        ((-1, 2, 2), 8, (2, 2, 2)),
        ((1, -1, 2), 8, (1, 4, 2)),
        ((2, 2, -1), 4, (2, 2, 1)),
        ((1, 2, 1), 8, (1, 2, 1)),
    ],
)
def test_minus_one_takes_what_remains(requested, devices, shape):
    assert tuple(mesh_shape(MeshConfig(*requested), devices).values()) == shape


@pytest.mark.parametrize(
    "requested,message",
    [
        ((-1, 3, 1), "mesh.fsdp=3: 8 devices are not a multiple of 3"),
        ((4, 4, 1), "mesh.data=4 x mesh.fsdp=4: only 8 devices here"),
        ((-1, -1, 1), "mesh"),
        ((0, 1, 1), "mesh"),
        ((1, -2, 1), "mesh"),
    ],
)
def test_a_mesh_that_does_not_come_out(requested, message):
    with pytest.raises(UserError, match=message):
        make_mesh(MeshConfig(*requested))


def test_names_of_axes_decide_where_a_parameter_lies():
    mesh = make_mesh(MeshConfig(2, 2, 2))
    box = lambda shape, *names: nn.LogicallyPartitioned(jnp.zeros(shape), names)
    tree = {
        "kernel": box((6, 4), "embed", "mlp"),
        "stacked": box((3, 4, 6), "layers", "heads", "embed"),
        "odd": box((7, 4), "vocab", "embed"),
        "plain": jnp.zeros((4, 4)),
    }
    got = {name: sharding.spec for name, sharding in shardings(tree, mesh).items()}
    assert got["kernel"] == P("fsdp", "tensor")
    assert got["stacked"] == P(None, "tensor", "fsdp")
    assert got["odd"] == P(None, "fsdp")  # 7 rows stay whole on 2 devices
    assert got["plain"] == P()


@pytest.mark.parametrize(
    "shape,parts,rows", [((2, 2, 2), 1, 8), ((2, 1, 1), 3, 6), ((8, 1, 1), 2, 16)]
)
def test_filler_rows_fill_devices_and_parts(shape, parts, rows):
    batch = {"index": np.arange(5, dtype=np.int32), "x": np.ones((5, 3), np.int32)}
    got = jax.device_get(placed(batch, make_mesh(MeshConfig(*shape)), parts))
    assert got["index"].tolist() == [0, 1, 2, 3, 4] + [-1] * (rows - 5)
    assert got["x"].sum() == 15 and got["x"].shape == (rows, 3)
