"""Training a model, also in several processes."""
