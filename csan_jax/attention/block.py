"""BLOCK of Table 1: attention inside blocks of words and between them (Shen et al. 2018b).

Bi-BloSAN as simplified in the CSAN authors' released code. For each head, with blocks of r words:

1. h = self-attention inside each block;
2. v = sum_j s_j h_j of a block, s the softmax over its words of W_l sigmoid(W_1 h);
3. o = attention of the blocks to the blocks, with queries W_q v, keys and values v;
4. e = G o + (1 - G) v, G = sigmoid(W_G [v; o]);
5. the result is [h; e of its block] W_O, concatenated over heads.

Ours: padding is masked in all steps, unlike in the released code; steps 2 to 4 are computed for
each word, with the values of its block, so that blocks need not be aligned in rows of several
sentences. A layer adds 1,316,360 parameters; no number of layers gives the 6.0 million of Table 1.
"""

import dataclasses

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from common_jax.attention.layers import SelfAttention
from common_jax.fields import size
from common_jax.layers import Dense, einsum
from common_jax.masks import Mask, masked_softmax, segments, segments_meet, token_window, valid
from csan_jax.attention.base import AttentionSettings, EncoderAttention


class BlockAttention(SelfAttention):
    """Self-attention inside and between blocks.

    Attributes:
      block: r, in words.
    """

    block: int = 4

    def setup(self):
        super().setup()
        self.pool_hidden = Dense(self.dim, ("heads", "embed"), self.dtype)
        self.pool = Dense(self.num_heads, ("embed", "heads"), self.dtype)
        self.block_query = Dense(self.dim, ("embed", "heads"), self.dtype)
        self.gate = Dense(self.dim, ("embed", "heads"), self.dtype)

    def __call__(
        self, x: Float[Array, "B T D"], mask: Mask, *, train: bool
    ) -> Float[Array, "B T D"]:
        blocks = self._blocks(x, mask)

        # step 1: h
        inside = segments(blocks, blocks) & token_window(2 * self.block - 1)
        query = self.split_heads(self.query(x))
        key, value = self.keys_values(x)
        words = self.weighted_values(query, key, value, mask=inside, train=train)

        # step 2: v, for each word the sum over its block
        hidden = nn.sigmoid(self.pool_hidden(words.reshape(x.shape)))
        scores = jnp.moveaxis(self.pool(hidden).astype(jnp.float32), 2, 1)[:, :, None]
        same_block = segments_meet(blocks, blocks)[:, None]
        pooling_scores = jnp.broadcast_to(scores, (*scores.shape[:2], *same_block.shape[2:]))
        shares = masked_softmax(pooling_scores, same_block)
        pooled = einsum("bhts,bshk->bthk", shares.astype(x.dtype), words).astype(x.dtype)

        # step 3: o, to the first word of each block of the sentence
        starts_block = blocks != jnp.pad(blocks[:, :-1], ((0, 0), (1, 0)))
        ids = self._ids(x, mask)
        to_blocks = segments(ids, jnp.where(starts_block, ids, 0))
        query = self.split_heads(self.block_query(pooled.reshape(x.shape)))
        context = self.weighted_values(query, pooled, pooled, mask=to_blocks, train=train)

        # step 4: e
        both = jnp.concatenate([pooled.reshape(x.shape), context.reshape(x.shape)], -1)
        gate = self.split_heads(nn.sigmoid(self.gate(both)))
        combined = gate * context + (1 - gate) * pooled

        # step 5
        return self.out(jnp.concatenate([words, combined], -1).reshape(*x.shape[:2], -1))

    def weights(self, x: Float[Array, "B T D"], mask: Mask) -> Float[Array, "B H T 1 T"]:
        """The attention weights inside the blocks."""
        blocks = self._blocks(x, mask)
        return super().weights(x, segments(blocks, blocks))

    def _ids(self, x: Array, mask: Mask) -> Int[Array, "B T"]:
        """Each word's segment, from 1; 0 is padding."""
        ids = mask.query_segments
        return jnp.ones(x.shape[:2], jnp.int32) if ids is None else ids.astype(jnp.int32)

    def _blocks(self, x: Array, mask: Mask) -> Int[Array, "B T"]:
        """The number of each word's block in its row, from 1; 0 is padding."""
        begins = mask.query_positions(x.shape[1]) % self.block == 0
        ids = self._ids(x, mask)
        return jnp.where(valid(ids), jnp.cumsum(begins & valid(ids), axis=1, dtype=jnp.int32), 0)


@dataclasses.dataclass(frozen=True)
class Block(EncoderAttention):
    """Self-attention by blocks.

    Attributes:
      block: r, in words.
    """

    block: int = size(4)

    def mask(self) -> Mask:
        return token_window(2 * self.block - 1)  # contains the block of each word

    def module(self, settings: AttentionSettings) -> BlockAttention:
        return settings.layer(BlockAttention, block=self.block)
