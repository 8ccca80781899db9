"""Labelled texts: sources, preparation, batches; here what these share of a prepared folder."""

LABELS = ("no", "yes")  # of a sentence that is ranked: whether it holds the answer
VECTORS = "vectors.npz"  # `numbers` of words [n] and the `vectors` [n, D] that they begin with
