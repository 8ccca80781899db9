"""Attention over tokens and heads: one function, one definition, one fast form."""

from common_jax.attention.api import attention

__all__ = ["attention"]
