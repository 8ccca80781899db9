"""Attention over tokens and heads."""

from common_jax.attention.api import Implementation, attention
from common_jax.attention.bias import Bias
from common_jax.attention.flax_layers import attention_fn

__all__ = ["Bias", "Implementation", "attention", "attention_fn"]
