"""Comparisons of speed with other toolkits, on the same data and machine."""
