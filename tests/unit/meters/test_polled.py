"""When a polled meter is read."""

from __future__ import annotations

import random
from pathlib import Path

import msgpack
import numpy as np
import pytest
from support.energy import header

from edgebench.meters.base import Packet
from edgebench.meters.polled import Point, PolledDecoder, PolledSession, Reading


class Numbers(PolledDecoder):
    """A number a round."""

    def points(self, readings: list[Reading]) -> list[Point]:
        """The only point of a round."""
        [(time_ns, _)] = readings
        return [Point(channel=0, time_ns=time_ns, power_w=1.0)]


def intervals_s(path: Path, *, is_averaging: bool) -> list[float]:
    """A thousand intervals between two readings, of a meter with ten values a second."""
    asked = header(rate_hz=10.0, is_averaging=is_averaging)
    session = PolledSession(list, asked, path, random.Random(1))
    return [session._interval_s() for _ in range(1000)]


def test_moments_of_instants_are_drawn(tmp_path: Path) -> None:
    """Otherwise a meter read in step with the inferences would see the same moment of each."""
    found = np.array(intervals_s(tmp_path, is_averaging=False))
    assert found.mean() == pytest.approx(0.1, rel=0.03)
    assert (found.min() >= 0.05, found.max() <= 0.15) == (True, True)
    # In step means a return to the same place of a period, after one interval or after two.
    for period_s in (0.1, 0.05, 0.2):
        phases = 2 * np.pi * np.cumsum(found) / period_s
        assert abs(np.exp(1j * phases).mean()) < 0.15


def test_means_are_asked_for_evenly(tmp_path: Path) -> None:
    """Otherwise a counter would be read twice within an update, and its peak be noise."""
    assert set(intervals_s(tmp_path, is_averaging=True)) == {0.1}


@pytest.mark.parametrize(
    ("interval_s", "missed"), [(0.05, 0), (0.15, 0), (0.18, 0), (0.2, 1), (0.31, 2)]
)
def test_round_that_is_missed_is_told_from_one_that_was_drawn_late(
    interval_s: float, missed: int
) -> None:
    """Otherwise every recording of such a meter would lose samples, or none ever would."""
    decoder = Numbers(header(rate_hz=10.0))
    for time_s in (0.0, 0.1, 0.1 + interval_s):
        time_ns = round(time_s * 1e9)
        decoder.feed(Packet(time_ns, time_ns, msgpack.packb([(time_ns, b"1")])))
    assert decoder.loss().lost_count == missed
