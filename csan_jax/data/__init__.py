"""Parallel text: sources, preparation, batches."""

JOINT, SEPARATE = ("joint.model",), ("source.model", "target.model")  # files of a vocabulary
