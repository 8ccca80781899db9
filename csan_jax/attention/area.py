"""The paper's contribution, beside its equations: which keys and values a query attends to.

For head h and position i, vanilla self-attention (Eq. 2) is o = ATT(q, K^h) V^h over the whole
sentence. The paper restricts and widens K and V, and adds no parameter:

- 1D-CSAN (Eq. 4-6): K-hat = {k_{i-M/2}, ..., k_{i+M/2}}, the token window of M + 1, likewise V.
- 2D-CSAN (Eq. 7-9): K-tilde = the union of K-hat over heads h-N/2 ... h+N/2, the head window of
  N + 1, under one joint softmax.

Windows are masks (common_jax.masks), so that one attention serves all variants. A new variant is
a new function here and a field in `csan_jax.config.ModelConfig`.

Where the paper leaves it open: borders truncate (edge queries see fewer neighbours), and "masked
as 0" is read as a zero attention weight.
"""

from common_jax.masks import Mask, head_window, token_window
from csan_jax.config import ModelConfig


def local(config: ModelConfig) -> Mask:
    """The restriction of the lowest `local_layers` encoder layers, without padding."""
    return token_window(config.token_window) & head_window(config.head_window, config.head_edge)


def encoder_spans(config: ModelConfig, padding: Mask) -> list[tuple[int, tuple[Mask]]]:
    """Section 3.1: the lower layers attend locally, the higher ones globally."""
    return [
        (config.local_layers, (padding & local(config),)),
        (config.encoder_layers - config.local_layers, (padding,)),
    ]
