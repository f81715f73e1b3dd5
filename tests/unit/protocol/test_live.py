"""Samples of a device that is watched, as bytes."""

from __future__ import annotations

import math

import pytest

from edgebench.protocol.errors import RemoteProtocolError
from edgebench.protocol.live import MAX_SAMPLES, LiveSamples, pack_samples, unpack_samples


def test_samples_survive_the_way() -> None:
    """Otherwise a column would be read as another."""
    rows = [(2**60 + number, 50.0 + number, 1e9 * number) for number in range(MAX_SAMPLES)]
    packed = pack_samples(rows)
    times, temps, clocks = zip(*rows, strict=True)
    assert unpack_samples(packed, MAX_SAMPLES) == LiveSamples(times, temps, clocks)
    assert unpack_samples(b"", 0) == LiveSamples((), (), ())


def test_what_nothing_told_is_no_number() -> None:
    """Otherwise a board without a thermometer would have 0 °C."""
    samples = unpack_samples(pack_samples([(1, math.nan, math.nan)]), 1)
    assert math.isnan(samples.temp_c[0])
    assert math.isnan(samples.freq_hz[0])


def test_columns_of_a_later_version_are_not_looked_at() -> None:
    """Otherwise an agent that reports more could not be watched by an older host."""
    packed = pack_samples([(1, 2.0, 3.0)]) + b"\0" * 8
    assert unpack_samples(packed, 1) == LiveSamples((1,), (2.0,), (3.0,))


@pytest.mark.parametrize(("size", "count"), [(23, 1), (0, 1), (0, -1), (24 * 33, 33), (24, 2**40)])
def test_count_that_is_wrong_is_refused(size: int, count: int) -> None:
    """Otherwise a hostile agent would make the host allocate any amount, or crash."""
    with pytest.raises(RemoteProtocolError, match="limit 32 samples"):
        unpack_samples(bytes(size), count)
