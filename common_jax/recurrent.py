"""Recurrent layers over padded texts: LSTM, GRU, and both directions of either.

The product with the inputs is computed for all words at once, that with the state word by word.
Padding is at the end of a row: there the state does not change and the output is zero, in both
directions.
"""

from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from common_jax.layers import add_bias, einsum, product
from common_jax.sharding import gathered, platform, spread

_AXES = ("embed", "mlp")


class State(NamedTuple):
    """The state of a recurrent layer; the `cell` of a GRU is its `hidden`."""

    hidden: Float[Array, "B H"]
    cell: Float[Array, "B H"]


def kept(is_word: Bool[Array, "B"], new: Any, old: Any) -> Any:
    """The tree of arrays [B, ...] after a step of a loop over words: `new` where there is a word,
    `old`, a tree or a number, at padding."""

    def select(new: Array, old: Any) -> Array:
        return jnp.where(jnp.expand_dims(is_word, tuple(range(1, new.ndim))), new, old)

    if isinstance(old, int | float):
        return jax.tree.map(lambda new: select(new, old), new)
    return jax.tree.map(select, new, old)


class _Recurrent(nn.Module):
    """Base of LSTM and GRU. Parameters are created in `setup`, so that a loop can call the methods.

    Attributes:
      inputs: D, the size of a word's vector.
      size: H.
      dtype: of the products; states are float32.
      reverse: from the last word to the first.
    """

    inputs: int
    size: int
    dtype: Any
    reverse: bool = False

    gates = 0  # matrices concatenated in each parameter

    def setup(self):
        named = nn.with_logical_partitioning
        glorot = named(nn.initializers.xavier_uniform(), _AXES)
        orthogonal = named(nn.initializers.orthogonal(), _AXES)
        zeros = named(nn.initializers.zeros, _AXES[1:])
        wide = self.gates * self.size
        self.kernel = self.param("kernel", glorot, (self.inputs, wide))
        self.recurrent = self.param("recurrent", orthogonal, (self.size, wide))
        self.bias = self.param("bias", zeros, (wide,))

    def __call__(
        self,
        x: Float[Array, "B T D"],
        valid: Bool[Array, "B T"],
        initial: State | None = None,
    ) -> tuple[Float[Array, "B T H"], State]:
        """The hidden states of all words, float32, and the state after the last one.

        Args:
          initial: the state before the first word; zeros if None.
        """
        first = self.start(x) if initial is None else initial
        weights = self.weights()

        # a word, which changes the state unless it is padding
        def body(state: State, word: tuple[Array, Array]) -> tuple[State, Array]:
            projected, is_word = word
            new = self.step(state, projected, weights)
            hidden = jnp.where(is_word[:, None], new.hidden, 0)
            return kept(is_word, new, state), hidden

        # all words, in order
        words = jnp.swapaxes(self.project(x), 0, 1), jnp.swapaxes(valid, 0, 1)
        last, hidden = jax.lax.scan(body, first, words, reverse=self.reverse)
        return jnp.swapaxes(hidden, 0, 1), last

    def start(self, x: Float[Array, "B *rest"]) -> State:
        """The zero state for each row of x."""
        zeros = jnp.zeros((x.shape[0], self.size), jnp.float32)
        return State(zeros, zeros)

    def project(self, x: Float[Array, "*b D"]) -> Float[Array, "*b G"]:
        """The contribution of the words to the gates."""
        y = spread(product(x.astype(self.dtype), self.kernel, _AXES))
        return add_bias(y, self.bias).astype(jnp.float32)

    def weights(self) -> Float[Array, "H G"]:
        """The recurrent matrix for `step`; to be computed once before a loop."""
        return gathered(self.recurrent.astype(self.dtype), *_AXES)

    def step(
        self, state: State, projected: Float[Array, "B G"], weights: Float[Array, "H G"]
    ) -> State:
        """The state after the next word."""
        raise NotImplementedError

    def _product(self, hidden: Float[Array, "B H"], weights: Float[Array, "H G"]) -> Array:
        return einsum("bh,hg->bg", hidden.astype(self.dtype), weights)


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter & Schmidhuber 1997; Gers et al. 2000), without peepholes.

    With [i, f, g, o] = x W + h U + b:

        c' = sigmoid(f + forget_bias) c + sigmoid(i) tanh(g)
        h' = sigmoid(o) tanh(c')

    Computed by cuDNN in float32 on a GPU.
    """

    forget_bias: float = 1.0  # above 0 an untrained cell remembers

    gates = 4

    def __call__(
        self,
        x: Float[Array, "B T D"],
        valid: Bool[Array, "B T"],
        initial: State | None = None,
    ) -> tuple[Float[Array, "B T H"], State]:
        if platform() != "gpu" or self.is_initializing():
            return super().__call__(x, valid, initial)
        first = self.start(x) if initial is None else initial
        return _cudnn(x, valid, first, self.cudnn_weights(), self.size, self.reverse)

    def step(
        self,
        state: State,
        projected: Float[Array, "B G"],
        weights: Float[Array, "H G"],
        added: Float[Array, "B H"] | float = 0.0,
    ) -> State:
        """The state after the next word, with a term added to its cell."""
        gates = projected + self._product(state.hidden, weights)
        write, forget, new, read = jnp.split(gates, 4, axis=-1)
        cell = nn.sigmoid(forget + self.forget_bias) * state.cell
        cell = cell + nn.sigmoid(write) * jnp.tanh(new) + added
        return State(nn.sigmoid(read) * jnp.tanh(cell), cell)

    def cudnn_weights(self) -> Float[Array, "N"]:
        """The parameters in cuDNN's order: both matrices transposed, then two biases, the second
        of which is the forget bias."""
        forget = jnp.zeros((4, self.size)).at[1].set(self.forget_bias)
        arrays = self.kernel.T, self.recurrent.T, self.bias, forget
        return jnp.concatenate([array.reshape(-1) for array in arrays])


def _cudnn(
    x: Array, valid: Array, initial: State, weights: Array, size: int, reverse: bool
) -> tuple[Array, State]:
    """An LSTM by cuDNN, which supports neither empty texts nor the backward direction alone."""
    from jax.experimental.rnn import lstm

    # the layer, forward and of one word at least
    lengths = valid.sum(1, dtype=jnp.int32)
    ordered = flipped(x, lengths) if reverse else x
    hidden, last, cell = lstm(
        ordered.astype(jnp.float32),
        *(state[None] for state in initial),
        weights,
        jnp.maximum(lengths, 1),
        x.shape[-1],
        size,
        1,  # layer
        0.0,  # dropout
        False,  # not in both directions
    )

    # zeros at padding, and the initial state for empty texts
    hidden = flipped(hidden, lengths) if reverse else hidden
    ends = kept(lengths > 0, State(last[0], cell[0]), initial)
    return jnp.where(valid[..., None], hidden, 0), ends


def flipped(x: Float[Array, "B T D"], lengths: Int[Array, "B"]) -> Float[Array, "B T D"]:
    """Reverses each row's words; padding stays at the end."""
    positions = jnp.arange(x.shape[1])[None]
    order = jnp.where(positions < lengths[:, None], lengths[:, None] - 1 - positions, positions)
    return jnp.take_along_axis(x, order[..., None], axis=1)


class GRU(_Recurrent):
    """Gated recurrent unit (Cho et al. 2014), with the reset after the product, as cuDNN has it.

    With [r, z, n] = x W + b and [s, y, m] = h U:

        h' = (1 - u) tanh(n + sigmoid(r + s) m) + u h,  u = sigmoid(z + y)
    """

    gates = 3

    def step(
        self, state: State, projected: Float[Array, "B G"], weights: Float[Array, "H G"]
    ) -> State:
        """The state after the next word."""
        of_word = jnp.split(projected, 3, axis=-1)
        of_state = jnp.split(self._product(state.hidden, weights), 3, axis=-1)
        reset, update = (nn.sigmoid(a + b) for a, b in zip(of_word[:2], of_state[:2], strict=True))
        new = jnp.tanh(of_word[2] + reset * of_state[2])
        hidden = (1 - update) * new + update * state.hidden
        return State(hidden, hidden)


class Bidirectional(nn.Module):
    """Two recurrent layers, one in each direction.

    Attributes:
      kind: `LSTM` or `GRU`.
      inputs: D, the size of a word's vector.
      size: H, of each direction.
    """

    kind: type[_Recurrent]
    inputs: int
    size: int
    dtype: Any

    def setup(self):
        self.forward = self.kind(self.inputs, self.size, self.dtype)
        self.backward = self.kind(self.inputs, self.size, self.dtype, reverse=True)

    def __call__(
        self, x: Float[Array, "B T D"], valid: Bool[Array, "B T"]
    ) -> tuple[Float[Array, "B T E"], Float[Array, "B E"]]:
        """The hidden states of all words, and each direction's last one."""
        outputs = [layer(x, valid) for layer in (self.forward, self.backward)]
        states, last = zip(*outputs, strict=True)
        return jnp.concatenate(states, -1), jnp.concatenate([state.hidden for state in last], -1)
