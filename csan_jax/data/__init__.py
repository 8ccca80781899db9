"""Parallel text: sources, preparation and batches. This module has the names they share."""

JOINT, SEPARATE = ("joint.model",), ("source.model", "target.model")  # files of subword models
COLUMNS = ("source", "target")  # columns of a split's corpus; rows end with the end symbol
TEXT_FILES = ("sources.txt", "references.txt")  # an evaluated split's raw sentences, one a line
