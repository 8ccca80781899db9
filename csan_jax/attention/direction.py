"""BI_DIRECT of Table 1: heads that attend to one side (Shen et al. 2018a, simplified).

Even heads attend to the query's position and those before it, odd heads to it and those after it;
no parameter is added. The original, DiSAN, has masks without the diagonal, scores of each feature
and a gate, and is not what the table's count of parameters describes.
"""

import dataclasses

from common_jax.masks import Mask, direction
from csan_jax.attention.base import EncoderAttention


@dataclasses.dataclass(frozen=True)
class Direction(EncoderAttention):
    """Attention to the left in even heads, to the right in odd ones."""

    def mask(self) -> Mask:
        return direction("alternate")
