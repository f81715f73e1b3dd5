"""The remaining time of all work, estimated from the completed runs."""

from __future__ import annotations

import pytest

from edgebench.host.bench.events import Place
from edgebench.host.cli.pace import DevicePace, OverallPace, overall_pace


def measured(
    count: int, took_s: float, *, first_s: float | None = None, ended: int = 0
) -> DevicePace:
    """A device with runs of this length, `ended` of which have ended, at a time of 100 s."""
    pace = DevicePace()
    lengths_s = [first_s or took_s, *[took_s] * (ended - 1)][:ended]
    now_s = 100.0 - sum(lengths_s)
    for number, length_s in enumerate(lengths_s, 1):
        pace.begin(Place(number, count), now_s)
        now_s += length_s
        pace.end(now_s)
    return pace


def test_nothing_is_promised_before_anything_is_known() -> None:
    """Otherwise the first seconds would show an invented time."""
    pace = DevicePace()
    assert overall_pace([pace], 0.0) == OverallPace(0, None, None)
    pace.begin(Place(1, 5), 0.0)
    assert overall_pace([pace], 1.0) == OverallPace(0, 5, None)


def test_first_run_is_expected_to_take_what_its_loop_takes() -> None:
    """Otherwise the length of five runs would be unknown until the first has ended."""
    pace = DevicePace()
    pace.begin(Place(1, 5), 0.0)
    pace.expect(10.0, 2.0)  # 2 s of loading
    assert pace.left_s(2.0) == pytest.approx(10.0 + 4 * 12.0)
    assert pace.left_s(7.0) == pytest.approx(5.0 + 4 * 12.0)


def test_rest_takes_as_long_as_what_has_ended_without_the_first() -> None:
    """Otherwise the check of the outputs, made only by the first run, would count five times."""
    pace = measured(5, 10.0, first_s=30.0, ended=3)
    assert (pace.done_count, pace.count) == (3, 5)
    assert pace.left_s(100.0) == pytest.approx(20.0)
    pace.begin(Place(4, 5), 100.0)
    assert pace.done_count == 3
    assert pace.left_s(104.0) == pytest.approx(16.0)
    assert pace.left_s(120.0) == pytest.approx(10.0), "late, but not below zero"


def test_devices_side_by_side_end_with_the_slowest() -> None:
    """Otherwise the times of devices that are measured in parallel would be added."""
    fast, slow = measured(4, 5.0, ended=2), measured(4, 20.0, ended=1)
    both = overall_pace([fast, slow], 100.0)
    assert (both.done_count, both.count) == (3, 8)
    assert both.left_s == pytest.approx(60.0)
    waiting = overall_pace([fast, slow, DevicePace()], 100.0)
    assert waiting.count is None
    assert waiting.left_s == pytest.approx(60.0 + 80.0)


def test_device_that_is_done_needs_no_time() -> None:
    """Otherwise the bar would never end."""
    assert overall_pace([measured(2, 5.0, ended=2)], 100.0) == OverallPace(2, 2, 0.0)
