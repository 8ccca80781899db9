"""The shapes of many long examples."""

import numpy as np

from common_jax.data.epoch_plan import choose_shapes


def test_long_columns_stay_fast_and_hold_every_example():
    random = np.random.default_rng(0)
    lengths = np.minimum(random.lognormal(5, 1, (200_000, 2)).astype(int), 3000)
    shapes = choose_shapes(lengths, 8)
    assert len(shapes) == 8 and (shapes[-1] == lengths.max(0)).all()
    fits = (lengths[:, None] <= shapes).all(-1)
    positions = np.where(fits, shapes.sum(-1), 10**9).min(1).sum()
    assert positions < len(lengths) * lengths.max(0).sum() / 2  # in one shape
