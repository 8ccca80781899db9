"""Texts of different lengths in one batch."""

import jax
import jax.numpy as jnp
import numpy as np

from qanet_jax.layers import Words
from qanet_jax.models.base import WordsConfig


def words(lengths, width, config: WordsConfig, *, letters=6, seed=0) -> Words:
    """Texts of these lengths, padded to `width` words of up to `letters` characters."""
    random = np.random.default_rng(seed)
    shape = (len(lengths), width)
    valid = np.arange(width) < np.array(lengths)[:, None]
    ids = np.where(valid, random.integers(1, 7, shape), 0).astype(np.int32)
    spelt = valid[..., None] & (np.arange(letters) < random.integers(1, letters, (*shape, 1)))
    characters = np.where(spelt, random.integers(1, config.char_rows, spelt.shape), 0)
    vectors = random.standard_normal((*shape, config.dim)).astype(np.float32)
    vectors[ids < 2] = 0  # padding and unknown words have none
    fixed = None if config.rows else vectors
    return Words(*jax.tree.map(jnp.asarray, (ids, characters.astype(np.int32), fixed)))


def text(batch: Words, row: int) -> tuple:
    """A row without its padding, as the oracle reads it."""
    length = int((batch.ids[row] != 0).sum())
    vectors = None if batch.vectors is None else np.asarray(batch.vectors[row, :length], np.float64)
    return batch.ids[row, :length], batch.characters[row, :length], vectors
