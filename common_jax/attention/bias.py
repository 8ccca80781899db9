"""Terms of attention that depend on positions or queries, as structure and not as an array."""

import abc
from typing import ClassVar

from jaxtyping import Array, Float, Int


class Bias(abc.ABC):
    """What attention adds to its scaled scores, in float32, before the mask and the softmax; a
    subclass may change the weights after the softmax, and the result, too.

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
      relative: whether it depends on key_position - query_position alone, and has no `values`; then
        the banded attention computes it for one block of queries, which serves all.
    """

    relative: ClassVar[bool] = False

    @abc.abstractmethod
    def at(
        self, query_positions: Int[Array, "T"], key_positions: Int[Array, "S"]
    ) -> Float[Array, "b h T S"]:
        """The bias, float32, with b in {1, B} and h in {1, H}.

        Args:
          query_positions, key_positions: places in the row, from 0; those in a segment of a packed
            row are the mask's (`Mask.query_positions`). A relative bias must also accept places
            beyond the row's ends, whose keys are masked.
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
        """What is added to each query's weighted mean of values, linear in its weights."""
        return None
