"""Settings of jax that change results, pytrees, and texts without paths."""

import jax
import jax.numpy as jnp
import pytest
from jaxtyping import TypeCheckError

from common_jax import numerics
from common_jax.config import MeshConfig
from common_jax.errors import UserError
from common_jax.masks import Mask, padding
from common_jax.training.mesh import make_mesh
from launch.export.request import shareable


@pytest.mark.parametrize(
    "setting,value,message",
    [
        (jax.enable_x64, True, "jax_enable_x64=True"),
        (jax.threefry_partitionable, False, "jax_threefry_partitionable=False"),
        (jax.default_matmul_precision, "float32", "jax_default_matmul_precision=float32"),
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


def test_types_hold_where_a_node_is_made_and_not_where_jax_makes_one():
    """Three dims where two are needed too: `--jaxtyping-packages` of pyproject.toml."""
    valid = jnp.array([[True, True, False]])
    shapes = jax.tree.map(lambda a: a.shape, padding(valid))
    assert isinstance(shapes, Mask) and shapes.key_segments == (1, 3)
    with pytest.raises(TypeCheckError, match="key_segments"):
        Mask(key_segments=(1, 3))
    with pytest.raises(TypeCheckError, match="key_valid"):
        padding(valid[None])


@pytest.mark.parametrize(
    "text,expected",
    [
        ("/home/ada/data/snli", "snli"),
        ("/home/ada b/data", "data"),
        ("~/data", "data"),
        ("~ada/data/x.txt", "x.txt"),
        ("runs/csan/quickstart", "runs/csan/quickstart"),
        ("../data", "../data"),
        ("and/or, 1/2", "and/or, 1/2"),
        ("gs://bucket/run", "gs://bucket/run"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        (
            "python -m launch.train --config=/a/b.py:light --config.data.dir=/c/d --x '/e f/g'",
            "python -m launch.train --config=b.py:light --config.data.dir=d --x 'g'",
        ),
        ("name=/a/b,other=~/c/d", "name=b,other=d"),
    ],
)
def test_an_absolute_path_in_an_export_is_its_last_component(text, expected):
    assert shareable(text) == expected
    assert shareable({"labels": text, "data": {"labels": text}})["data"]["labels"] == text
    assert shareable({"a": [text, 1, None, 0.5, True]}) == {"a": [expected, 1, None, 0.5, True]}
