"""Numbers in reasons as text.

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
