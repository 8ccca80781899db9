"""Sharding and collectives of further training steps, and of one on a pod."""

import pytest

from launch.plan.topology import topology_devices
from tests.launch.plan.test_plan import needs_tpu
from tests.launch.test_mesh_programs import compiled, require_sharded_rows


@pytest.mark.parametrize(
    "family,changes",
    [("csan", ["model.unroll=False"]), ("csan", ["model.unroll=True"]), ("qanet", [])],
)
def test_rows_of_activations_are_sharded_over_data_and_fsdp(family, changes):
    require_sharded_rows(family, *changes)


@needs_tpu
def test_a_step_on_a_pod_sends_what_fsdp_needs():
    changes = ("train.compute_dtype=bfloat16", "model.dim=256", "model.mlp_dim=1024")
    devices = topology_devices("v5e:2x4")
    _, exchanges, params = compiled("csan", (1, 8, 1), *changes, devices=devices)
    kinds = {exchange.kind: exchange.bytes for exchange in exchanges}
    assert sum(kinds.values()) <= 1.2 * (2 * 2 + 4) * params * 7 / 8
    assert kinds["reduce-scatter"] >= 0.95 * 4 * params * 7 / 8  # in float32
