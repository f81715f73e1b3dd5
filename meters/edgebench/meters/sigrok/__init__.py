"""Instruments that sigrok drives, through its program sigrok-cli: multimeters, supplies, scopes."""
