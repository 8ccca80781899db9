"""BI_DIRECT of Table 1: heads that attend to one side (Shen et al. 2018a, simplified).

Even heads attend to the query's position and those before it, odd heads to it and those after it,
without further parameters. The original, DiSAN, has masks without the diagonal, scores for each
feature and a gate, which do not agree with the table's number of parameters.
"""

import dataclasses

from common_jax.masks import Mask, direction
from csan_jax.attention.base import EncoderAttention


@dataclasses.dataclass(frozen=True)
class Direction(EncoderAttention):
    """Attention to the left in even heads, to the right in odd ones."""

    def mask(self) -> Mask:
        return direction("alternate")
