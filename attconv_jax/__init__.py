"""Attentive Convolution (Yin & Schütze, 2017)."""
