"""Matching models, one file each."""
