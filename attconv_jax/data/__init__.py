"""Labelled texts: sources, preparation, batches; here constants of the prepared folder."""

LABELS = ("no", "yes")  # of a ranked sentence: whether it contains the answer
VECTORS = "vectors.npz"  # the ids (`numbers`) of words [n] and their initial `vectors` [n, D]
