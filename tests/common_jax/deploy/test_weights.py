"""Weights that exports of earlier versions store in bfloat16 and int8; forged scales."""

import jax.numpy as jnp
import numpy as np
import pytest

from common_jax.deploy.safetensors_file import read_safetensors, write_safetensors
from common_jax.deploy.weights import SCALE, require_scales, stored_shapes
from common_jax.errors import UserError
from common_jax.io.parameters import named_parameters, nested_parameters
from tests.launch.older_exports import in_type

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


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_shapes_and_types_are_those_of_a_stored_file(named, dtype, tmp_path):
    stored = nested(in_type(named, dtype))
    write_safetensors(stored, tmp_path / "x")
    expected = named_parameters(stored_shapes(nested(named), dtype))
    read = named_parameters(read_safetensors(tmp_path / "x"))
    assert {n: (a.shape, a.dtype) for n, a in expected.items()} == {
        n: (a.shape, a.dtype) for n, a in read.items()
    }
    assert {n for n in read if n.endswith(SCALE)} == (
        {n + SCALE for n in AXES} if dtype == "int8" else set()
    )


@pytest.mark.parametrize("scale", [np.nan, np.inf, 0.0, -1.0])
def test_a_scale_that_is_none_is_refused(named, scale):
    arrays = in_type(named, "int8")
    require_scales("file", nested_parameters(arrays))
    arrays["convolution/kernel.scale"] = arrays["convolution/kernel.scale"].copy()
    arrays["convolution/kernel.scale"][1, 0, 3] = scale
    with pytest.raises(UserError, match=r"^file: convolution/kernel\.scale: a scale that is not"):
        require_scales("file", nested_parameters(arrays))
