"""The commands, `python -m launch.NAME`: parse arguments, find the task, call the library."""
