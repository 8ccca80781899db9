"""Questions about passages: sources, preparation, batches."""
