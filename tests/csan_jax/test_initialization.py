"""Initial parameters as in the released code: their standard deviations, by the formulas."""

import flax.linen as nn
import jax
import numpy as np
import pytest
from flax import traverse_util

from common_jax.training.config import parse
from csan_jax.task import Translation

DIM, MLP = 64, 256
LIMITS = {  # of uniform distributions, by the end of the name
    "encoder/layers/self_attention/query/kernel": (6 / (DIM + 3 * DIM)) ** 0.5,
    "encoder/layers/self_attention/value/bias": (3 / (3 * DIM)) ** 0.5,
    "encoder/layers/self_attention/out/kernel": (6 / (2 * DIM)) ** 0.5,
    "decoder/layers/cross_attention/query/kernel": (6 / (2 * DIM)) ** 0.5,
    "decoder/layers/cross_attention/key/kernel": (6 / (3 * DIM)) ** 0.5,
    "decoder/layers/cross_attention/key/bias": (3 / (2 * DIM)) ** 0.5,
    "decoder/layers/feed_forward/in/kernel": (6 / (DIM + MLP)) ** 0.5,
    "decoder/layers/feed_forward/in/bias": (3 / MLP) ** 0.5,
    "source_bias": (3 / DIM) ** 0.5,
}


def test_the_released_ones_have_the_spread_of_the_formulas():
    fields = {"dim": DIM, "mlp_dim": MLP, "source_vocab_size": 30, "target_vocab_size": 30}
    fields |= {"encoder_layers": 1, "decoder_layers": 1, "unroll": False}
    flags = [f"--config.model.{key}={value}" for key, value in fields.items()]
    tasks = [
        Translation(
            parse("configs/csan/quickstart.py", [*flags, f"--config.model.initialization={which}"])
        )
        for which in ("glorot", "released")
    ]
    both = jax.jit(lambda key: [nn.unbox(task.init(key)) for task in tasks])(jax.random.key(0))
    ours, released = (traverse_util.flatten_dict(params, sep="/") for params in both)
    for name, limit in LIMITS.items():
        values = np.asarray(released[name])
        assert 0.95 * limit < np.abs(values).max() <= limit, name
        assert values.std() == pytest.approx(limit / 3**0.5, rel=0.15), name
    same = [name for name in ours if np.array_equal(ours[name], released[name])]
    assert {name for name in same if "norm" not in name and "kernel" not in name} == {
        "target_embedding"
    }
    assert np.array_equal(*(p["encoder/layers/feed_forward/in/kernel"] for p in (ours, released)))
    assert not ours["source_bias"].any()
