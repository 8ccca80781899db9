"""Attention over tokens and heads."""

from common_jax.attention.api import Implementation, attention
from common_jax.attention.bias import Bias

__all__ = ["Bias", "Implementation", "attention"]
