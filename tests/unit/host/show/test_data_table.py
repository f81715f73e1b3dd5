"""Tables on terminals of every width."""

from __future__ import annotations

import io
from functools import cache

import pytest
from rich.console import Console
from support.exports import SET, find_stored

from edgebench.host.analysis.run_set import find_sets
from edgebench.host.result.metrics import METRICS
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.units import format_metric, half_width_of
from edgebench.host.show.data_table import DataTable
from edgebench.host.show.set_page import set_details, set_results

NUMBERS = ("+169.9 % .. +179.2 %", "9.60 µs")


def printed(width: int) -> str:
    """A table with a name and two numbers, on a terminal of this width."""
    table = DataTable("model")
    for name in ("95 %", "p50"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_row("mobilenet_v2_int8.tflite", *NUMBERS)
    out = io.StringIO()
    Console(file=out, width=width, color_system=None, highlight=False).print(table)
    return out.getvalue()


@pytest.mark.parametrize("width", range(30, 80))
def test_no_number_is_cut(width: int) -> None:
    """Otherwise +169.9 % .. +17… would be read as another number."""
    text = printed(width)
    assert all(number in text for number in NUMBERS)
    assert all(len(line) <= width for line in text.splitlines())


def test_table_is_a_list_where_it_does_not_fit() -> None:
    """Otherwise a list would take three lines for each row where the table needs one."""
    assert "model                   95 %      p50" in printed(39)
    assert printed(38).split("\n")[1].split() == ["95", "%", *NUMBERS[0].split()]


@cache
def stored_set() -> RunSet:
    """A set of a store."""
    [found] = find_sets([exported.run for exported in find_stored(SET)])
    return found


@pytest.mark.parametrize("width", range(34, 100))  # An id has 24 characters.
def test_no_number_of_a_set_is_broken(width: int) -> None:
    """Otherwise the interval -15/+139 % would end in +13 on one line, with the 9 on the next."""
    one = stored_set()
    page = set_results(one, width) + set_details(one)
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, highlight=False)
    for part in page:
        console.print(part)
    text = out.getvalue()
    assert all(run.run_id in text for run in one.runs)
    for path, summary in one.metrics.items():
        if path.startswith("latency_ns."):
            metric = METRICS[path]
            reach = half_width_of(summary.ci95, summary.median)
            assert format_metric(metric, summary.max, reach) in text
