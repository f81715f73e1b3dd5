"""Accounting of a uniform stream: places, losses, saturation, arrivals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.meters.base import Flag, Gap
from edgebench.meters.timeline import UniformTimeline

RATES_HZ = (1.0, 97.3, 1000.0, 3000.0, 100_000.0)


@given(
    st.sampled_from(RATES_HZ),
    st.lists(st.tuples(st.integers(0, 40), st.lists(st.integers(0, 3), max_size=20))),
)
def test_every_place_is_received_or_lost(
    rate_hz: float, parts: list[tuple[int, list[int]]]
) -> None:
    """Otherwise a sample would have another's place, or a loss be counted twice or not at all."""
    timeline = UniformTimeline(rate_hz)
    places: list[int] = []
    for lost_behind, lost in parts:
        places += timeline.place(len(lost), np.array(lost, np.int64), "lost").tolist()
        if lost_behind:
            timeline.lose(lost_behind, "lost behind")
    assert places == sorted(set(places))
    report = timeline.account()
    assert report.received_count == len(places)
    assert report.received_count + report.lost_count == timeline.next_index
    assert report.lost_count == sum(gap.count for gap in report.gaps)


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_gap_reaches_from_the_sample_before_to_the_one_behind(rate_hz: float) -> None:
    """Otherwise a window would be refused for a gap next to it, or taken with a gap inside."""
    timeline = UniformTimeline(rate_hz)
    places = timeline.place(4, np.array([0, 0, 5, 0]), "overflow")
    assert places.tolist() == [0, 1, 7, 8]
    time_ns = timeline.time_ns(places).tolist()
    timeline.lose(2, "damaged")
    behind_ns = timeline.time_ns(timeline.place(1)).tolist()
    assert timeline.gaps == [
        Gap(time_ns[1], time_ns[2], 5, "overflow"),
        Gap(time_ns[3], behind_ns[0], 2, "damaged"),
    ]


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_means_have_no_hole_between_them(rate_hz: float) -> None:
    """Otherwise energy would be lost between two intervals, or counted twice."""
    timeline = UniformTimeline(rate_hz)
    begin_ns, end_ns = timeline.interval_ns(timeline.place(5))
    assert begin_ns[1:].tolist() == end_ns[:-1].tolist()
    assert end_ns.tolist() == np.rint(np.arange(1, 6) * (1e9 / rate_hz)).tolist()


def test_time_is_exact_after_months() -> None:
    """Otherwise a long recording would drift away from its own clock by rounding."""
    timeline = UniformTimeline(100_000)
    place = 100_000 * 86_400 * 200
    assert timeline.time_ns(np.array([place])).tolist() == [place * 10_000]


def test_sample_without_a_value_is_lost() -> None:
    """Otherwise a recording full of holes would be complete."""
    timeline = UniformTimeline(1000)
    timeline.place(4)
    timeline.count(np.array([0, Flag.MISSING, Flag.SATURATED, Flag.MISSING | Flag.SATURATED]))
    flags = timeline.saturate(np.array([True, False]))
    assert flags.tolist() == [Flag.SATURATED, Flag.NONE]
    report = timeline.account()
    assert (report.received_count, report.lost_count, report.saturated_count) == (2, 2, 3)


def test_rate_is_that_of_the_arrivals_with_what_is_lost() -> None:
    """Otherwise a known loss would also count as a slow clock, or a slow clock show nowhere."""
    timeline = UniformTimeline(1000)
    for second in range(11):
        timeline.place(900 if second else 0)
        if second:
            timeline.lose(100, "lost")
        timeline.arrive(second * 1_000_000_000)
    assert timeline.account().rate_error_ppm == pytest.approx(0.0, abs=1e-6)
    assert not timeline.is_ambiguous
    timeline.desync()
    assert timeline.account().is_ambiguous
