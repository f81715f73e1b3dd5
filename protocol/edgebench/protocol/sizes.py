"""Sizes of files and memory as a person reads them, on a device as on the host."""

from __future__ import annotations

_UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def format_bytes(size_bytes: float) -> str:
    """A size, three significant digits.

    >>> format_bytes(5 * 2**20), format_bytes(100)
    ('5.00 MiB', '100 B')
    """
    for one_bytes, unit in _UNITS:
        if size_bytes >= one_bytes:
            scaled = size_bytes / one_bytes
            decimals = 2 if scaled < 9.995 else 1 if scaled < 99.95 else 0
            return f"{scaled:.{decimals}f} {unit}"
    return f"{size_bytes:.0f} B"
