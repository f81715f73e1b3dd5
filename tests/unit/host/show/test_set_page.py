"""Lines about several sets."""

from __future__ import annotations

from dataclasses import replace

from support.reported import PLAIN, runs_of_set, stored_run

from edgebench.host.analysis.occasions import NextTime
from edgebench.host.analysis.run_set import find_set
from edgebench.host.show.set_page import next_time_line

SETS = [
    replace(find_set(runs_of_set(stored_run(PLAIN), f"set-0000000{number}")), model=f"m{number}")
    for number in range(3)
]


def spread(ratio: float) -> NextTime:
    """A spread between earlier sets."""
    return NextTime(half_width_ratio=ratio, occasion_count=5, model_count=1)


def test_spread_that_all_sets_have_is_told_once() -> None:
    """Otherwise four models on a busy machine would have four lines of the same number."""
    same = [spread(1.1)] * 3
    assert next_time_line(SETS, same) == (
        "next time, by the spread between earlier sets: all 3 ±110 % (95 %)"
    )
    line = next_time_line(SETS, [spread(0.03), None, spread(0.12)])
    assert line is not None
    on = SETS[0].runtime
    assert line.endswith(f": m0 on {on} ±3.0 %, m2 on {on} ±12 % (95 %)")
    assert next_time_line(SETS, [None] * 3) is None
