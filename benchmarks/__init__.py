"""Measurements beside other toolkits, on the same data and machine: `python -m benchmarks.NAME`."""
