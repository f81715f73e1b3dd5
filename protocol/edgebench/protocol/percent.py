"""Formatting of ratios in percent, for agent and host.

This module imports nothing, which avoids a cycle of imports. The modules that compute metrics
import `edgebench.host.result.reasons`, which imports this module.
"""

from __future__ import annotations


def format_percent(ratio: float, places: int = 0) -> str:
    """Format a ratio in percent with `places` decimals.

    >>> format_percent(0.05), format_percent(0.0209, 2)
    ('5 %', '2.09 %')
    """
    return f"{ratio:.{places}%}".replace("%", " %")
