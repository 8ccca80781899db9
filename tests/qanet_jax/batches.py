"""Parameters for tests, and texts of different lengths in one batch."""

import flax.linen as nn
import jax
import numpy as np

from qanet_jax.layers import Words


def parameters(module: nn.Module, *inputs, seed=0, **options) -> dict:
    """Random ones, biases and scales too: a fresh model's zeros and ones would hide mistakes.

    They are made from their shapes alone, so that nothing is compiled.
    """
    init = lambda key: nn.unbox(module.init(key, *inputs, **options))
    shapes = jax.eval_shape(init, jax.random.key(0))["params"]
    random = np.random.default_rng(seed)
    return jax.tree.map(lambda s: random.normal(0, 0.4, s.shape).astype(np.float32), shapes)


def exact(params: dict) -> dict:
    """The same in float64, for the oracle."""
    return jax.tree.map(lambda a: np.asarray(a, np.float64), params)


def words(lengths, width, config, *, letters=6, seed=0) -> Words:
    """Texts of those lengths, padded to `width` words of up to `letters` characters."""
    random = np.random.default_rng(seed)
    shape = (len(lengths), width)
    valid = np.arange(width) < np.array(lengths)[:, None]
    ids = np.where(valid, random.integers(1, 7, shape), 0).astype(np.int32)
    spelt = valid[..., None] & (np.arange(letters) < random.integers(1, letters, (*shape, 1)))
    characters = np.where(spelt, random.integers(1, config.char_rows, spelt.shape), 0)
    vectors = random.standard_normal((*shape, config.word_dim)).astype(np.float32)
    vectors[ids < 2] = 0  # padding and unknown words have none
    fixed = None if config.word_rows else vectors
    return Words(ids, characters.astype(np.int32), fixed)


def text(batch: Words, row: int) -> tuple:
    """A row without its padding, as the oracle takes it."""
    length = int((batch.ids[row] != 0).sum())
    vectors = None if batch.vectors is None else np.asarray(batch.vectors[row, :length], np.float64)
    return batch.ids[row, :length], batch.characters[row, :length], vectors
