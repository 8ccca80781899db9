"""Times and costs of programs, on this machine or compiled for absent devices."""
