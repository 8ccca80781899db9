"""QANet: Combining Local Convolution with Global Self-Attention (Yu et al., ICLR 2018)."""
