"""Lines about several sets."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

from rich.console import Console, Group
from support.reported import PLAIN, runs_of_set, stored_run

from edgebench.host.analysis.occasions import NextTime
from edgebench.host.analysis.run_set import find_set
from edgebench.host.result.facts import Replacement, SetMember
from edgebench.host.show.set_page import next_time_line, set_details
from edgebench.host.show.times import local_time

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
        "expected change of the next set, from the spread between earlier sets: all 3 ±110 % (95 %)"
    )
    line = next_time_line(SETS, [spread(0.03), None, spread(0.12)])
    assert line is not None
    on = SETS[0].runtime
    assert line.endswith(f": m0 on {on} ±3.0 %, m2 on {on} ±12 % (95 %)")
    assert next_time_line(SETS, [None] * 3) is None


def test_runs_of_a_set_have_their_marks_explained() -> None:
    """Otherwise a replaced run would seem to count, and a star would have no meaning."""
    runs = runs_of_set(stored_run(PLAIN))
    extra = SetMember("set-0a1b2c3d", 0, 5, Replacement(runs[0].run_id, ("cpu_share",)))
    late = replace(runs[0], run_id="late", created_utc="2026-11-30T09:00:00+00:00", member=extra)
    unwatched = replace(runs[1], verdict=replace(runs[1].verdict, unwatched=("heat",)))
    run_set = find_set([*runs[:1], unwatched, *runs[2:], late])
    run_set = replace(run_set, verdict=replace(run_set.verdict, unwatched=()))
    out = Console(file=StringIO(), width=160)
    with out.capture() as captured:
        out.print(Group(*set_details(run_set)))
    lines = [line.rstrip() for line in captured.get().splitlines()]
    assert [line.split()[0] for line in lines if line.endswith("replaced")] == [runs[0].run_id]
    assert sum("valid*" in line for line in lines) == 1
    assert sum(line.startswith("* unwatched: heat") for line in lines) == 1
    (dated,) = [line for line in lines if line.lstrip().startswith("set ")]
    assert local_time(runs[0].created_utc) in dated, "the further run was made later"
