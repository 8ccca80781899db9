"""AttentiveConvNet (Yin & Schütze 2017): from one or two texts to the logits of labels.

The seven layers of section 4's common setup: embedding, attentive convolution, max-pooling,
composition ([r_x, r_y, r_x * r_y] for two texts, r_x for one), two hidden layers, and a logistic
regression over the outputs of the last three.

Unspecified in the paper: the gates of Eq. 9 need a convolution as wide as its input, hence the
hidden size is that of attentive convolution and head only. Source and focus share f_mgran's
parameters if they are of one kind. "Advanced & intra" adds one more term to Eq. 6: W3 times the
context from the text itself. The hidden layers are leaky ReLUs of slope 0.02, as in the authors'
code. Words without a vector in the file are initialized with the standard deviation of those with
one, since attention would ignore shorter vectors; without a file, with the authors' variance of
0.01. Of the defects of their code that change results (no mask in the softmax, statistics of a test
batch, model selection on the test set) only the first is available, as `unmasked_softmax`.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from attconv_jax.layers import Energy, FeatureMap, Features, Head, max_pooled
from attconv_jax.models.base import (
    AttendingModule,
    AttentionMap,
    Explained,
    Logits,
    PairModel,
    Text,
    network_of,
)
from attconv_jax.models.word_count import WordCounts, word_shares
from common_jax.convolution import Convolution
from common_jax.fields import odd, positive, rate, require, size
from common_jax.inputs import Input
from common_jax.layers import Dense, Dropout
from common_jax.masks import masked_softmax, padding
from common_jax.pieces import map_pieces
from common_jax.scopes import scope

_WEIGHTS = 2**24  # attention weights computed at once outside training, 64 MiB


@dataclasses.dataclass(frozen=True)
class AttentiveConvolution(PairModel):
    """The model of sections 3 and 4; by default the advanced one for two texts.

    Attributes:
      dim: the hidden size, of attentive convolutions and of the head.
      layers: number of stacked attentive convolutions.
      filter_width: of attentive convolution (Eq. 5), in words.
      attention: "inter" attends to the other text, "intra" to the text itself, "both" to both (the
        paper's "advanced & intra").
      symmetric: whether both texts attend to each other, or only the first to the second.
      source, focus, beneficiary: feature maps of attention (section 3.2): "states" are the states
        (the light model uses them for all three), "unigram" and "phrase" gated convolutions of one
        and of `phrase_width` words, "multigranular" both. Table 4's "w/o tri-hidden" has "unigram"
        as source and focus, and "w/o uni-hidden" has "phrase".
      phrase_width: words of a phrase.
      gate: whether the convolutions of these maps are gated (Eq. 9; Table 4's "w/o gate").
      energy: "dot" (Eq. 1), "bilinear" (Eq. 2) or "additive" (Eq. 3).
      tanh_gain: factor on the argument of Eq. 6's tanh; 1 in the paper, which saturates the maximum
        over many words.
      unmasked_softmax: no mask in the softmax, as in the authors' code: padding up to
        `author_length` words has energies of 0, hence a share of the weights.
      author_length: words to which the authors pad a text (SNLI 70, Yelp 180).
      shared_words: whether the logistic regression also reads the share of each text's words that
        are in the other, as in the authors' code for answer selection.
      dropout: rate on the inputs of each layer: words, pooled texts and hidden layers.
    """

    dim: int = size(300)
    layers: int = size(1)
    filter_width: int = odd(3)
    attention: Literal["inter", "intra", "both"] = "inter"
    symmetric: bool = True
    source: Features = "multigranular"
    focus: Features = "multigranular"
    beneficiary: Features = "unigram"
    phrase_width: int = odd(3)
    gate: bool = True
    energy: Literal["dot", "bilinear", "additive"] = "dot"
    tanh_gain: float = positive(1.0)
    unmasked_softmax: bool = False
    author_length: int = size(70)
    shared_words: bool = False
    dropout: float = rate(0.1)

    def __post_init__(self):
        super().__post_init__()
        wide = [features == "multigranular" for features in (self.source, self.focus)]
        require(
            self.energy != "dot" or wide[0] == wide[1],
            f"model.energy=dot: model.source={self.source} and model.focus={self.focus} must be "
            "equally wide; use bilinear or additive",
        )

    def unused(self) -> dict[str, str]:
        """Fields without effect given the others, each with the setting that gives it one."""
        maps = {self.source, self.focus, self.beneficiary}
        unused = {}
        if maps == {"states"}:
            unused["gate"] = "model.beneficiary=unigram"
        if not maps & {"phrase", "multigranular"}:
            unused["phrase_width"] = "model.beneficiary=phrase"
        if not self.unmasked_softmax:
            unused["author_length"] = "model.unmasked_softmax=True"
        return unused

    @property
    def contexts(self) -> tuple[str, ...]:
        """The kinds of attention."""
        return ("inter", "intra") if self.attention == "both" else (self.attention,)

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (WordCounts(),) if self.shared_words else ()

    def require_texts(self, texts: int) -> None:
        require(texts == 2 or not self.shared_words, "model.shared_words: needs two texts")
        require(
            texts == 2 or self.attention == "intra",
            f"model.attention={self.attention}: a single text can only attend to itself: intra",
        )


class AttentionInputs(NamedTuple):
    """The feature maps of a text for attention."""

    source: Float[Array, "B T F"]
    focus: Float[Array, "B T G"]
    beneficiary: Float[Array, "B T D"]


class AttentiveConvolutionLayer(nn.Module):
    """One layer over a text, or over two that attend to each other (Eq. 4-6, Figure 1).

    h_i = tanh(W1 [f_{i-1}, f_i, f_{i+1}] + W2 c_i + b): f is the beneficiary's map, and c_i the sum
    of the focus's map weighted by the softmax of the energies between the source's word i and each
    word of the focus. Attention "both" adds W3 c'_i, with the text itself as context. Two texts
    share the parameters (section 4.1, "Siamese").
    """

    config: AttentiveConvolution
    dtype: Any

    def setup(self):
        config = self.config

        # feature maps; shared if both are of one kind, as f_mgran in the paper's equations
        self.source = self._feature_map(config.source)
        shared = config.focus == config.source
        self.focus = self.source if shared else self._feature_map(config.focus)
        self.beneficiary = self._feature_map(config.beneficiary)

        # W1 and b, the energies, and W2 (and W3)
        self.convolution = Convolution(config.dim, config.filter_width, self.dtype)
        self.energy = Energy(config.energy, self.dtype)
        self.context = {
            attention_type: Dense(config.dim, ("embed", "mlp"), self.dtype, use_bias=False)
            for attention_type in config.contexts
        }

    def _feature_map(self, kind: Features) -> FeatureMap:
        return FeatureMap(kind, self.config.phrase_width, self.config.gate, self.dtype)

    def __call__(
        self,
        states: Sequence[Float[Array, "B _ D"]],
        valid: Sequence[Bool[Array, "B _"]],
        return_weights: bool = True,
    ) -> tuple[list[Float[Array, "B _ H"]], list[AttentionMap]]:
        """The new states of each text, zeros at padding; and the attention weights.

        Args:
          return_weights: without, the list is empty, and the attention of long texts is computed
            for some words at a time.
        """
        maps = [self._maps(*text) for text in zip(states, valid, strict=True)]
        above = []
        attended = []
        for text, (source, _, beneficiary) in enumerate(maps):
            # Eq. 6's W1 [f_{i-1}, f_i, f_{i+1}] + b
            total = self.convolution(beneficiary)

            # W2 c_i, and W3 c'_i
            for attention_type, context in self._contexts(text, len(maps)):
                arrays = (source, maps[context].focus, valid[text], valid[context])
                if return_weights:
                    contexts, weights = self._attended(*arrays)
                    attended.append(AttentionMap(text, context, weights))
                else:
                    contexts = self._attended_unless_long(*arrays)
                total = total + self.context[attention_type](contexts)

            states_above = jnp.tanh(self.config.tanh_gain * total)
            above.append(jnp.where(valid[text][..., None], states_above, 0))
        return above, attended

    def _maps(self, states: Array, valid: Array) -> AttentionInputs:
        return AttentionInputs(
            *(f(states, valid) for f in (self.source, self.focus, self.beneficiary))
        )

    def _contexts(self, text: int, texts: int) -> Iterator[tuple[str, int]]:
        """The kinds of attention of a text, each with the index of the text attended to."""
        for attention_type in self.config.contexts:
            if attention_type == "intra":
                yield attention_type, text
            elif texts == 2 and (text == 0 or self.config.symmetric):
                yield attention_type, 1 - text

    def _attended(
        self, source: Array, focus: Array, source_valid: Array, focus_valid: Array
    ) -> tuple[Float[Array, "B T G"], Float[Array, "B T S"]]:
        """The context of each word, and the attention weights."""
        weights = self._weights(source, focus, source_valid, focus_valid)
        return jnp.einsum("bts,bsf->btf", weights.astype(self.dtype), focus), weights

    def _attended_unless_long(
        self,
        source: Float[Array, "B T F"],
        focus: Float[Array, "B S G"],
        source_valid: Bool[Array, "B T"],
        focus_valid: Bool[Array, "B S"],
    ) -> Float[Array, "B T G"]:
        """The contexts of `_attended`; of long texts without an array [B, T, S]."""

        def contexts(source: Array, source_valid: Array) -> Array:
            return self._attended(source, focus, source_valid, focus_valid)[0]

        # additive energies are in pieces by themselves; symbolic lengths cannot be divided
        words = source.shape[0] * focus.shape[1]
        weights = words * source.shape[1]
        is_long = isinstance(weights, int) and weights > _WEIGHTS
        if not is_long or self.config.energy != "dot":
            return contexts(source, source_valid)
        return map_pieces(contexts, (source, source_valid), 1, max(1, _WEIGHTS // words))

    def _weights(
        self,
        source: Float[Array, "B T F"],
        focus: Float[Array, "B S G"],
        source_valid: Bool[Array, "B T"],
        focus_valid: Bool[Array, "B S"],
    ) -> Float[Array, "B T S"]:
        """Softmax of the energies over the words of the focus (Eq. 4), zeros at padding."""
        mask = padding(focus_valid, source_valid)
        allowed = mask.allowed(source.shape[1], focus.shape[1], 1)[:, 0]
        energies = self.energy(source, focus)
        if not self.config.unmasked_softmax:
            return masked_softmax(energies, allowed)

        # the padding, with energies of 0, as one more word with its total weight
        pads = jnp.maximum(self.config.author_length - focus_valid.sum(axis=1), 0)
        share = jnp.broadcast_to(
            jnp.log(pads.astype(jnp.float32))[:, None, None], (*energies.shape[:2], 1)
        )
        energies = jnp.concatenate([energies, share], axis=-1)
        allowed = jnp.concatenate([allowed, (share > -jnp.inf) & source_valid[..., None]], axis=-1)
        return masked_softmax(energies, allowed)[..., :-1]


@network_of(AttentiveConvolution)
class AttentiveConvNet(AttendingModule):
    """Attentive convolutions, max-pooling and the head."""

    config: AttentiveConvolution

    def setup(self):
        config = self.config
        self.layers = [AttentiveConvolutionLayer(config, self.dtype) for _ in range(config.layers)]
        self.dropout = Dropout(config.dropout)
        self.head = Head(config.dim, self.labels, self.dropout, self.dtype)

    def __call__(self, texts: Sequence[Text], *, train: bool) -> Logits:
        # the backward pass needs the weights of all words
        return self._forward(texts, train, return_weights=train)[0]

    def _forward(
        self, texts: Sequence[Text], train: bool, return_weights: bool = True
    ) -> Explained:
        states = [text.words for text in texts]
        valid = [text.valid for text in texts]

        # attentive convolutions
        maps = []
        with scope("attention"):
            for layer in self.layers:
                states = [self.dropout(x, train=train) for x in states]
                states, attended = layer(states, valid, return_weights)
                maps.append(attended)

        # pooling, without dropout: it would take the maximum over few words, scaled up; the head
        pooled = list(map(max_pooled, states, valid))
        further = [word_shares(texts)] if self.config.shared_words else []
        return self.head(pooled, train=train, further=further), maps
