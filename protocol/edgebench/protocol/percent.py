"""Ratios in percent, for device and host.

It imports nothing, so that reasons of results, which the metrics import, can use it.
"""

from __future__ import annotations


def format_percent(ratio: float, places: int = 0) -> str:
    """A ratio in percent with so many decimals.

    >>> format_percent(0.05), format_percent(0.0209, 2)
    ('5 %', '2.09 %')
    """
    return f"{ratio:.{places}%}".replace("%", " %")
