"""AttentiveConvNet (Yin & Schütze 2017): from one text or two to the scores of labels.

The seven layers of section 4's common setup: embedding, attentive convolution, max-pooling,
composition ([r_x, r_y, r_x * r_y] for two texts, r_x for one), two hidden layers, and a logistic
regression over the outputs of the last three.

Where the paper is silent, this is what the model does. The gates of Eq. 9 need a convolution as
wide as its input, so that the hidden size is that of attentive convolution and head alone. Source
and focus share f_mgran's parameters where they are of one kind (`layers.AttentiveConvolution`).
"Advanced & intra", which is defined nowhere, adds one more term to Eq. 6: W3 times the context that
the text is for itself. The hidden layers are leaky ReLUs of slope 0.02, as in the authors' code.
Words that a file of vectors lacks are drawn as widely spread as those that it has, since attention
would not see shorter ones; without a file, with the authors' variance of 0.01. The three defects of
their code that change results (no mask in the softmax, statistics of a test batch, the choice of a
model on the test set) are not here, but for the first where `author_compat` asks for it.
"""

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from attconv_jax.config import ModelConfig
from attconv_jax.layers import Attended, AttentiveConvolution
from common_jax.layers import Dropout, dense
from common_jax.masks import MASKED
from common_jax.scopes import part

SLOPE = 0.02  # of the hidden layers' leaky ReLUs
SPREAD = 0.1  # standard deviation of words' vectors where there is no file


class AttentiveConvNet(nn.Module):
    """Scores of `labels` labels for texts, or for pairs of texts.

    Attributes:
      config: sizes and choices.
      labels: how many labels there are.
      dtype: of activations and products; parameters, softmaxes and scores are float32.
    """

    config: ModelConfig
    labels: int
    dtype: Any = jnp.float32

    def setup(self):
        config = self.config
        normal = nn.with_logical_partitioning(nn.initializers.normal(SPREAD), ("vocab", "embed"))
        self.words = self.param("words", normal, (config.word_rows, config.word_dim))
        self.layers = [AttentiveConvolution(config, self.dtype) for _ in range(config.layers)]
        hidden = lambda: dense(config.dim, ("embed", "mlp"), self.dtype)
        self.hidden = [hidden(), hidden()]
        self.regression = dense(self.labels, ("mlp", "labels"), jnp.float32)
        self.dropout = Dropout(config.dropout)

    def __call__(
        self, texts: Sequence[Int[Array, "B T"]], *, train: bool
    ) -> Float[Array, "B labels"]:
        """Logits, from the numbers of the words of each text; 0 is padding."""
        return self._judge(texts, train)[0]

    def explain(
        self, texts: Sequence[Int[Array, "B T"]]
    ) -> tuple[Float[Array, "B labels"], list[list[Attended]]]:
        """Logits, and who attended to whom in each layer, lowest first."""
        return self._judge(texts, train=False)

    def _judge(self, texts: Sequence[Array], train: bool) -> tuple[Array, list[list[Attended]]]:
        valid, seen = [ids != 0 for ids in texts], []
        with part("embedding"):
            states = [self._embed(ids) for ids in texts]
        with part("attention"):
            for layer in self.layers:
                states = [self.dropout(x, train=train) for x in states]
                states, attended = layer(states, valid)
                seen.append(attended)
        with part("head"):
            # dropout comes behind the pooling: before it, the largest would be of few words, scaled
            pooled = [
                self.dropout(_most(x, v), train=train) for x, v in zip(states, valid, strict=True)
            ]
            return self._head(pooled, train), seen

    def _embed(self, ids: Int[Array, "B T"]) -> Float[Array, "B T D"]:
        vectors = jnp.take(self.words, ids, axis=0).astype(self.dtype)
        return jnp.where((ids != 0)[..., None], vectors, 0)

    def _head(self, pooled: Sequence[Float[Array, "B H"]], train: bool) -> Array:
        """Composition, hidden layers and logistic regression."""
        product = [pooled[0] * pooled[1]] if len(pooled) == 2 else []
        outputs = [jnp.concatenate([*pooled, *product], axis=-1)]
        for hidden in self.hidden:
            above = nn.leaky_relu(hidden(outputs[-1]), SLOPE)
            outputs.append(self.dropout(above, train=train))
        return self.regression(jnp.concatenate(outputs, axis=-1).astype(jnp.float32))


def _most(states: Float[Array, "B T H"], valid: Bool[Array, "B T"]) -> Float[Array, "B H"]:
    """Max-pooling over the words; zeros for a text without one."""
    most = jnp.where(valid[..., None], states, jnp.asarray(MASKED, states.dtype)).max(axis=1)
    return jnp.where(valid.any(axis=1)[:, None], most, 0)
