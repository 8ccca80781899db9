"""Configs: one file a run, nothing but numbers and their sources."""
