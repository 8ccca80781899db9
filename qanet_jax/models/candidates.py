"""TriviaQA's two baselines (Joshi et al. 2017, section 5): a random candidate, and a classifier.

Ours: candidates are the longest runs of words that start with a capital or a digit, instead of
titles of Wikipedia's articles; the classifier is linear, instead of boosted trees. Its features
follow the authors' description: the candidate's frequency and position, the number of its words
that are in the question, the number of the question's words near it, and the question's words for
each kind of candidate, a name or a number.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from common_jax.fields import size
from common_jax.inputs import Annotations, WordInput
from common_jax.masks import MASKED
from common_jax.numerics import random_key
from qanet_jax.layers import Words
from qanet_jax.models.base import ReaderModel, WordsConfig

# Kinds of words; 0 is padding.
OTHER = 1
NAME = 2
NUMBER = 3
Summed = Callable[[Array], Array]


@dataclasses.dataclass(frozen=True)
class Kinds(WordInput):
    """Whether a word starts with a capital, a digit, or neither."""

    key: ClassVar[str] = "kinds"

    @property
    def width(self) -> int:
        return 1

    def encode(self, words: Sequence[str], annotations: Annotations) -> np.ndarray:
        kinds = [
            NAME if word[0].isupper() else NUMBER if word[0].isdigit() else OTHER for word in words
        ]
        return np.array(kinds, np.int32).reshape(-1, 1)


@dataclasses.dataclass(frozen=True)
class Candidates(ReaderModel):
    """A choice among the candidates of a context.

    Attributes:
      choice: "random", uniform over the candidates with a word that is not in the question; or by a
        trained "classifier".
      near: distance in words within which words of the question are counted.
    """

    choice: Literal["random", "classifier"] = "classifier"
    near: int = size(10)

    @property
    def inputs(self) -> tuple[WordInput, ...]:
        return (Kinds(),)

    def module(self, words: WordsConfig, dtype: Any) -> nn.Module:
        return CandidateScores(self, words)


class CandidateScores(nn.Module):
    """Logits of the answer's first and last word: a candidate's score at both its ends; at other
    words 0, or with random choice `MASKED`."""

    config: Candidates
    words: WordsConfig

    @nn.compact
    def __call__(
        self, context: Words, question: Words, *, train: bool
    ) -> tuple[Float[Array, "B N"], Float[Array, "B N"]]:
        # the candidates
        kinds = context.inputs["kinds"][..., 0]
        inside = kinds > OTHER
        starts = inside & ~_shifted(inside, 1)
        ends = inside & ~_shifted(inside, -1)
        candidate_sum = _runs(starts, inside)
        repeated = _shared(context, question)

        # their scores
        if self.config.choice == "random":
            possible = candidate_sum(inside & ~repeated) > 0
            scores = jnp.where(possible, 1.0 + _noise(context, question, starts), MASKED)
            elsewhere = MASKED
        else:
            scores = self._scores(context, question, kinds, candidate_sum, repeated)
            elsewhere = 0.0

        # at both ends
        logits = (jnp.where(edge, scores, elsewhere) for edge in (starts, ends))
        return tuple(jnp.where(context.valid, x, MASKED) for x in logits)

    def _scores(
        self, context: Words, question: Words, kinds: Array, candidate_sum: Summed, repeated: Array
    ) -> Float[Array, "B N"]:
        """The score of each word's candidate."""
        # position in the context
        words = context.valid.sum(axis=1, keepdims=True).astype(jnp.float32)
        position = jnp.arange(kinds.shape[1], dtype=jnp.float32)[None] / jnp.maximum(words, 1.0)

        # frequency of each word
        spelling = _spelling(context)
        equal = spelling[:, :, None] == spelling[:, None, :]
        often = jnp.log((equal & context.valid[:, None]).sum(axis=2).astype(jnp.float32) + 1.0)

        # the question's words near each word
        side = self.config.near
        near = jax.lax.reduce_window(  # jnp.convolve needs lengths that are not symbolic
            repeated.astype(jnp.float32),
            0.0,
            jax.lax.add,
            window_dimensions=(1, 2 * side + 1),
            window_strides=(1, 1),
            padding=((0, 0), (side, side)),
        )

        # means over a candidate's words
        size = jnp.maximum(candidate_sum(jnp.ones_like(repeated)), 1.0)
        features = (
            position,
            candidate_sum(often) / size,
            candidate_sum(repeated) / size,
            jnp.log1p(candidate_sum(near) / size),
        )

        # linear in them, and in the question's words for each kind of candidate
        scores = nn.Dense(1, name="features")(jnp.stack(features, axis=-1))[..., 0]
        by_kind = self._kind_scores(question)
        return scores + jnp.where(kinds == NUMBER, by_kind[:, 1:], by_kind[:, :1])

    def _kind_scores(self, question: Words) -> Float[Array, "B 2"]:
        """Scores of names and of numbers as answers, linear in the mean of the word vectors."""
        if question.vectors is None:
            vectors = nn.Embed(self.words.rows, self.words.dim, name="words")(question.ids)
        else:
            vectors = question.vectors
        valid = question.valid[..., None].astype(jnp.float32)
        mean = (vectors * valid).sum(axis=1) / jnp.maximum(valid.sum(axis=1), 1.0)
        return nn.Dense(2, use_bias=False, name="kinds")(mean)


def _shifted(x: Bool[Array, "B N"], by: int) -> Bool[Array, "B N"]:
    """The value of each word's left (by 1) or right (by -1) neighbour; False without one."""
    pad = ((0, 0), (1, 0)) if by > 0 else ((0, 0), (0, 1))
    padded = jnp.pad(x, pad)
    return padded[:, :-1] if by > 0 else padded[:, 1:]


def _runs(starts: Bool[Array, "B N"], inside: Bool[Array, "B N"]) -> Summed:
    """A function from values to their sums over each word's candidate, [B, N] to [B, N]."""
    number = jnp.where(inside, jnp.cumsum(starts, axis=1), 0)
    same = (number[:, :, None] == number[:, None, :]) & inside[:, None] & inside[..., None]
    weights = same.astype(jnp.float32)
    return lambda values: jnp.einsum("bts,bs->bt", weights, values.astype(jnp.float32))


def _shared(context: Words, question: Words) -> Bool[Array, "B N"]:
    """Whether each word of the context is in the question."""
    equal = _spelling(context)[:, :, None] == _spelling(question)[:, None, :]
    return (equal & question.valid[:, None]).any(axis=2) & context.valid


def _spelling(words: Words) -> Int[Array, "B T"]:
    """A hash of each word's characters, since all unknown words have the same id."""
    powers = np.cumprod(np.full(words.characters.shape[2], 31, np.int32), dtype=np.int32)
    return (words.characters * powers[None, None]).sum(axis=2)


def _noise(context: Words, question: Words, starts: Bool[Array, "B N"]) -> Float[Array, "B N"]:
    """Uniform random numbers in [0, 1), one for each candidate's words; seeded by the texts, hence
    the same in every run."""
    weights = jnp.arange(1, context.ids.shape[1] + 1)[None]
    seeds = (_spelling(context) * weights).sum(axis=1) + _spelling(question).sum(axis=1)
    number = jnp.cumsum(starts, axis=1)

    def draw(seed: Array, n: Array) -> Array:
        return jax.random.uniform(jax.random.fold_in(random_key(seed), n))

    return jax.vmap(jax.vmap(draw, (None, 0)))(seeds, number)
