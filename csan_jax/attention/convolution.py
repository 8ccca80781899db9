"""CNNs of Table 1: convolutions before the self-attention (Yu et al. 2018's encoder block).

x + relu(convolution(norm(x))), `count` times, then the self-attention. A convolution does not
extend over the ends of a sentence, beyond which are zeros.

The paper gives neither the number nor the width of the convolutions; its 42.6 million additional
parameters are those of 54 ordinary convolutions of width 3. Ours are depthwise separable, as in
QANet.
"""

import dataclasses
from typing import Literal

import flax.linen as nn
from jaxtyping import Array, Float

from common_jax.convolution import convolution_class
from common_jax.fields import odd, size
from common_jax.layers import Dropout, LayerNorm
from common_jax.masks import Mask
from csan_jax.attention.base import AttentionSettings, EncoderAttention


class ConvolutionLayers(nn.Module):
    """Convolutions with residual connections."""

    choice: "Convolutions"
    settings: AttentionSettings

    @nn.compact
    def __call__(
        self, x: Float[Array, "B T D"], mask: Mask, *, train: bool
    ) -> Float[Array, "B T D"]:
        choice = self.choice
        settings = self.settings
        layer_class = convolution_class(choice.kind)
        for number in range(choice.count):
            norm = LayerNorm(name=f"norm_{number}")
            name = f"convolution_{number}"
            convolution = layer_class(settings.dim, choice.width, settings.dtype, name=name)
            y = norm(x) if settings.norm == "pre" else x
            y = nn.relu(convolution(y, mask.query_segments))
            x = x + Dropout(settings.dropout)(y, train=train)
            x = norm(x) if settings.norm == "post" else x
        return x


@dataclasses.dataclass(frozen=True)
class Convolutions(EncoderAttention):
    """Plain self-attention after convolutions.

    Attributes:
      count: number of convolutions in a layer.
      width: of the filters, in words, odd.
      kind: depthwise separable, or ordinary.
    """

    count: int = size(4)
    width: int = odd(7)
    kind: Literal["separable", "ordinary"] = "separable"

    def before(self, settings: AttentionSettings) -> ConvolutionLayers:
        return ConvolutionLayers(self, settings)
