"""Formatting of the numbers in reasons.

`result/units.py` cannot be used here: it imports the metrics, which import results with reasons.
"""

from __future__ import annotations


def format_seconds(duration_s: float) -> str:
    """A duration with a suitable unit, at most three significant digits.

    >>> format_seconds(8.08e-6), format_seconds(0.0429), format_seconds(1.5), format_seconds(0)
    ('8.08 µs', '42.9 ms', '1.5 s', '0 s')
    """
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if duration_s >= size:
            return f"{duration_s / size:.3g} {unit}"
    return f"{duration_s * 1e9:.3g} ns" if duration_s > 0 else "0 s"


def format_watts(power_w: float) -> str:
    """A power with a suitable unit, three significant digits.

    >>> format_watts(0.0271), format_watts(-2.0), format_watts(1.25e6), format_watts(0.0)
    ('27.1 mW', '-2 W', '1.25 MW', '0 W')
    """
    for size, unit in ((1e6, "MW"), (1e3, "kW"), (1.0, "W"), (1e-3, "mW"), (1e-6, "µW")):
        if abs(power_w) >= size:
            return f"{power_w / size:.3g} {unit}"
    return f"{power_w * 1e9:.3g} nW" if power_w else "0 W"
