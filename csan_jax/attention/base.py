"""Interfaces of the encoder's and the decoder's self-attention, which configs select by class.

A new variant is a new module in this package, with a subclass of `EncoderAttention` or
`DecoderAttention`, and an entry in `configs/csan/systems.py`.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, Literal, TypeVar

import flax.linen as nn

from common_jax.attention.layers import SelfAttention
from common_jax.fields import Choice, require
from common_jax.masks import Mask, causal

Layer = TypeVar("Layer", bound=nn.Module)


@dataclasses.dataclass(frozen=True)
class AttentionSettings:
    """The fields of `ModelConfig` that attentions read, and the type of activations.

    Attributes:
      dim: D.
      num_heads: H, which divides `dim`.
      encoder_layers: number of the encoder's layers.
      norm: layer normalisation before each sub-layer, or after it.
      dropout: rate on each sub-layer's output.
      attention_dropout: rate on the attention weights.
      implementation: the implementation of `common_jax.attention`.
      dtype: of activations and matrix products.
    """

    dim: int
    num_heads: int
    encoder_layers: int
    norm: Literal["pre", "post"]
    dropout: float
    attention_dropout: float
    implementation: Literal["auto", "dense", "banded"]
    dtype: Any

    def layer(self, layer_class: Callable[..., Layer], **fields: Any) -> Layer:
        """A layer of attention with these settings.

        Args:
          layer_class: a class of `common_jax.attention.layers`, or a subclass.
          fields: the subclass's, or those that differ from the settings.
        """
        settings: dict[str, Any] = {
            "dim": self.dim,
            "num_heads": self.num_heads,
            "dropout": self.attention_dropout,
            "implementation": self.implementation,
            "dtype": self.dtype,
        }
        return layer_class(**{**settings, **fields})


@dataclasses.dataclass(frozen=True)
class EncoderAttention(Choice):
    """The self-attention of the lowest encoder layers; the others have plain self-attention.

    A variant that only masks overrides `mask` and has the parameters of the Transformer. One that
    overrides `module` or `before` has other parameters: its layers are a stack of their own
    ("encoder_local") below the others ("encoder").

    Attributes:
      local_layers: number of lowest layers with this attention (section 5: 3 of 6); 0 is the
        vanilla Transformer.
    """

    section: ClassVar[str] = "model.encoder_attention"
    local_layers: int = 3

    def unused(self) -> dict[str, str]:
        """Fields without effect given the others, each with the setting that gives it one."""
        return {}

    def check(self, settings: AttentionSettings) -> None:
        """Checks the fields against the model.

        Raises:
          UserError: for invalid fields.
        """
        require(
            0 <= self.local_layers <= settings.encoder_layers,
            f"model.local_layers={self.local_layers}: "
            f"0 to encoder_layers={settings.encoder_layers}",
        )
        require(
            settings.implementation != "banded"
            or self.local_layers == 0
            or self.mask().window is not None,
            f"model.attention=banded: {type(self).__name__} has no token window",
        )

    def mask(self) -> Mask:
        """The mask of the lowest layers' attention, in addition to padding."""
        return Mask()

    def layer_masks(self, padding: Mask, layers: int) -> list[Mask]:
        """The mask of each layer, lowest first; equal masks are one object."""
        local = padding & self.mask()
        return [local] * self.local_layers + [padding] * (layers - self.local_layers)

    def module(self, settings: AttentionSettings) -> nn.Module:
        """One layer's attention: (x [B, T, D], mask, *, train) -> [B, T, D], without the residual
        connection, and `weights(x, mask)` -> [B, H, T, N, T]. Usually a subclass of
        `common_jax.attention.layers.SelfAttention` whose `bias` adds to the scores."""
        return settings.layer(SelfAttention)

    def before(self, settings: AttentionSettings) -> nn.Module | None:
        """Sub-layers of each layer before its attention, with their residual connections:
        (x [B, T, D], mask, *, train) -> [B, T, D]."""
        return None

    @property
    def own_parameters(self) -> bool:
        """Whether the layers have other parameters than plain self-attention."""
        attention = type(self)
        plain = EncoderAttention
        return attention.module is not plain.module or attention.before is not plain.before


@dataclasses.dataclass(frozen=True)
class DecoderAttention(Choice):
    """The self-attention of all decoder layers, in training and in decoding with a cache."""

    section: ClassVar[str] = "model.decoder_attention"

    def check(self, settings: AttentionSettings) -> None:
        """As `EncoderAttention.check`."""

    def mask(self) -> Mask:
        """The mask in training, in addition to segments."""
        return causal()

    @abc.abstractmethod
    def module(self, settings: AttentionSettings) -> nn.Module:
        """One layer's attention, without the residual connection:

        - (x [B, T, D], mask, *, train) -> [B, T, D], for all target positions at once;
        - `step(x [B, k, D], cache, now, ancestry)` -> ([B, k, D], cache), for one position of k
          hypotheses of each sentence. `now` is the position, from 0. `ancestry` [B, k, steps*k] is
          True at the (position, hypothesis) pairs that each hypothesis continues, including its own
          at `now`; entry n is of position n // k.
        """

    @abc.abstractmethod
    def cache(self, settings: AttentionSettings, rows: Any, steps: Any, hypotheses: int) -> Any:
        """One layer's cache before the first step, a pytree.

        Args:
          rows: B.
          steps: capacity in positions; nodes that can be enlarged have a method `extended(steps)`.
          hypotheses: k.
        """
