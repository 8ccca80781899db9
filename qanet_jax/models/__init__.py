"""Readers, one file each."""
