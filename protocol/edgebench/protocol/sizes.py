"""Formatting of file and memory sizes, for agent and host."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_STEP = 1024
_LARGEST = 2**70
"""Largest size that is formatted; a broken model may request a size beyond the range of a float."""


def format_bytes(size_bytes: float) -> str:
    """Format a size with three significant digits, or with all digits of its integer part.

    >>> format_bytes(5 * 2**20), format_bytes(100), format_bytes(2**20 - 1), format_bytes(1000)
    ('5.00 MiB', '100 B', '1.00 MiB', '1000 B')
    """
    scaled, power = float(min(size_bytes, _LARGEST)), 0
    while round(scaled) >= _STEP and power < len(_UNITS) - 1:
        scaled, power = scaled / _STEP, power + 1
    decimals = 0 if power == 0 or scaled >= 99.95 else 1 if scaled >= 9.995 else 2
    return f"{scaled:.{decimals}f} {_UNITS[power]}"


def format_distinct_sizes(*sizes_bytes: float) -> list[str]:
    """Format sizes for a comparison; if different sizes would have equal texts, all are in bytes.

    >>> format_distinct_sizes(2**30, 2**20), format_distinct_sizes(2**30 + 1, 2**30)
    (['1.00 GiB', '1.00 MiB'], ['1,073,741,825 B', '1,073,741,824 B'])
    """
    shown = [format_bytes(size_bytes) for size_bytes in sizes_bytes]
    if len(set(shown)) == len(set(sizes_bytes)):
        return shown
    return [f"{round(size_bytes):,} B" for size_bytes in sizes_bytes]
