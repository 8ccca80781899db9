"""Commands: parse, resolve the task, call the library."""
