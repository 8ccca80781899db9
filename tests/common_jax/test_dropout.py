import jax
import jax.extend.random
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax.dropout import dropout, threefry


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.003])
def test_rate_is_honoured_and_what_stays_is_scaled_by_it(rate):
    out = np.asarray(dropout(jnp.ones((1000, 1001)), rate, jax.random.key(0)))
    mask = out != 0
    deviation = np.sqrt(rate * (1 - rate) / out.size)
    assert abs(mask.mean() - (1 - rate)) < 4 * deviation
    np.testing.assert_allclose(out[mask], 1 / (1 - rate), rtol=2e-5)


def test_elements_are_independent():
    """Neighbours, and the two elements from one word of random bits, drop independently."""
    mask = np.asarray(dropout(jnp.ones((2000, 512)), 0.3, jax.random.key(1))) != 0
    for shift in (1, 2, 256):
        both = mask[:, shift:] & mask[:, :-shift]
        assert abs(both.mean() - 0.49) < 4 * np.sqrt(0.25 / both.size)


def test_random_words_are_those_of_jaxs_threefry():
    key = jax.random.key(11)
    counters = jax.random.bits(jax.random.key(12), (2, 500), jnp.uint32)
    words = jnp.stack(threefry(key, *counters))
    expected = jax.extend.random.threefry_2x32(jax.random.key_data(key), counters.reshape(-1))
    np.testing.assert_array_equal(words, expected.reshape(2, 500))


@pytest.mark.parametrize("shape", [(), (1,), (3, 5), (2, 3, 4)])
def test_any_shape_and_dtype(shape):
    for dtype in (jnp.float32, jnp.bfloat16):
        out = dropout(jnp.ones(shape, dtype), 0.5, jax.random.key(2))
        assert out.shape == shape and out.dtype == dtype
        assert set(np.asarray(out, np.float32).ravel().tolist()) <= {0.0, 2.0}


def test_one_key_gives_one_result_and_rate_zero_changes_nothing():
    x = jax.random.normal(jax.random.key(3), (64, 7))
    first, again, other = (dropout(x, 0.4, jax.random.key(k)) for k in (4, 4, 5))
    np.testing.assert_array_equal(first, again)
    assert np.any(np.asarray(first) != np.asarray(other))
    np.testing.assert_array_equal(dropout(x, 0.0, None), x)


def test_gradient_passes_where_the_element_stayed():
    x = jax.random.normal(jax.random.key(6), (50, 7))
    out, back = jax.vjp(lambda x: dropout(x, 0.4, jax.random.key(7)), x)
    np.testing.assert_allclose(back(jnp.ones_like(x))[0] * x, out, rtol=1e-6)


@pytest.mark.parametrize("rate, key", [(1.0, 0), (-0.1, 0), (0.1, None)])
def test_what_cannot_be_raises(rate, key):
    with pytest.raises(ValueError, match="dropout"):
        dropout(jnp.ones(3), rate, None if key is None else jax.random.key(key))
