"""Joulescope JS110, JS220 and JS320: current, voltage, power and digital inputs over USB."""
