"""Library shared by the three papers: masks, attention, layers, text, data, metrics, training."""
