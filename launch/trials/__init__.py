"""Training of many runs: trials of a sweep or a table, their state, and where they run."""
