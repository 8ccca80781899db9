"""The Transformer encoder-decoder with CSAN in its lowest encoder layers.

The model of Vaswani et al. (2017). Unspecified in the CSAN paper and taken from its authors'
released code: pre-norm with a final layer normalisation in encoder and decoder, embeddings times
sqrt(d), a learned bias [D] added to the encoder's input, zeros instead of a start symbol as the
decoder's first input, no bias in the output layer. Post-norm is an option, without final
normalisation.

Our deviations: parameters are stacked over layers; `tie` and `norm` are options.
"""

import abc
import functools
import itertools
from collections.abc import Sequence
from typing import Any, SupportsInt

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from common_jax.attention.layers import MultiHeadAttention, ProjectedKV
from common_jax.layers import Dropout, FeedForward, LayerNorm, product, sinusoids
from common_jax.masks import Mask, padding, positions, segments
from common_jax.scopes import scope
from common_jax.sharding import gathered, spread
from common_jax.stack import Stack
from csan_jax.attention.base import EncoderAttention
from csan_jax.config import ModelConfig

# The projections of the source for each decoder layer, and False at its padding, [B, S].
SourceInputs = tuple[list[ProjectedKV], Array]


class _Layer(nn.Module):
    """Base of encoder and decoder layers: sub-layers with residual connections."""

    config: ModelConfig
    dtype: Any

    def setup(self):
        config = self.config
        self.feed_forward = FeedForward(config.mlp_dim, self.dtype, config.relu_dropout)
        self.feed_forward_norm = LayerNorm()
        self.self_attention = self._self_attention()
        self.self_attention_norm = LayerNorm()
        self.dropout = Dropout(config.dropout)

    @abc.abstractmethod
    def _self_attention(self) -> nn.Module:
        """The layer's self-attention, as configured."""

    def _residual(self, x: Array, norm: LayerNorm, sublayer: Any, train: bool) -> Array:
        """x + f(norm(x)), or norm(x + f(x)), with dropout on f's output."""
        if self.config.norm == "pre":
            return spread(x + self.dropout(sublayer(norm(x)), train=train))
        return norm(x + self.dropout(sublayer(x), train=train))

    def _feed_forward(self, x: Array, train: bool) -> Array:
        def feed_forward(y: Array) -> Array:
            return self.feed_forward(y, train=train)

        return self._residual(x, self.feed_forward_norm, feed_forward, train)


class EncoderLayer(_Layer):
    """Self-attention under a mask, then the feed-forward layer.

    Attributes:
      choice: the self-attention and the sub-layers before it.
    """

    choice: EncoderAttention

    def setup(self):
        super().setup()
        self.before = self.choice.before(self.config.attention_settings(self.dtype))

    def _self_attention(self) -> nn.Module:
        return self.choice.module(self.config.attention_settings(self.dtype))

    def __call__(
        self, x: Float[Array, "B T D"], mask: Mask, *, train: bool
    ) -> Float[Array, "B T D"]:
        x = self._prepared(x, mask, train=train)
        attend = functools.partial(self.self_attention, mask=mask, train=train)
        x = self._residual(x, self.self_attention_norm, attend, train)
        return self._feed_forward(x, train)

    def weights(self, x: Float[Array, "B T D"], mask: Mask) -> Float[Array, "B H T N T"]:
        """The attention weights, given the layer's input."""
        x = self._prepared(x, mask, train=False)
        y = self.self_attention_norm(x) if self.config.norm == "pre" else x
        return self.self_attention.weights(y, mask)

    def _prepared(self, x: Array, mask: Mask, *, train: bool) -> Array:
        return x if self.before is None else self.before(x, mask, train=train)


class DecoderLayer(_Layer):
    """Causal self-attention, attention to the source, then the feed-forward layer."""

    def setup(self):
        super().setup()
        settings = self.config.attention_settings(self.dtype)
        self.cross_attention = settings.layer(MultiHeadAttention, implementation="auto")
        self.cross_attention_norm = LayerNorm()

    def _self_attention(self) -> nn.Module:
        return self.config.decoder_attention.module(self.config.attention_settings(self.dtype))

    def __call__(
        self,
        x: Float[Array, "B T D"],
        memory: Float[Array, "B S D"],
        self_mask: Mask,
        cross_mask: Mask,
        *,
        train: bool,
    ) -> Float[Array, "B T D"]:
        attend = functools.partial(self.self_attention, mask=self_mask, train=train)
        x = self._residual(x, self.self_attention_norm, attend, train)
        attend_source = functools.partial(
            self.cross_attention, memory=memory, mask=cross_mask, train=train
        )
        x = self._residual(x, self.cross_attention_norm, attend_source, train)
        return self._feed_forward(x, train)

    def source(self, memory: Float[Array, "B S D"]) -> ProjectedKV:
        """Projected keys and values of the source, for `step`."""
        return self.cross_attention.project_kv(memory)

    def step(
        self,
        x: Float[Array, "B k D"],
        cache: Any,
        source: ProjectedKV,
        now: Int[Array, ""],
        ancestry: Bool[Array, "B k past"],
        source_valid: Bool[Array, "B S"],
    ) -> tuple[Float[Array, "B k D"], Any]:
        """Computes one position for k hypotheses of each sentence; also returns the new cache."""

        def attend(y: Array) -> Array:
            nonlocal cache
            y, cache = self.self_attention.step(y, cache, now, ancestry)
            return y

        def attend_source(y: Array) -> Array:
            return self.cross_attention.attend_cached(y, source, source_valid[:, None])

        x = self._residual(x, self.self_attention_norm, attend, train=False)
        x = self._residual(x, self.cross_attention_norm, attend_source, train=False)
        return self._feed_forward(x, train=False), cache


class Transformer(nn.Module):
    """The encoder-decoder.

    Attributes:
      config: the model's fields, with both vocabulary sizes set.
      dtype: of activations and matrix products; parameters are float32.
    """

    config: ModelConfig
    dtype: Any = jnp.float32

    def setup(self):
        config = self.config

        # embeddings
        self.target_embedding = self._embedding("target_embedding", config.target_vocab_size)
        self.source_embedding = self.target_embedding
        self.output_embedding = self.target_embedding
        if config.tie != "all":
            self.source_embedding = self._embedding("source_embedding", config.source_vocab_size)
        if config.tie == "none":
            self.output_embedding = self._embedding("output_embedding", config.target_vocab_size)
        self.source_bias = self.param("source_bias", nn.initializers.zeros, (config.dim,))

        # the encoder's lowest layers, if they have other parameters, and those above them
        stack = functools.partial(Stack, unroll=config.unroll, remat=config.remat)
        choice = config.encoder_attention
        below = choice.local_layers if choice.own_parameters else 0
        above = config.encoder_layers - below
        self.encoder_local = stack(self._encoder_layer(choice), below) if below else None
        self.encoder = stack(self._encoder_layer(EncoderAttention()), above) if above else None

        # the decoder, and what follows each stack
        layer = functools.partial(DecoderLayer, config, self.dtype, parent=None)
        self.decoder = stack(layer, config.decoder_layers)
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
        """Logits of each target position, given the previous target pieces; float32.

        Args:
          source, target: pieces, each sentence ending with the end symbol; 0 is padding.
          source_segments, target_segments: for rows with several pairs, each piece's pair, counted
            from 1; 0 is padding. None for one pair in each row.
          train: whether dropout is on.
        """
        source_ids = source != 0 if source_segments is None else source_segments
        target_ids = target != 0 if target_segments is None else target_segments
        memory = self.encode(source, source_ids, train=train)
        return self.decode(memory, source_ids, target, target_ids, train=train)

    def encode(
        self,
        source: Int[Array, "B S"],
        ids: Bool[Array, "B S"] | Int[Array, "B S"] | None = None,
        *,
        train: bool,
    ) -> Float[Array, "B S D"]:
        """The encoder's output; undefined at padding.

        Args:
          source: pieces.
          ids: True at pieces that are not padding, or each piece's segment; None is `source != 0`.
          train: whether dropout is on.
        """
        ids = source != 0 if ids is None else ids
        with scope("embeddings"):
            x = self._encoder_input(source, ids, train=train)
        with scope("encoder"):
            for stack, spans in self._encoder_stacks(ids):
                x = stack(x, spans, train=train)
            return self.encoder_norm(x) if self.config.norm == "pre" else x

    def encoder_weights(self, source: Int[Array, "B S"]) -> list[Float[Array, "B H S _ S"]]:
        """Each encoder layer's attention weights; the fourth dim is the head window, or 1 if heads
        do not attend to others."""
        ids = source != 0
        x = self._encoder_input(source, ids, train=False)
        weights = []
        for stack, spans in self._encoder_stacks(ids):
            weights += stack.inspect("weights", x, spans)
            x = stack(x, spans, train=False)
        return weights

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
        # the previous pieces
        with scope("embeddings"):
            embedded = self._embed(self.target_embedding, target)
            x = jnp.pad(embedded[:, :-1], ((0, 0), (1, 0), (0, 0)))
            indices = positions(target_ids, x.shape[1])
            x = jnp.where(indices[..., None] == 0, 0, x)  # each sentence's first input is zeros
            x = self.dropout(x + self._position_encodings(indices, x.shape[1]), train=train)

        # the masks of both attentions
        past = self.config.decoder_attention.mask()
        if target_ids.dtype == bool:
            # target padding needs no mask: under the causal one it reaches no valid position
            masks = (past, padding(source_ids))
        else:
            masks = (past & segments(target_ids, target_ids), segments(target_ids, source_ids))

        with scope("decoder"):
            x = self.decoder(x, [(self.config.decoder_layers, (memory, *masks))], train=train)
        return self._logits(x)

    def start(
        self,
        memory: Float[Array, "B S D"],
        source_valid: Bool[Array, "B S"],
        steps: Any,
        hypotheses: int,
    ) -> tuple[list[Any], SourceInputs, list[Any]]:
        """The first inputs of `step`: each decoder layer's empty cache, projected source, and
        parameters.

        Args:
          steps: capacity of the caches, in positions.
          hypotheses: k.
        """
        attention = self.config.decoder_attention
        settings = self.config.attention_settings(self.dtype)
        caches = [
            attention.cache(settings, memory.shape[0], steps, hypotheses)
            for _ in range(self.config.decoder_layers)
        ]
        layers, projected = self.decoder.start("source", memory)
        return caches, (projected, source_valid), layers

    def step(
        self,
        caches: list[Any],
        source: SourceInputs,
        layers: list[Any],
        previous: Int[Array, "B k"],
        now: Int[Array, ""],
        ancestry: Bool[Array, "B k past"],
    ) -> tuple[Float[Array, "B k V"], list[Any]]:
        """Logits of position `now` for k hypotheses of each sentence; also returns the new caches.

        Args:
          caches: each layer's cache of the previous positions.
          source, layers: the other results of `start`.
          previous: each hypothesis's last piece; ignored at position 0.
          now: the position, from 0.
          ancestry: True at the (position, hypothesis) entries of the cache that each hypothesis
            continues, including its own at `now`.
        """
        # the previous pieces, zeros at position 0
        x = self._embed(self.target_embedding, previous) * (now > 0).astype(self.dtype)
        steps = ancestry.shape[2] // previous.shape[1]
        x = x + self._position_encodings(now[None, None], steps)

        # the decoder
        projected, source_valid = source
        x, caches = self.decoder.step(x, caches, layers, projected, now, ancestry, source_valid)
        return self._logits(x), caches

    def _encoder_input(self, source: Array, ids: Array, *, train: bool) -> Array:
        bias = self.source_bias.astype(self.dtype)[None, None]
        x = self._embed(self.source_embedding, source) + bias
        encodings = self._position_encodings(positions(ids, source.shape[1]), source.shape[1])
        return self.dropout(x + encodings, train=train)

    def _encoder_layer(self, choice: EncoderAttention) -> Any:
        return functools.partial(EncoderLayer, self.config, self.dtype, choice, parent=None)

    def _encoder_stacks(self, ids: Array) -> list[tuple[Stack, list[tuple[int, tuple[Mask]]]]]:
        """The encoder's stacks, lowest first, with the `spans` of their layers' masks."""
        config = self.config
        masks = config.encoder_attention.layer_masks(segments(ids, ids), config.encoder_layers)
        below = 0 if self.encoder_local is None else self.encoder_local.length
        stacks = (self.encoder_local, masks[:below]), (self.encoder, masks[below:])
        return [(stack, _spans(masks)) for stack, masks in stacks if stack is not None]

    def _embedding(self, name: str, size: int) -> Float[Array, "V D"]:
        init = nn.initializers.normal(self.config.dim**-0.5)
        named = nn.with_logical_partitioning(init, ("vocab", "embed"))
        return self.param(name, named, (size, self.config.dim))

    def _embed(self, table: Float[Array, "V D"], pieces: Int[Array, "B T"]) -> Array:
        rows = gathered(table, "vocab", "embed")[pieces]
        return spread(rows.astype(self.dtype)) * self.config.dim**0.5

    def _position_encodings(
        self, positions: Int[Array, "b T"], length: SupportsInt
    ) -> Float[Array, "b T D"] | float:
        if not self.config.sinusoids:
            return 0.0
        return jnp.asarray(sinusoids(length, self.config.dim), self.dtype)[positions]

    def _logits(self, x: Float[Array, "B T D"]) -> Float[Array, "B T V"]:
        with scope("vocabulary"):
            x = self.decoder_norm(x) if self.config.norm == "pre" else x
            logits = product(x, self.output_embedding.T, ("embed", "vocab"))
            return spread(logits, "vocab").astype(jnp.float32)


def _spans(masks: Sequence[Mask]) -> list[tuple[int, tuple[Mask]]]:
    """The `spans` of `Stack`: runs of layers with the same mask."""
    groups = (list(group) for _, group in itertools.groupby(masks, id))
    return [(len(group), (group[0],)) for group in groups]
