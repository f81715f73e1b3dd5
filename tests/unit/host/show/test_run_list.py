"""Rows of the list of stored runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from typing import Any, cast

import pytest
from support.reported import BASELINE, CANDIDATE, PLAIN, stored_run

from edgebench.host.result.units import ABSENT
from edgebench.host.show.run_list import groups_table, run_groups
from edgebench.host.store.index import RunSummary, summary_of

NOW = datetime(2026, 11, 24, tzinfo=timezone.utc)
MEMBER = replace(
    summary_of(stored_run(PLAIN)), set_id="set-1f2e3d4c", verdict="valid", latency_ns_p50=None
)


def cells(rows: list[RunSummary], column: int) -> list[str]:
    """Cells of a column."""
    table = groups_table(run_groups(rows), {}, NOW)
    return [str(cell) for cell in table.columns[column].cells]


def test_sides_of_a_comparison_have_its_name() -> None:
    """Otherwise the name for `compare` and `show` would have to be made from those of its sides."""
    rows = [summary_of(stored_run(name)) for name in (BASELINE, CANDIDATE)]
    assert cells(rows, 0) == ["2114053f", "2114053f"]
    assert sorted(cells(rows, 1)) == ["baseline", "candidate"]


@pytest.mark.parametrize(
    ("field", "values", "shown"),
    [
        ("throughput_per_s", (100.0, 300.0, 200.0), "200/s"),
        ("instructions_per_inference", (1000.0, 3000.0, 2000.0), "2,000 instr."),
        ("throughput_per_s", (100.0, 300.0, None), ABSENT),
        ("throughput_per_s", (10.0, 20.0, 40.0, 80.0, 160.0), "refused"),
    ],
)
def test_set_without_a_latency_shows_the_median_of_what_it_has(
    field: str, values: tuple[float | None, ...], shown: str
) -> None:
    """Otherwise the cell would be the number of the last run, below a title that promises p50."""
    bare = replace(MEMBER, throughput_per_s=None)
    rows = [
        replace(bare, run_id=f"20261123-03104{number}-00000000", **changes)
        for number, value in enumerate(values)
        for changes in [cast("dict[str, Any]", {field: value})]
    ]
    assert shown in cells(rows, 3)
