"""Timings of attention, training and predictions."""
