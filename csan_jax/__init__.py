"""CSAN: Convolutional Self-Attention Networks (Yang et al., NAACL 2019)."""
