"""Sweeps: fields of a config with several values and seeds."""
