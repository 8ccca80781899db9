"""What a compiled program costs on a device that need not be at hand."""
