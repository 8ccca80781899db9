"""1D- and 2D-CSAN's restrictions of self-attention, with the paper's equations.

For head h and position i, vanilla self-attention (Eq. 2) is o = ATT(q, K^h) V^h over the complete
sentence. The paper restricts K and V to a window, or extends them to more heads, without further
parameters:

- 1D-CSAN (Eq. 4-6): K-hat = {k_{i-M/2}, ..., k_{i+M/2}}, the token window of M + 1, likewise V.
- 2D-CSAN (Eq. 7-9): K-tilde = the union of K-hat over heads h-N/2 ... h+N/2, the head window of
  N + 1, under one joint softmax.

Windows are masks (common_jax.masks). Section 3.1: the lower layers attend locally, the higher ones
globally.

Unspecified in the paper: windows are truncated at borders (edge queries have fewer neighbours), and
"masked as 0" is read as a zero attention weight.
"""

import dataclasses
from typing import ClassVar

from common_jax.fields import odd, require
from common_jax.masks import HeadEdge, Mask, head_table, head_window, token_window
from csan_jax.attention.base import AttentionSettings, EncoderAttention


@dataclasses.dataclass(frozen=True)
class Area(EncoderAttention):
    """1D-CSAN and 2D-CSAN.

    Attributes:
      token_window: M + 1 of Eq. 4, odd; 11 is best in section 5.1.
      head_window: N + 1 of Eq. 7, odd; 1 is 1D-CSAN, 3 is 2D-CSAN.
      head_edge: policy for heads beyond the edge (common_jax.masks.head_table).
    """

    section: ClassVar[str] = "model"
    token_window: int = odd(11)
    head_window: int = odd(3)
    head_edge: HeadEdge = "truncate"

    def unused(self) -> dict[str, str]:
        if not self.local_layers:
            fields = ("token_window", "head_window", "head_edge")
            return dict.fromkeys(fields, "model.encoder_attention.local_layers=3")
        alone = self.head_window == 1
        return {"head_edge": "model.encoder_attention.head_window=3"} if alone else {}

    def check(self, settings: AttentionSettings) -> None:
        super().check(settings)
        if not self.local_layers:
            return
        try:
            head_table(settings.num_heads, self.head_window, self.head_edge)
        except ValueError as error:
            require(False, f"model.head_window={self.head_window}: {error}")

    def mask(self) -> Mask:
        return token_window(self.token_window) & head_window(self.head_window, self.head_edge)
