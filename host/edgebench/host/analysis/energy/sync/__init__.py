"""Laying a meter's time over a device's."""
