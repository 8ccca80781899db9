"""Position encodings."""

import jax
import jax.export
import numpy as np

from common_jax.layers import NEAR, sinusoids


def test_encodings_of_a_symbolic_length_are_those_of_any():
    zeros = jax.ShapeDtypeStruct(jax.export.symbolic_shape("T"), np.float32)
    encode = jax.export.export(jax.jit(lambda x: sinusoids(x.shape[0], 6)))(zeros)
    for length in (1, NEAR, 40_000):
        positions = np.arange(length)[:, None]
        angles = positions / 10_000.0 ** (np.arange(3)[None] / 2)
        want = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        computed = np.asarray(encode.call(np.zeros(length, np.float32)))
        np.testing.assert_allclose(computed, want, atol=4e-5)
        np.testing.assert_allclose(computed[:5_000], want[:5_000], atol=5e-6)
        np.testing.assert_array_equal(computed[:NEAR], sinusoids(length, 6)[:NEAR])
