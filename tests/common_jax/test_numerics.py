"""Settings of jax that change results, in this process and in a command's."""

import jax
import pytest

from common_jax import numerics
from common_jax.config import MeshConfig
from common_jax.errors import UserError
from common_jax.training.mesh import make_mesh


@pytest.mark.parametrize(
    "setting,value,message",
    [
        (jax.enable_x64, True, "jax_enable_x64=True: gives other results"),
        (jax.threefry_partitionable, False, "jax_threefry_partitionable=False: gives"),
        (jax.default_matmul_precision, "float32", "jax_default_matmul_precision=float32: gives"),
    ],
)
def test_a_setting_that_changes_results_is_refused_from_python(setting, value, message):
    with setting(value), pytest.raises(UserError, match=message):
        make_mesh(MeshConfig(1))
    make_mesh(MeshConfig(1))


def test_keys_have_a_generator_whatever_the_default_is():
    expected = jax.random.key_data(jax.random.key(3)).tolist()
    with jax.default_prng_impl("rbg"):
        key = numerics.random_key(3)
        assert jax.random.key_impl(key) == "threefry2x32"
        assert jax.random.key_data(key).tolist() == expected


def test_variables_are_removed_or_recorded(monkeypatch):
    environment = {"JAX_ENABLE_X64": "1", "JAX_PLATFORMS": "cpu", "JAX_DEFAULT_PRNG_IMPL": "rbg"}
    removed = numerics.remove_variables(environment)
    assert removed == ["JAX_ENABLE_X64=1", "JAX_DEFAULT_PRNG_IMPL=rbg"]
    assert environment == {"JAX_PLATFORMS": "cpu"}
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert numerics.recorded_variables()["NVIDIA_TF32_OVERRIDE"] == "0"
