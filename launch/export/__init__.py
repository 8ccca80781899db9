"""The command `launch.export`."""
