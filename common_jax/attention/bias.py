"""Interface of attention biases: terms of the scores that depend on positions or queries."""

import abc
from typing import ClassVar

from jaxtyping import Array, Float, Int


class Bias(abc.ABC):
    """A float32 term added to the scaled scores before the mask and the softmax. A subclass may
    also scale the weights after the softmax, and add to the result.

    A subclass is a frozen dataclass of arrays that is a pytree (`common_jax.pytrees`):

        @pytree()
        class Distance(Bias):
            slope: Float[Array, "H"]
            relative: ClassVar[bool] = True

            def at(self, query_positions, key_positions):
                distance = jnp.abs(key_positions[None] - query_positions[:, None])
                return -self.slope[None, :, None, None] * distance[None, None].astype(jnp.float32)

    Gradients reach its arrays. A query's bias is that of its own head for all heads of an area.

    Attributes:
      relative: whether it depends on key_position - query_position alone, and has no `values`;
        banded attention then computes it once for all blocks.
    """

    relative: ClassVar[bool] = False

    @abc.abstractmethod
    def at(
        self, query_positions: Int[Array, "T"], key_positions: Int[Array, "S"]
    ) -> Float[Array, "b h T S"]:
        """The bias, float32, with b in {1, B} and h in {1, H}.

        Args:
          query_positions, key_positions: in the row, from 0; for positions in the segments of a
            packed row see `Mask.query_positions`. A relative bias must also accept positions beyond
            the row's ends, whose keys are masked.
        """

    def factor(
        self, query_positions: Int[Array, "T"], key_positions: Int[Array, "S"]
    ) -> Float[Array, "b h T S"] | None:
        """Factors of the weights after the softmax, which are not normalised again; None is 1."""
        return None

    def values(
        self,
        weights: Float[Array, "B H T S"],
        query_positions: Int[Array, "T"],
        key_positions: Int[Array, "S"],
    ) -> Float[Array, "B H T V"] | None:
        """A term added to each query's weighted mean of values, linear in its weights, or None."""
        return None
