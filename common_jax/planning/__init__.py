"""Costs of compiled programs on devices that need not be present."""
