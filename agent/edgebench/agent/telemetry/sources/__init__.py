"""Telemetry sources, one file each."""
