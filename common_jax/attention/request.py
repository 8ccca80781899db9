"""What is asked of attention, and the interface of the forms that compute it."""

import abc
import dataclasses

from jaxtyping import Array, Float, Key

from common_jax.attention.bias import Bias
from common_jax.masks import Mask


@dataclasses.dataclass(frozen=True)
class Request:
    """The arguments of `common_jax.attention.attention`, with a `scale`."""

    query: Float[Array, "B T H K"]
    key: Float[Array, "B S H K"]
    value: Float[Array, "B S H V"]
    mask: Mask
    bias: Bias | None
    scale: float
    dropout_rate: float
    dropout_key: Key[Array, ""] | None
    return_weights: bool


class Form(abc.ABC):
    """A way to compute attention."""

    @abc.abstractmethod
    def obstacles(self, request: Request) -> list[str]:
        """The features of a request that the form does not support."""

    @abc.abstractmethod
    def __call__(
        self, request: Request
    ) -> tuple[Float[Array, "B T H V"], Float[Array, "B H T N S"] | None]:
        """The output; and the weights, from forms that support `return_weights`."""
