"""Parallel text: sources, preparation, batches; here the layout of a prepared folder."""

JOINT, SEPARATE = ("joint.model",), ("source.model", "target.model")  # files of a vocabulary
COLUMNS = ("source", "target")  # of a split's corpus; rows end with the end symbol
TEXT_FILES = ("sources.txt", "references.txt")  # of an evaluated split: a raw sentence a line
