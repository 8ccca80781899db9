"""QANet (Yu et al. 2018, section 2.2): five layers from two texts to two pointers.

Where the paper is silent or its readers differ, this is what the model does, and the config field
that does otherwise: three passes of the model encoder, `passes`; position encodings once at a
stack's input, `positions`; a convolution before the maximum over characters, `characters`; a
feed-forward layer as wide as the model, `feed_forward_factor`; no normalisation of a stack's
output, `final_norm`. Dropout is on each sub-layer's output and on the inputs of both encoders.
Self-attention and both softmaxes of context-query attention leave padding out, which the authors'
code does not.

Other choices of ours: the similarity starts as a scaled product (`layers.ContextQueryAttention`),
and trained vectors as large as GloVe's (`embedding_std`). A sub-layer is left out of the whole
batch at once, and never scaled. The warm-up starts at 1e-5, since an exponential one cannot start
at the paper's 0; gradients are clipped at norm 5, as in the authors' code, and the L2 term is added
to them (`optimizer.l2`) instead of to the loss that is shown.
"""

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from common_jax.layers import DROPOUT, Dropout, dense
from common_jax.masks import MASKED
from common_jax.scopes import part
from qanet_jax.config import ModelConfig
from qanet_jax.layers import ContextQueryAttention, Embedding, Encoder, Words


class QANet(nn.Module):
    """Where in a context the answer to a question starts and where it ends.

    Attributes:
      config: sizes and choices.
      dtype: of activations and products; parameters, softmaxes and logits are float32.
    """

    config: ModelConfig
    dtype: Any = jnp.float32

    def setup(self):
        config = self.config
        self.embedding = Embedding(config, self.dtype)
        self.project = dense(config.dim, ("embed", "mlp"), self.dtype)
        self.embedding_encoder = Encoder(
            config,
            config.embedding_blocks,
            config.embedding_convs,
            config.embedding_kernel,
            self.dtype,
        )
        self.attention = ContextQueryAttention(self.dtype)
        self.reduce = dense(config.dim, ("embed", "mlp"), self.dtype)
        self.model_encoder = Encoder(
            config, config.model_blocks, config.model_convs, config.model_kernel, self.dtype
        )
        pointer = lambda: nn.Dense(
            1, use_bias=False, dtype=jnp.float32, kernel_init=nn.initializers.xavier_uniform()
        )
        self.start, self.end = pointer(), pointer()
        self.dropout = Dropout(config.dropout)

    def __call__(
        self, context: Words, question: Words, *, train: bool
    ) -> tuple[Float[Array, "B N"], Float[Array, "B N"]]:
        """Logits of the answer's first and last word; very negative where there is no word."""
        with part("embedding"):
            c, q = (self._encode(words, train) for words in (context, question))
        with part("attention"):
            x = self.attention(c, q, context.valid, question.valid)
            x = self.dropout(self.reduce(x), train=train)
        with part("encoder"):
            *_, m0, m1, m2 = self._passes(x, context.valid, train)
        with part("pointers"):
            start = self.start(jnp.concatenate([m0, m1], axis=-1))[..., 0]
            end = self.end(jnp.concatenate([m0, m2], axis=-1))[..., 0]
            return tuple(jnp.where(context.valid, x, MASKED) for x in (start, end))

    def _encode(self, words: Words, train: bool) -> Float[Array, "B T D"]:
        """Embedding and embedding encoder, whose parameters both texts share."""
        x = self.project(self.embedding(words, train=train))
        return self.embedding_encoder(self.dropout(x, train=train), words.valid, train=train)

    def _passes(
        self, x: Float[Array, "B N D"], valid: Bool[Array, "B N"], train: bool
    ) -> Float[Array, "passes B N D"]:
        """The outputs of the model encoder run on its own output, each time."""

        def once(encoder: Encoder, x: Array, _: None) -> tuple[Array, Array]:
            x = encoder(x, valid, train=train)
            return x, x

        passes = nn.scan(
            once,
            variable_broadcast="params",
            split_rngs={"params": False, DROPOUT: True},
            length=self.config.passes,
        )
        return passes(self.model_encoder, x, None)[1]
