"""Monsoon HVPM: a supply for the device that measures current and voltage at 5000 Hz."""
