"""Alignment of a meter's clock with a device's."""
