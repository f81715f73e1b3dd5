"""Monsoon HVPM: a power supply that also measures current and voltage, at 5000 Hz."""
