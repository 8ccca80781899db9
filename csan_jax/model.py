"""The Transformer encoder-decoder with CSAN in its lowest encoder layers.

Vaswani et al. (2017) with what the CSAN authors' released code does where the paper is silent:
pre-norm with a final layer normalisation in encoder and decoder, embeddings times sqrt(d), a
learned bias [D] added to the encoder's input, the decoder's first input all zeros instead of a
start symbol, no bias on the output product. Post-norm is a field, and has no final normalisation.

Our deviations: parameters are stacked over layers; `tie` and `norm` offer what the paper fixes.
"""

import functools
from typing import Any

import flax
import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from common_jax.attention import Implementation
from common_jax.layers import (
    Dropout,
    KeysValues,
    LayerNorm,
    MultiHeadAttention,
    Stack,
    dense,
    sinusoids,
)
from common_jax.masks import Mask, causal, explicit, padding, segments
from csan_jax.attention import encoder_spans
from csan_jax.config import ModelConfig


@flax.struct.dataclass
class Cache:
    """What decoding keeps between steps, for k hypotheses a sentence.

    Self-attention's keys and values of every hypothesis at every step. A hypothesis finds its own
    past by its ancestry (csan_jax.decode), so that nothing is ever reordered.
    """

    keys: Float[Array, "L B steps k H K"]
    values: Float[Array, "L B steps k H K"]


class _Layer(nn.Module):
    """What encoder and decoder layers share: sub-layers in residual connections."""

    config: ModelConfig
    dtype: Any

    def setup(self):
        config = self.config
        self.inner = dense(config.mlp_dim, ("embed", "mlp"), self.dtype)
        self.outer = dense(config.dim, ("mlp", "embed"), self.dtype)
        self.feed_forward_norm = LayerNorm()
        self.self_attention, self.self_norm = self._attention(config.attention)
        self.dropout, self.relu_dropout = Dropout(config.dropout), Dropout(config.relu_dropout)

    def _attention(self, implementation: Implementation) -> tuple[MultiHeadAttention, LayerNorm]:
        config = self.config
        return MultiHeadAttention(
            config.dim, config.num_heads, config.attention_dropout, implementation, self.dtype
        ), LayerNorm()

    def _residual(self, x: Array, norm: LayerNorm, sublayer: Any, train: bool) -> Array:
        """x + f(norm(x)), or norm(x + f(x)); dropout is on f's output."""
        if self.config.norm == "pre":
            return x + self.dropout(sublayer(norm(x)), train=train)
        return norm(x + self.dropout(sublayer(x), train=train))

    def _feed_forward(self, x: Array, train: bool) -> Array:
        """max(0, x W_1 + b_1) W_2 + b_2 (Vaswani et al. 2017, section 3.3), as a residual."""

        def sublayer(y: Array) -> Array:
            return self.outer(self.relu_dropout(nn.relu(self.inner(y)), train=train))

        return self._residual(x, self.feed_forward_norm, sublayer, train)


class EncoderLayer(_Layer):
    """Self-attention under a mask, then the feed-forward layer."""

    def __call__(
        self, x: Float[Array, "B T D"], mask: Mask, *, train: bool
    ) -> Float[Array, "B T D"]:
        attend = lambda y: self.self_attention(y, y, mask, train=train)
        x = self._residual(x, self.self_norm, attend, train)
        return self._feed_forward(x, train)

    def weights(self, x: Float[Array, "B T D"], mask: Mask) -> Float[Array, "B H T N T"]:
        """The attention weights on this layer's input."""
        y = self.self_norm(x) if self.config.norm == "pre" else x
        return self.self_attention.weights(y, y, mask)


class DecoderLayer(_Layer):
    """Causal self-attention, attention to the source, then the feed-forward layer."""

    def setup(self):
        super().setup()
        self.cross_attention, self.cross_norm = self._attention("auto")

    def __call__(
        self,
        x: Float[Array, "B T D"],
        memory: Float[Array, "B S D"],
        self_mask: Mask,
        cross_mask: Mask,
        *,
        train: bool,
    ) -> Float[Array, "B T D"]:
        attend = lambda y: self.self_attention(y, y, self_mask, train=train)
        x = self._residual(x, self.self_norm, attend, train)
        return self._beyond_self(x, self.keys_values(memory), cross_mask, train)

    def keys_values(self, memory: Float[Array, "B S D"]) -> KeysValues:
        """The source as the attention to it sees it."""
        return self.cross_attention.keys_values(memory)

    def step(
        self,
        x: Float[Array, "B k D"],
        cache: Cache,
        layer: Int[Array, ""],
        memory: KeysValues,
        now: Int[Array, ""],
        ancestry: Bool[Array, "B k steps*k"],
        source_mask: Mask,
    ) -> tuple[Float[Array, "B k D"], Cache]:
        """One position further for k hypotheses a sentence; `layer` is this one's index."""

        def attend(y: Array) -> Array:
            nonlocal cache
            new = Cache(*self.self_attention.keys_values(y))
            cache = jax.tree.map(
                lambda kept, a: jax.lax.dynamic_update_slice(
                    kept, a[None, :, None], (layer, 0, now, 0, 0, 0)
                ),
                cache,
                new,
            )
            past = (_past(a, layer) for a in (cache.keys, cache.values))
            return self.self_attention.attend(y, tuple(past), explicit(ancestry), train=False)

        x = self._residual(x, self.self_norm, attend, train=False)
        return self._beyond_self(x, memory, source_mask, train=False), cache

    def _beyond_self(self, x: Array, memory: KeysValues, mask: Mask, train: bool) -> Array:
        attend = lambda y: self.cross_attention.attend(y, memory, mask, train=train)
        return self._feed_forward(self._residual(x, self.cross_norm, attend, train), train)


def _past(
    kept: Float[Array, "L B steps k H K"], layer: Int[Array, ""]
) -> Float[Array, "B steps*k H K"]:
    of_layer = jax.lax.dynamic_index_in_dim(kept, layer, keepdims=False)
    return of_layer.reshape(of_layer.shape[0], -1, *of_layer.shape[3:])


class Transformer(nn.Module):
    """From source pieces to the next target piece's logits.

    Attributes:
      config: the model's fields, with both vocabulary sizes filled in.
      dtype: of activations and products; parameters are float32.
    """

    config: ModelConfig
    dtype: Any = jnp.float32

    def setup(self):
        config = self.config
        self.target_embedding = self._embedding("target_embedding", config.target_vocab_size)
        self.source_embedding = (
            self.target_embedding
            if config.tie == "all"
            else self._embedding("source_embedding", config.source_vocab_size)
        )
        self.output_embedding = (
            self._embedding("output_embedding", config.target_vocab_size)
            if config.tie == "none"
            else self.target_embedding
        )
        self.source_bias = self.param("source_bias", nn.initializers.zeros, (config.dim,))
        layer = functools.partial(EncoderLayer, config, self.dtype, parent=None)
        self.encoder = Stack(layer, config.encoder_layers, config.unroll, config.remat)
        layer = functools.partial(DecoderLayer, config, self.dtype, parent=None)
        self.decoder = Stack(layer, config.decoder_layers, config.unroll, config.remat)
        if config.norm == "pre":
            self.encoder_norm = LayerNorm()
            self.decoder_norm = LayerNorm()
        self.dropout = Dropout(config.dropout)

    def __call__(
        self,
        source: Int[Array, "B S"],
        target: Int[Array, "B T"],
        source_segments: Int[Array, "B S"] | None = None,
        target_segments: Int[Array, "B T"] | None = None,
        *,
        train: bool,
    ) -> Float[Array, "B T V"]:
        """Logits of each target position, given the target before it; float32.

        Args:
          source, target: pieces, each sentence closed by the end symbol; 0 is padding.
          source_segments, target_segments: where a row holds several pairs, which of them each
            piece belongs to, counted from 1; 0 is padding. None is a pair a row.
          train: whether dropout is on.
        """
        source_ids, target_ids = (
            pieces != 0 if ids is None else ids
            for pieces, ids in ((source, source_segments), (target, target_segments))
        )
        memory = self.encode(source, source_ids, train=train)
        return self.decode(memory, source_ids, target, target_ids, train=train)

    def encode(
        self,
        source: Int[Array, "B S"],
        ids: Bool[Array, "B S"] | Int[Array, "B S"] | None = None,
        *,
        train: bool,
    ) -> Float[Array, "B S D"]:
        """The source's representation; garbage where it is padding.

        Args:
          source: pieces.
          ids: which of them are not padding (if None, those that are not 0), or each one's segment.
          train: whether dropout is on.
        """
        ids = source != 0 if ids is None else ids
        x = self._encoder_input(source, ids, train=train)
        x = self.encoder(x, encoder_spans(self.config, segments(ids, ids)), train=train)
        return self.encoder_norm(x) if self.config.norm == "pre" else x

    def encoder_weights(self, source: Int[Array, "B S"]) -> list[Float[Array, "B H S N S"]]:
        """Each encoder layer's attention weights; N is 1 where heads see only themselves."""
        ids = source != 0
        spans = encoder_spans(self.config, segments(ids, ids))
        return self.encoder.inspect("weights", self._encoder_input(source, ids, train=False), spans)

    def decode(
        self,
        memory: Float[Array, "B S D"],
        source_ids: Bool[Array, "B S"] | Int[Array, "B S"],
        target: Int[Array, "B T"],
        target_ids: Bool[Array, "B T"] | Int[Array, "B T"],
        *,
        train: bool,
    ) -> Float[Array, "B T V"]:
        """Logits of every target position at once (teacher forcing)."""
        embedded = self._embed(self.target_embedding, target)
        x = jnp.pad(embedded[:, :-1], ((0, 0), (1, 0), (0, 0)))
        positions = _positions(target_ids)
        x = jnp.where(positions[..., None] == 0, 0, x)  # each sentence's first input is zeros
        x = self.dropout(x + self._position_encodings(positions, x.shape[1]), train=train)
        if target_ids.dtype == bool:
            # No target padding in the masks: under the causal one it can reach no valid position.
            masks = causal(), padding(source_ids)
        else:
            masks = causal() & segments(target_ids, target_ids), segments(target_ids, source_ids)
        x = self.decoder(x, [(self.config.decoder_layers, (memory, *masks))], train=train)
        return self._logits(x)

    def start(
        self, memory: Float[Array, "B S D"], steps: int, hypotheses: int
    ) -> tuple[Cache, KeysValues]:
        """An empty cache, and the source as each decoder layer's attention sees it."""
        config = self.config
        head = (config.num_heads, config.dim // config.num_heads)
        shape = (config.decoder_layers, memory.shape[0], steps, hypotheses, *head)
        empty = jnp.zeros(shape, self.dtype)
        return Cache(empty, empty), self.decoder.each("keys_values", memory)

    def step(
        self,
        cache: Cache,
        memory: KeysValues,
        source_valid: Bool[Array, "B S"],
        previous: Int[Array, "B k"],
        now: Int[Array, ""],
        ancestry: Bool[Array, "B k steps*k"],
    ) -> tuple[Float[Array, "B k V"], Cache]:
        """Logits of position `now` for k hypotheses a sentence.

        Args:
          cache: of the positions before.
          memory, source_valid: the source for each layer, and which of it is not padding.
          previous: each hypothesis's last piece; disregarded at position 0.
          now: the position, from 0.
          ancestry: which (position, hypothesis) entries of the cache each hypothesis continues, its
            own at `now` included.
        """
        x = self._embed(self.target_embedding, previous) * (now > 0).astype(self.dtype)
        x = x + self._position_encodings(now[None, None], cache.keys.shape[2])
        x, cache = self.decoder.step(x, cache, memory, now, ancestry, padding(source_valid))
        return self._logits(x), cache

    def _encoder_input(self, source: Array, ids: Array, *, train: bool) -> Array:
        x = (
            self._embed(self.source_embedding, source)
            + self.source_bias.astype(self.dtype)[None, None]
        )
        encodings = self._position_encodings(_positions(ids), source.shape[1])
        return self.dropout(x + encodings, train=train)

    def _embedding(self, name: str, size: int) -> Float[Array, "V D"]:
        init = nn.initializers.normal(self.config.dim**-0.5)
        named = nn.with_logical_partitioning(init, ("vocab", "embed"))
        return self.param(name, named, (size, self.config.dim))

    def _embed(self, table: Float[Array, "V D"], pieces: Int[Array, "B T"]) -> Array:
        return table[pieces].astype(self.dtype) * self.config.dim**0.5

    def _position_encodings(self, positions: Int[Array, "b T"], length: int) -> Array:
        return jnp.asarray(sinusoids(length, self.config.dim), self.dtype)[positions]

    def _logits(self, x: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        if self.config.norm == "pre":
            x = self.decoder_norm(x)
        return (x @ self.output_embedding.astype(self.dtype).T).astype(jnp.float32)


def _positions(ids: Bool[Array, "B T"] | Int[Array, "B T"]) -> Int[Array, "b T"]:
    """Positions from 0 on, beginning anew with each segment."""
    positions = jnp.arange(ids.shape[1], dtype=jnp.int32)[None]
    if ids.dtype == bool:
        return positions
    begins = ids != jnp.pad(ids[:, :-1], ((0, 0), (1, 0)))
    return positions - jax.lax.cummax(jnp.where(begins, positions, 0), axis=1)
