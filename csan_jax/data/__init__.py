"""Parallel text: sources, preparation and batches. This module has the names they share."""

# files of subword models
JOINT = ("joint.model",)
SEPARATE = ("source.model", "target.model")
COLUMNS = ("source", "target")  # columns of a split's corpus; rows end with the end symbol
TEXT_FILES = ("sources.txt", "references.txt")  # an evaluated split's raw sentences, one a line
