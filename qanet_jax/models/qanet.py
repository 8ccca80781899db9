"""QANet (Yu et al. 2018, section 2.2): five layers from two texts to two pointers.

Unspecified or ambiguous in the paper, with the config field that selects alternatives: three passes
of the model encoder (`encoder_passes`); position encodings once, at a stack's input (`positions`);
a convolution before the maximum over characters (`char_pooling`); a feed-forward layer as wide as
the model (`feed_forward_factor`); normalisation of a stack's output, as in the authors' code
(`final_norm`; docs/results/qanet/probe). Dropout is on each sub-layer's output and on the inputs of
both encoders. Unlike in the authors' code, padding is excluded from self-attention and from both
softmaxes of context-query attention.

Ours: the similarity is initially a scaled product (`layers.ContextQueryAttention`), and trained
vectors are initially as large as GloVe's (`embedding_std`). A sub-layer is dropped for a complete
batch; outside training sub-layers are not scaled, unlike in the authors' code (`scale_sublayers`).
The warm-up starts at 1e-5, since an exponential one cannot start at the paper's 0. Gradients are
clipped at norm 5, as in the authors' code, and the L2 term is added to them (`optimizer.l2`)
instead of to the reported loss.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from common_jax.attention.layers import SelfAttention
from common_jax.convolution import convolution_class
from common_jax.dropout import drop, keep_mask
from common_jax.fields import odd, require, size
from common_jax.layers import DROPOUT, FeedForward, LayerNorm, sinusoids
from common_jax.masks import padding
from common_jax.sharding import spread
from common_jax.stack import Stack
from qanet_jax.models.five_layers import FiveLayers

SubLayer = Callable[[Float[Array, "B T D"]], Float[Array, "B T D"]]


@dataclasses.dataclass(frozen=True)
class QANet(FiveLayers):
    """The paper's reader, and the ablations of Table 5.

    Attributes:
      num_heads: number of heads of self-attention.
      embedding_blocks, embedding_convs, embedding_kernel: the embedding encoder's numbers of blocks
        and of convolutions in each, and their width.
      model_blocks, model_convs, model_kernel: those of the model encoder.
      positions: whether position encodings are added "once" to a stack's input, or at each "block".
      final_norm: whether each stack's output is normalised.
      feed_forward_factor: inner width of the feed-forward layer, divided by d.
      convolution: "separable", "ordinary", or "none" for no convolution in the encoders (Table 5).
      self_attention: whether the encoders have self-attention (Table 5).
      attention: the implementation of common_jax.attention; "dense" stores the weights of all heads
        for the backward pass.
      survival_prob: p_L, the probability that a training step uses the last sub-layer of a stack.
      scale_sublayers: multiplies each sub-layer's output by its survival rate outside training, as
        in the authors' code.
      remat: recomputes the blocks' activations in the backward pass: less memory, more time.
    """

    num_heads: int = size(8)
    embedding_blocks: int = size(1)
    embedding_convs: int = size(4)
    embedding_kernel: int = odd(7)
    model_blocks: int = size(7)
    model_convs: int = size(2)
    model_kernel: int = odd(5)
    positions: Literal["once", "block"] = "once"
    final_norm: bool = True
    feed_forward_factor: int = size(1)
    convolution: Literal["separable", "ordinary", "none"] = "separable"
    self_attention: bool = True
    attention: Literal["chunked", "dense"] = "chunked"
    survival_prob: float = 0.9
    scale_sublayers: bool = False
    remat: bool = False

    def __post_init__(self):
        super().__post_init__()
        require(
            self.dim % self.num_heads == 0,
            f"model.num_heads={self.num_heads}: must divide model.dim={self.dim}",
        )
        require(self.dim % 2 == 0, f"model.dim={self.dim}: must be even (sines and cosines)")
        require(
            0 < self.survival_prob <= 1,
            f"model.survival_prob={self.survival_prob}: a chance in (0, 1]",
        )

    def unused(self) -> dict[str, str]:
        unused = super().unused()
        if self.convolution == "none":
            fields = ("embedding_convs", "embedding_kernel", "model_convs", "model_kernel")
            unused |= dict.fromkeys(fields, "model.convolution=separable")
        if not self.self_attention:
            unused |= dict.fromkeys(("num_heads", "attention"), "model.self_attention=True")
        if self.survival_prob == 1:
            unused["scale_sublayers"] = "model.survival_prob=0.9"
        return unused

    def encoders(self, dtype: Any) -> tuple[nn.Module, nn.Module]:
        embedding = (self.embedding_blocks, self.embedding_convs, self.embedding_kernel)
        model = (self.model_blocks, self.model_convs, self.model_kernel)
        return Encoder(self, *embedding, dtype), Encoder(self, *model, dtype)


class EncoderBlock(nn.Module):
    """[convolution x # + self-attention + feed-forward] (Figure 1, right).

    Every sub-layer f is x + f(layernorm(x)), with dropout on f.

    Attributes:
      convs, kernel: number of convolutions, and their width.
    """

    config: QANet
    convs: int
    kernel: int
    dtype: Any

    @nn.compact
    def __call__(
        self,
        x: Float[Array, "B T D"],
        valid: Bool[Array, "B T"],
        positions: Float[Array, "T D"],
        weights: Float[Array, "S"] | None = None,
        *,
        train: bool,
    ) -> Float[Array, "B T D"]:
        """
        Args:
          x: the block's input.
          valid: False at padding, which does not change the output at words.
          positions: encodings, which the block adds with `positions="block"`.
          weights: factors on the outputs of the block's sub-layers, 0 for dropped ones; None is 1.
        """
        config = self.config
        sublayers = [*self._sublayers(valid, train)]
        if config.positions == "block":
            x = x + positions.astype(x.dtype)[None]

        # one draw of dropout for all sub-layers: draws take most of a block's compile time
        dropped = train and config.dropout > 0
        if dropped:
            shape = (len(x), len(sublayers), *x.shape[1:])
            keep = keep_mask(config.dropout, self.make_rng(DROPOUT), shape)

        # x + f(layernorm(x))
        for number, (name, sublayer) in enumerate(sublayers):
            y = sublayer(LayerNorm(name=f"{name}_norm")(x))
            if dropped:
                y = drop(y, config.dropout, keep[:, number])
            x = spread(x + (y if weights is None else y * weights[number].astype(y.dtype)))
        return x

    def _sublayers(self, valid: Array, train: bool) -> Iterator[tuple[str, SubLayer]]:
        """The block's sub-layers, with the names of their parameters."""
        config = self.config

        # convolutions
        def convolved(convolution: nn.Module, y: Array) -> Array:
            return nn.relu(convolution(jnp.where(valid[..., None], y, 0)))

        if config.convolution != "none":
            layer_class = convolution_class(config.convolution)
            for number in range(self.convs):
                name = f"convolution_{number}"
                convolution = layer_class(config.dim, self.kernel, self.dtype, name=name)
                yield name, functools.partial(convolved, convolution)

        # self-attention
        if config.self_attention:
            attention = SelfAttention(
                config.dim,
                config.num_heads,
                dtype=self.dtype,
                implementation=config.attention,
                name="self_attention",
            )
            yield "self_attention", lambda y: attention(y, padding(valid), train=train)

        # feed-forward layer
        size = config.feed_forward_factor * config.dim
        feed_forward = FeedForward(size, self.dtype, name="feed_forward")
        yield "feed_forward", lambda y: feed_forward(y, train=train)


class Encoder(nn.Module):
    """A stack of equal encoder blocks; "encoder layer" in the paper.

    In training, the l-th of a stack's L sub-layers is dropped with probability (1 - p_L) l / L
    (stochastic depth, Huang et al. 2016), with one draw for a batch.
    """

    config: QANet
    blocks: int
    convs: int
    kernel: int
    dtype: Any

    @nn.compact
    def __call__(
        self, x: Float[Array, "B T D"], valid: Bool[Array, "B T"], *, train: bool
    ) -> Float[Array, "B T D"]:
        config = self.config

        # position encodings, and the weights of stochastic depth
        positions = jnp.asarray(sinusoids(x.shape[1], config.dim))
        if config.positions == "once":
            x = x + positions.astype(x.dtype)[None]
        weighted = config.survival_prob < 1 and (train or config.scale_sublayers)
        sublayer_weights = (self._weights(train),) if weighted else ()

        # the blocks, whose parameters are beside the norm's
        block = functools.partial(
            EncoderBlock, config, self.convs, self.kernel, self.dtype, parent=None
        )
        stack = Stack(block, self.blocks, config.unroll, config.remat, params_name="blocks")
        nn.share_scope(self, stack)
        x = stack(x, [(self.blocks, (valid, positions))], train=train, stacked=sublayer_weights)
        return LayerNorm(name="norm")(x) if config.final_norm else x

    def _weights(self, train: bool) -> Float[Array, "L S"]:
        """The survival rates of each block's sub-layers; in training, draws of 0 or 1."""
        config = self.config
        sublayers = (config.convolution != "none") * self.convs + config.self_attention + 1
        depth = 1 + np.arange(self.blocks * sublayers).reshape(self.blocks, sublayers)
        rates = jnp.float32(1 - depth / depth.size * (1 - config.survival_prob))
        if not train:
            return rates
        return jax.random.bernoulli(self.make_rng(DROPOUT), rates).astype(jnp.float32)
