"""Instruments supported by sigrok, through sigrok-cli: multimeters, supplies, oscilloscopes."""
