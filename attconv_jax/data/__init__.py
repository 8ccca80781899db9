"""Labelled texts: sources, preparation and batches. This module has the names they share."""

LABELS = ("no", "yes")  # whether a ranked sentence contains the answer
VECTORS = "vectors.npz"  # word ids, `numbers` [n], and their initial vectors, `vectors` [n, D]
