"""What the three papers share: masks, attention, layers, text, data, metrics, training."""
