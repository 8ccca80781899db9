"""CNNs of Table 1: convolutions before the self-attention (Yu et al. 2018's encoder block).

x + relu(convolution(norm(x))), `count` times, then the self-attention. A convolution does not
extend over the ends of a sentence, beyond which are zeros.

The paper gives neither the number nor the width of the convolutions; its 42.6 million additional
parameters are those of 54 full convolutions of width 3. Ours are depthwise separable, as in QANet.
"""

import dataclasses
from typing import Any, Literal

import flax.linen as nn
from jaxtyping import Array, Float

from common_jax.convolution import Convolution, SeparableConvolution
from common_jax.fields import require_odd, require_sizes
from common_jax.layers import Dropout, LayerNorm
from common_jax.masks import Mask
from csan_jax.attention.base import EncoderAttention, Sizes

KINDS: dict[str, Any] = {"separable": SeparableConvolution, "full": Convolution}


class ConvolutionLayers(nn.Module):
    """Convolutions with residual connections."""

    choice: "Convolutions"
    sizes: Sizes

    @nn.compact
    def __call__(
        self, x: Float[Array, "B T D"], mask: Mask, *, train: bool
    ) -> Float[Array, "B T D"]:
        sizes, convolution_class = self.sizes, KINDS[self.choice.kind]
        for at in range(self.choice.count):
            norm = LayerNorm(name=f"norm_{at}")
            convolution = convolution_class(
                sizes.dim, self.choice.width, sizes.dtype, name=f"convolution_{at}"
            )
            y = norm(x) if sizes.norm == "pre" else x
            y = nn.relu(convolution(y, mask.query_segments))
            x = x + Dropout(sizes.dropout)(y, train=train)
            x = norm(x) if sizes.norm == "post" else x
        return x


@dataclasses.dataclass(frozen=True)
class Convolutions(EncoderAttention):
    """Plain self-attention after convolutions.

    Attributes:
      count: number of convolutions in a layer.
      width: of the filters, in words, odd.
      kind: depthwise separable, or full.
    """

    count: int = 4
    width: int = 7
    kind: Literal["separable", "full"] = "separable"

    def check(self, sizes: Sizes) -> None:
        super().check(sizes)
        require_sizes("model.encoder_attention", self, "count")
        require_odd("model.encoder_attention", self, "width")

    def before(self, sizes: Sizes) -> ConvolutionLayers:
        return ConvolutionLayers(self, sizes)
