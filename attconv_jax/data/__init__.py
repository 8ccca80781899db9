"""Labelled texts: sources, preparation, batches."""
