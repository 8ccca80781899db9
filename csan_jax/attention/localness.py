"""LOCAL_SOFT, LOCAL_HARD and NEIGHBOR of Table 1: a Gaussian with predicted centre and width.

With t_i = tanh(W q_i + b), q_i the query before it is split into heads, and I the number of words
(Yang et al. 2018, Eq. 4-9; Luong et al. 2015, Eq. 9-10):

- centre P_i = (I - 1) sigmoid(U_p t_i + c_p), or the query's own position;
- window D_i = I sigmoid(U_d t_i + c_d) + 0.1, or a constant;
- bias_ij = -2 (j - P_i)^2 / D_i^2, added to the scores: a Gaussian of sigma D_i / 2.

LOCAL_SOFT predicts both, LOCAL_HARD the centre, NEIGHBOR the window. Luong et al. multiply the
weights by the Gaussian after the softmax, which is restricted to |j - P_i| <= D, and do not
normalise again.

As in the authors' released code, and not in the papers: the layer W is shared by the centre and the
window and is as wide as the local heads together, U_p and U_d give one number for each head, and
0.1 is added to D.
"""

import dataclasses
import math
from typing import Literal

import flax.linen as nn
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from common_jax.attention import Bias
from common_jax.attention.layers import SelfAttention
from common_jax.fields import require
from common_jax.layers import Dense
from common_jax.masks import MASKED, Mask
from common_jax.pytrees import pytree
from csan_jax.attention.base import AttentionSettings, EncoderAttention

LEAST = 0.1  # words
Form = Literal["additive", "luong"]


@pytree(static=("plain_heads", "form"))
class Gaussian(Bias):
    """A Gaussian in each of the first heads.

    Attributes:
      centre, window: P, a position in the row from 0, and D.
      plain_heads: number of the remaining heads, without a Gaussian.
      form: "additive" to the scores, or Luong et al.'s.
    """

    centre: Float[Array, "B h T"]
    window: Float[Array, "B h T"]
    plain_heads: int
    form: Form

    def at(
        self, query_positions: Int[Array, "T"], key_positions: Int[Array, "S"]
    ) -> Float[Array, "B H T S"]:
        if self.form == "additive":
            return self._with_others(self._exponent(key_positions), 0.0)
        far = jnp.abs(self._offset(key_positions)) > self.window[..., None]
        return self._with_others(jnp.where(far, MASKED, 0.0), 0.0)

    def factor(
        self, query_positions: Int[Array, "T"], key_positions: Int[Array, "S"]
    ) -> Float[Array, "B H T S"] | None:
        if self.form == "additive":
            return None
        return self._with_others(jnp.exp(self._exponent(key_positions)), 1.0)

    def _offset(self, key_positions: Array) -> Array:
        return key_positions.astype(jnp.float32)[None, None, None] - self.centre[..., None]

    def _exponent(self, key_positions: Array) -> Array:
        return -2 * (self._offset(key_positions) / self.window[..., None]) ** 2

    def _with_others(self, x: Array, value: float) -> Array:
        return jnp.pad(x, ((0, 0), (0, self.plain_heads), (0, 0), (0, 0)), constant_values=value)


@dataclasses.dataclass(frozen=True)
class Localness(EncoderAttention):
    """LOCAL_SOFT; LOCAL_HARD with a fixed window; NEIGHBOR with the query's own position as centre.

    Attributes:
      local_heads: number of the first heads with a Gaussian; 0 is plain self-attention.
      centre: whether P is predicted or the query's own position.
      window: whether D is predicted or fixed.
      width: D if `window` is fixed, in words; 10 in the released code.
      form: added to the scores, or Luong et al.'s product and cut.
    """

    local_heads: int = 4
    centre: Literal["predicted", "own"] = "predicted"
    window: Literal["predicted", "fixed"] = "predicted"
    width: float = 10.0
    form: Form = "additive"

    def check(self, settings: AttentionSettings) -> None:
        super().check(settings)
        prefix = "model.encoder_attention"
        require(
            0 <= self.local_heads <= settings.num_heads,
            f"{prefix}.local_heads={self.local_heads}: 0 to num_heads={settings.num_heads}",
        )
        least = 0.5 if self.form == "luong" else LEAST  # a word is within 0.5 of any centre
        require(
            least <= self.width < math.inf,
            f"{prefix}.width={self.width}: at least {least}, and finite",
        )
        require(
            self.form == "additive" or self.window == "fixed",
            f"{prefix}.form=luong: needs {prefix}.window=fixed",
        )

    @property
    def predicts(self) -> bool:
        """Whether the centre or the window is predicted."""
        return self.local_heads > 0 and "predicted" in (self.centre, self.window)

    def module(self, settings: AttentionSettings) -> "LocalAttention":
        return settings.layer(LocalAttention, choice=self)


class LocalAttention(SelfAttention):
    """Self-attention with a `Gaussian` bias."""

    choice: Localness = Localness()

    def setup(self):
        super().setup()
        choice = self.choice
        size = self.dim // self.num_heads
        if choice.predicts:
            width = choice.local_heads * size
            self.prediction = Dense(width, ("heads", "embed"), jnp.float32)
        if choice.centre == "predicted":
            self.centre = Dense(choice.local_heads, ("embed", "heads"), jnp.float32)
        if choice.window == "predicted":
            self.window = Dense(choice.local_heads, ("embed", "heads"), jnp.float32)

    def bias(self, query: Float[Array, "B T H K"], mask: Mask) -> Gaussian | None:
        """The Gaussian bias of these queries; None without local heads."""
        choice = self.choice
        batch, length = query.shape[:2]
        if not choice.local_heads:
            return None

        # t, P and D
        positions = mask.query_positions(length)
        words = mask.query_lengths(length).astype(jnp.float32)[..., None]
        hidden = None
        if choice.predicts:
            hidden = nn.tanh(self.prediction(query.reshape(batch, length, -1).astype(jnp.float32)))
        centres = self._centres(hidden, positions, words)
        windows = self._windows(hidden, words)

        # of each local head
        shape = (batch, length, choice.local_heads)
        centre, window = (
            jnp.moveaxis(jnp.broadcast_to(x, shape), 2, 1) for x in (centres, windows)
        )
        return Gaussian(centre, window, self.num_heads - choice.local_heads, choice.form)

    def _centres(
        self,
        hidden: Float[Array, "B T W"] | None,
        positions: Int[Array, "b T"],
        words: Float[Array, "c T 1"],
    ) -> Float[Array, "d T h"]:
        """P, in the row."""
        in_row = jnp.arange(positions.shape[1])[None]
        start = (in_row - positions).astype(jnp.float32)[..., None]
        if self.choice.centre == "own":
            return start + positions.astype(jnp.float32)[..., None]
        return start + (words - 1) * nn.sigmoid(self.centre(hidden))

    def _windows(
        self, hidden: Float[Array, "B T W"] | None, words: Float[Array, "c T 1"]
    ) -> Float[Array, "d t h"]:
        """D."""
        if self.choice.window == "fixed":
            return jnp.full((1, 1, 1), self.choice.width)
        return words * nn.sigmoid(self.window(hidden)) + LEAST
