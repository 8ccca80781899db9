"""Attention over tokens and heads: one function, one definition, one fast form."""

from common_jax.attention.api import Implementation, attention

__all__ = ["Implementation", "attention"]
