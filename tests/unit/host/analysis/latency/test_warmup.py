"""Steady states: the known classes, few false alarms, and changes that must be seen."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.series import known_series, steady, whole
from support.tools import need_shared

from edgebench.host.analysis.latency.warmup import (
    MAX_SEARCHED_POINTS,
    MIN_QUERY_COUNT,
    Segment,
    SteadyClass,
    find_steady_state,
    level_range_ratio,
)

KINDS = ("normal", "lognormal", "student", "pareto", "bimodal", "dependent", "ticks")
TRIALS = {50: 20, 400: 10, 8000: 3}
"""Number of series of each length; the longest are reduced to blocks."""
NOISES = (0.002, 0.02, 0.1)
CLASSES = {
    "flat": SteadyClass.FLAT,
    "warmup": SteadyClass.WARMUP,
    "slowdown": SteadyClass.SLOWDOWN,
    "no steady state": SteadyClass.NO_STEADY_STATE,
}


def known() -> dict[str, Any]:
    """Return known answers that were computed elsewhere."""
    results = json.loads(need_shared("known_answers/measurement.json").read_text())
    rows: dict[str, Any] = results["changepoint"]["results"]
    return rows


def test_classes_and_segments_are_the_known_ones() -> None:
    """Otherwise a device that throttles would be called steady."""
    for name, row in known().items():
        found = find_steady_state(whole(known_series(name) * 1e6))
        assert found.steady_class is CLASSES[row["class"]], name
        assert found.block_size == 1
        assert len(found.segments) == len(row["segments"]), name
        for segment, (start, end, level_ms) in zip(found.segments, row["segments"], strict=True):
            assert abs(segment.start_index - start) <= 1
            assert abs(segment.end_index - end) <= 1
            # The known level is a mean; on the ramp of `throttle` that is not in the middle.
            assert segment.level_ns / 1e6 == pytest.approx(level_ms, rel=3e-3)
        steady_from = {"flat": 0, "warmup": 90, "slowdown": 400, "no_steady": None, "throttle": 394}
        first = steady_from[name]
        if first is None:
            assert found.first_steady_index is None
        else:
            assert found.first_steady_index == pytest.approx(first, abs=1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_steady_devices_are_called_flat(kind: str) -> None:
    """Otherwise heavy tails, spikes, coarse clocks or dependent noise would raise false alarms."""
    draw = np.random.default_rng(20_261)
    classes = [
        find_steady_state(steady(draw, count, kind, noise)).steady_class
        for count, trials in TRIALS.items()
        for noise in NOISES
        for _ in range(trials)
    ]
    assert len(classes) == 99
    assert classes.count(SteadyClass.FLAT) >= 96, classes


@pytest.mark.parametrize("count", [600, 50_001])
@pytest.mark.parametrize("noise", [0.002, 0.02])
def test_changes_of_three_percent_are_seen_where_they_are(count: int, noise: float) -> None:
    """Otherwise what keeps false alarms away would also keep true alarms away."""
    draw = np.random.default_rng(5)
    at = count * 3 // 10
    change = np.where(np.arange(count) < at, 1.03, 1.0)
    warm = find_steady_state(whole(steady(draw, count, "lognormal", noise) * change))
    assert warm.steady_class is SteadyClass.WARMUP
    assert warm.first_steady_index == pytest.approx(at, abs=0.01 * count)
    slow = find_steady_state(whole(steady(draw, count, "lognormal", noise) / change))
    assert slow.steady_class is SteadyClass.SLOWDOWN
    assert slow.first_steady_index == pytest.approx(at, abs=0.01 * count)


@pytest.mark.parametrize("count", [600, 20_000])
def test_change_in_the_last_quarter_leaves_no_steady_state(count: int) -> None:
    """Otherwise a run that has just begun to throttle would be reported as settled."""
    latency_ns = steady(np.random.default_rng(6), count, "normal", 0.01)
    latency_ns[int(0.85 * count) :] += 50_000
    found = find_steady_state(latency_ns)
    assert found.steady_class is SteadyClass.NO_STEADY_STATE
    assert found.first_steady_index is None


def test_range_of_levels_leaves_out_what_is_short() -> None:
    """Otherwise a spike of 1 % of a run would pass for a device that does not keep its speed."""
    spike = Segment(0, 10, 5000.0)
    assert level_range_ratio([spike, Segment(10, 1000, 100.0)]) == 0
    levels = [spike, Segment(10, 500, 100.0), Segment(500, 970, 104.0), Segment(970, 1000, 110.0)]
    assert level_range_ratio(levels) == pytest.approx(0.10)
    assert level_range_ratio([Segment(0, 1000, 100.0)]) == 0


def test_short_warmup_of_a_short_run_is_found() -> None:
    """Otherwise the first five queries, three times as slow, would be taken for spikes."""
    latency_ns = steady(np.random.default_rng(7), 500, "normal", 0.02)
    latency_ns[:5] *= 3
    found = find_steady_state(latency_ns)
    assert (found.steady_class, found.first_steady_index) == (SteadyClass.WARMUP, 5)


def test_short_interference_does_not_end_a_steady_state() -> None:
    """Otherwise a process that ran for a moment would look like a warm-up of half of the run."""
    latency_ns = steady(np.random.default_rng(8), 2000, "normal", 0.02)
    latency_ns[1000:1040] *= 2
    latency_ns[1985:] *= 2
    found = find_steady_state(latency_ns)
    assert (found.steady_class, found.first_steady_index) == (SteadyClass.FLAT, 0)
    assert len(found.segments) > 1  # seen, and reported


def test_long_interference_is_told() -> None:
    """Otherwise a run with a fifth of it at half of the speed would be called flat."""
    latency_ns = steady(np.random.default_rng(9), 2000, "normal", 0.02)
    latency_ns[800:1200] *= 2
    found = find_steady_state(latency_ns)
    assert found.steady_class is SteadyClass.WARMUP
    assert found.first_steady_index == pytest.approx(1200, abs=2)


def test_alternating_levels_are_no_steady_state() -> None:
    """Otherwise a device that switches its clock up and down all the time would be steady."""
    latency_ns = steady(np.random.default_rng(10), 20_000, "normal", 0.01)
    latency_ns[(np.arange(20_000) // 2000) % 2 == 1] += 100_000
    assert find_steady_state(latency_ns).steady_class is SteadyClass.NO_STEADY_STATE


@pytest.mark.parametrize("count", [0, 1, MIN_QUERY_COUNT - 1])
def test_too_few_queries_have_no_class(count: int) -> None:
    """Otherwise a handful of queries would be called steady."""
    found = find_steady_state(np.arange(count, dtype=np.int64))
    assert (found.steady_class, found.first_steady_index, found.segments) == (None, None, ())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 2**40), min_size=MIN_QUERY_COUNT, max_size=60),
    st.integers(1, 200),
)
def test_segments_cover_every_query_once(values: list[int], times: int) -> None:
    """Otherwise queries would be lost or counted twice when indexes are mapped from blocks."""
    latency_ns = np.tile(np.array(values, np.int64), times)
    found = find_steady_state(latency_ns)
    starts = [segment.start_index for segment in found.segments]
    ends = [segment.end_index for segment in found.segments]
    assert starts == [0, *ends[:-1]]
    assert ends[-1] == latency_ns.size
    assert all(segment.query_count > 0 for segment in found.segments)
    assert found.block_size == -(-latency_ns.size // MAX_SEARCHED_POINTS)
    if found.first_steady_index is None:
        assert found.steady_class is SteadyClass.NO_STEADY_STATE
    else:
        assert found.first_steady_index in starts
        assert found.first_steady_index <= 0.75 * latency_ns.size


@given(st.integers(MIN_QUERY_COUNT, 10_000), st.sampled_from([0, 1, 41, 10**9]))
@settings(max_examples=30, deadline=None)
def test_constant_latency_is_flat(count: int, value: int) -> None:
    """Otherwise a clock that does not move, or a simulated device, would divide by zero."""
    found = find_steady_state(np.full(count, value, np.int64))
    assert (found.steady_class, found.first_steady_index) == (SteadyClass.FLAT, 0)


@settings(max_examples=20, deadline=None)
@given(factor=st.integers(1, 10_000))
def test_unit_does_not_matter(factor: int) -> None:
    """Otherwise a fast device would have another class than a slow one that behaves the same."""
    series = whole(known_series("warmup") * 1e4)
    expected, found = find_steady_state(series), find_steady_state(series * factor)
    assert found.steady_class is expected.steady_class
    assert found.first_steady_index == expected.first_steady_index
