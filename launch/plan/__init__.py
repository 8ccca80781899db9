"""Plans training for devices that are not present."""
