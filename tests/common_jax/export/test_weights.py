"""Weights in bfloat16 and int8 beside NumPy's arithmetic; forged scales."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax.deploy.weights import SCALE, require_scales, restored, stored
from common_jax.errors import UserError
from common_jax.io.parameters import (
    named_parameters,
    nested_parameters,
    read_safetensors,
    write_safetensors,
)

AXES = {  # of the inputs of an output channel
    "encoder/layers/feed_forward/in/kernel": -2,
    "convolution/kernel": -2,
    "depthwise_kernel": -2,
    "lstm/recurrent": -2,
    "word_embedding": -1,
    "trigram_embedding": -1,
}
SHAPES = dict(
    zip(AXES, [(2, 40, 30), (5, 16, 32), (64, 17), (8, 128), (70, 20), (30, 3, 16)], strict=True)
)
KEPT = {  # stay float32
    "encoder/layers/norm/scale": (40, 30),
    "encoder/layers/feed_forward/in/bias": (2, 600),
    "unknown_word_embedding": (2000,),
    "pointer/kernel": (1023, 1),
    "other": (40, 30),
}


@pytest.fixture(scope="module")
def named():
    random = np.random.default_rng(0)
    draw = lambda shape: random.normal(0, random.uniform(0.01, 3, shape[-1]), shape)
    return {name: draw(shape).astype(np.float32) for name, shape in (SHAPES | KEPT).items()}


def nested(named):
    return nested_parameters({name: jnp.asarray(array) for name, array in named.items()})


def in_type(named, dtype):
    return {n: np.asarray(a) for n, a in named_parameters(stored(nested(named), dtype)).items()}


def back(arrays):
    return {n: np.asarray(a) for n, a in named_parameters(restored(nested(arrays))).items()}


def test_int8_is_that_of_numpy_and_its_error_at_most_half_a_scale(named):
    arrays = in_type(named, "int8")
    assert arrays.keys() == {*named, *(name + SCALE for name in AXES)}
    read = back(arrays)
    assert read.keys() == named.keys()
    for name, axis in AXES.items():
        scale = np.abs(named[name].astype(np.float64)).max(axis, keepdims=True) / 127
        np.testing.assert_allclose(arrays[name + SCALE], scale, rtol=1e-6)
        quotient = named[name] / arrays[name + SCALE]  # float32, as the encoder's
        np.testing.assert_array_equal(arrays[name], np.rint(quotient).astype(np.int8))
        assert (arrays[name].dtype, np.abs(arrays[name].astype(int)).max()) == (np.int8, 127)
        error = np.abs(read[name].astype(np.float64) - named[name].astype(np.float64))
        assert np.all(error <= 0.5 * arrays[name + SCALE] * (1 + 1e-5))
        assert read[name].dtype == np.float32


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_norms_biases_and_small_arrays_stay(named, dtype):
    arrays = in_type(named, dtype)
    for name in KEPT:
        assert arrays[name].dtype == np.float32
        np.testing.assert_array_equal(arrays[name], named[name])


def test_ties_go_to_even_and_zeros_stay_zeros():
    kernel = np.zeros((32, 32), np.float32)
    kernel[:, 0] = 127.0
    kernel[:8, 1] = [127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5]
    arrays = in_type({"kernel": kernel}, "int8")
    assert arrays["kernel"][:8, 1].tolist() == [127, 0, 2, 2, 0, -2, -2, 126]
    assert arrays["kernel.scale"][0, :3].tolist() == [1, 1, 1]
    assert not arrays["kernel"][:, 2:].any()


def test_bfloat16_is_the_nearest_with_ties_to_even(named):
    """Of the bits: half of the dropped ones, less one unless the last kept bit is 1, is added."""
    ties = (1 + np.arange(2048, dtype=np.float32) / 2**9).reshape(64, 32)
    arrays = named | {"kernel": ties}
    read = back(in_type(arrays, "bfloat16"))
    for name in [*AXES, "kernel"]:
        bits = arrays[name].view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        np.testing.assert_array_equal(read[name], rounded.view(np.float32))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_a_file_keeps_every_bit(named, dtype, tmp_path):
    params = stored(nested(named), dtype)
    write_safetensors(params, tmp_path / "x")
    read = read_safetensors(tmp_path / "x")
    assert jax.tree.structure(read) == jax.tree.structure(params)
    jax.tree.map(np.testing.assert_array_equal, read, params)
    assert [a.dtype for a in jax.tree.leaves(read)] == [a.dtype for a in jax.tree.leaves(params)]


@pytest.mark.parametrize("scale", [np.nan, np.inf, 0.0, -1.0])
def test_a_scale_that_is_none_is_refused(named, scale):
    arrays = in_type(named, "int8")
    require_scales("file", nested_parameters(arrays))
    arrays["convolution/kernel.scale"] = arrays["convolution/kernel.scale"].copy()
    arrays["convolution/kernel.scale"][1, 0, 3] = scale
    with pytest.raises(UserError, match=r"^file: convolution/kernel\.scale: a scale that is not"):
        require_scales("file", nested_parameters(arrays))
