"""`attention_fn` in Flax's layers, beside Flax's own functions."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from common_jax.attention import attention, attention_fn
from common_jax.masks import causal, padding

X = np.random.default_rng(0).standard_normal((2, 5, 6)).astype(np.float32)
CAUSAL = np.tril(np.ones((1, 1, 5, 5), bool))


def linen(x, attention_fn, *, rngs=None, decode=False, **options):
    layer = nn.MultiHeadDotProductAttention(2, attention_fn=attention_fn, decode=decode)
    params = jax.jit(layer.init)(jax.random.key(0), x)
    return layer.apply(params, x, mutable=["cache"], **options)[0]


def of_nnx(x, attention_fn, *, decode=False, **options):
    layer = nnx.MultiHeadAttention(2, 6, attention_fn=attention_fn, decode=decode, rngs=nnx.Rngs(0))
    if decode:
        layer.init_cache(x.shape)
    return layer(x, **options)


LAYERS = {"linen": (linen, nn.dot_product_attention), "nnx": (of_nnx, nnx.dot_product_attention)}


@pytest.fixture(autouse=True)
def promotion_as_flax_needs_it():
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


VALID = np.arange(5) < np.array([[5], [3]])
PADDED = {"mask": padding(jnp.asarray(VALID)), "is_causal": True}


@pytest.mark.parametrize(
    "name,options,own_options",
    [
        ("linen", {}, {}),
        ("nnx", {}, {}),
        ("linen", {"mask": causal()}, {"mask": CAUSAL}),
        ("nnx", {"mask": causal()}, {"mask": CAUSAL}),
        ("nnx", PADDED, {"mask": VALID[:, None, None] & CAUSAL}),
    ],
)
def test_without_a_window_it_is_flaxs_own_function(name, options, own_options):
    layer, own = LAYERS[name]
    want = layer(X, own, **own_options)
    np.testing.assert_allclose(layer(X, attention_fn, **options), want, rtol=1e-5, atol=1e-6)


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
