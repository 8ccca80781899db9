"""The command `launch.predict`."""
