"""bfloat16 computes close to float32, with float32 logits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.attconv_jax import test_model as attconv
from tests.csan_jax import test_model as csan
from tests.qanet_jax import test_model as qanet


def of_translation(dtype):
    _, _, apply = csan.build(dtype)
    sources, targets = csan.batch()
    logits = apply(sources, targets)
    return logits, logits[targets != 0]


def of_reading(dtype):
    _, params, apply = qanet.build(dtype)
    texts = qanet.batch()
    logits = qanet.logits(apply, params, texts)
    return logits, logits[:, texts[0].valid]


def of_labels(dtype):
    _, params, judge = attconv.build(dtype=dtype)
    (_, logits), gradients = judge(params, attconv.batch(), attconv.SCORES)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))
    return logits, logits


@pytest.mark.parametrize("computed", [of_translation, of_reading, of_labels])
def test_bfloat16_computes_close_to_float32_with_float32_logits(computed):
    _, exact = computed(jnp.float32)
    logits, low = computed(jnp.bfloat16)
    assert logits.dtype == jnp.float32
    exact = np.asarray(exact)
    assert 0 < np.abs(np.asarray(low) - exact).max() < 0.1 * np.abs(exact).max()
