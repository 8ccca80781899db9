"""What `attention_fn` refuses in Flax's layers, its dropout and its types."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from common_jax.attention import attention, attention_fn
from tests.common_jax.attention.test_flax_layers import (
    CAUSAL,
    X,
    linen,
    of_nnx,
    promotion_as_flax_needs_it,
)

__all__ = ["promotion_as_flax_needs_it"]


@pytest.mark.parametrize("layer", [linen, of_nnx])
@pytest.mark.parametrize(
    "options,message",
    [
        ({"mask": CAUSAL}, "not a common_jax.masks.Mask"),
        ({"decode": True}, "decode=True"),
        ({"sow_weights": True}, "sow_weights"),
    ],
)
def test_what_it_does_not_support_is_refused(layer, options, message):
    tokens = 1 if "decode" in options else 5
    with pytest.raises(ValueError, match=message):
        layer(X[:, :tokens], attention_fn, **options)


def test_dropout_is_of_the_weights_unless_deterministic():
    query, key, value = jax.random.normal(jax.random.key(0), (3, 1, 5, 2, 3))
    options = {"dropout_rng": jax.random.key(1), "dropout_rate": 0.5}
    jitted = jax.jit(attention_fn, static_argnames=("dropout_rate", "deterministic"))
    plain = jax.jit(attention, static_argnames="dropout_rate")
    kept = jitted(query, key, value, deterministic=True, **options)
    np.testing.assert_array_equal(kept, plain(query, key, value))
    want = plain(query, key, value, dropout_rate=0.5, dropout_key=jax.random.key(1))
    np.testing.assert_array_equal(jitted(query, key, value, **options), want)


def test_types_are_promoted_to_one():
    query = jax.random.normal(jax.random.key(0), (1, 5, 2, 3))
    half = query.astype(jnp.bfloat16)
    assert attention_fn(half, query, query).dtype == jnp.float32
    assert attention_fn(query, query, query, dtype=jnp.bfloat16).dtype == jnp.bfloat16
    with pytest.raises(ValueError, match="precision"):
        attention_fn(query, query, query, precision="highest")
