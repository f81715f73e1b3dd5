"""Monsoon HVPM: a supply for the device that measures current and voltage, 5000 times a second."""
