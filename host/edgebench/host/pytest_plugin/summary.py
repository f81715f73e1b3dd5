"""Table of the measurements of a test session, with a line per measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edgebench.host.result.metrics import METRICS
from edgebench.host.result.units import (
    ABSENT,
    format_change,
    format_half_width,
    format_metric,
    half_width_of,
)
from edgebench.protocol.text import printable

_HEADER = ("test", "device", "model", "metric", "value", "±", "verdict", "against the baseline")


def summary_lines(rows: Sequence[tuple[str, Mapping[str, str]]]) -> list[str]:
    """Format the measurements as the lines of a table.

    Args:
        rows: For each measurement, the name of the test and the properties that the fixture
            recorded.
    """
    cells = [_HEADER, *((printable(test), *_cells(measured)) for test, measured in rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(_HEADER))]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]


def _cells(measured: Mapping[str, str]) -> list[str]:
    metric = METRICS[measured["metric"]]
    value = float(measured["value"]) if "value" in measured else None
    interval = _bounds(measured, "ci95")
    shown = format_metric(metric, value, half_width_of(interval, value))
    half_width = format_half_width(value, interval)
    names = [printable(measured[name]) for name in ("device", "model", "metric")]
    return [*names, shown, half_width, measured["verdict"], _change(measured)]


def _change(measured: Mapping[str, str]) -> str:
    if "outcome" not in measured:
        return ABSENT
    bounds = _bounds(measured, "ratio_ci95")
    ratio = float(measured["ratio"])
    shown = format_change(ratio - 1, half_width_of(bounds, ratio))
    return f"{measured['outcome']} {shown}"


def _bounds(measured: Mapping[str, str], name: str) -> tuple[float, float] | None:
    if f"{name}_low" not in measured:
        return None
    return float(measured[f"{name}_low"]), float(measured[f"{name}_high"])
