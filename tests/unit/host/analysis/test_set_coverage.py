"""Quick sets of simulated launches: how many are valid, and how many hold the true median.

`benchmarks/coverage.py --set-trials 100` has all kinds of launches, with more sets.
"""

from __future__ import annotations

import pytest
from support.simulated_sets import holds, simulated_set, true_median_ns

from edgebench.host.result.verdict import State

SEEDS = range(8)
DISTURBED_SEEDS = (3, 6, 27)
"""Sets with two or three disturbed launches of eight."""


@pytest.mark.parametrize(
    ("name", "valid_count", "held_count"),
    [
        ("quiet, tails, sd 0.3 %", 8, 6),
        ("disturbed by 40 %, 10 %", 7, 6),
        ("drift 2 % linear", 7, 6),
    ],
)
def test_set_is_valid_and_holds_the_median(name: str, valid_count: int, held_count: int) -> None:
    """Otherwise a neighbour in one of ten launches would spoil two of five sets.

    The probability of fewer sets is below 1 %, if 95 % hold the median.
    """
    found = [simulated_set(name, seed) for seed in SEEDS]
    assert sum(one.verdict.state is State.VALID for one in found) >= valid_count
    truth_ns = true_median_ns(name)
    assert sum(holds(one, truth_ns) for one in found) >= held_count


def test_further_runs_make_sets_of_disturbed_launches_valid() -> None:
    """Otherwise sets with two disturbed launches of eight would stay suspect."""
    name = "disturbed by 40 %, 10 %"
    found, without = (
        [simulated_set(name, seed, extra_runs=count) for seed in DISTURBED_SEEDS]
        for count in (3, 0)
    )
    assert [one.verdict.state for one in without] == [State.SUSPECT] * len(DISTURBED_SEEDS)
    assert [one.verdict.state for one in found] == [State.VALID] * len(DISTURBED_SEEDS)
    assert [len(one.counted) for one in (*found, *without)] == [8] * 2 * len(DISTURBED_SEEDS)


@pytest.mark.parametrize("name", ["drift 8 % linear", "warms up over the runs by 10 %"])
def test_set_whose_median_is_a_matter_of_time_is_not_valid(name: str) -> None:
    """Otherwise the median of a device that is still changing would be valid."""
    assert not any(simulated_set(name, seed).verdict.state is State.VALID for seed in SEEDS[:4])
