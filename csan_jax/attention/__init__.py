"""The encoder's and the decoder's self-attention, one file a variant."""
