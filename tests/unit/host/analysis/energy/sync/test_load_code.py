"""The load code, located in a simulated power."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebench.host.analysis.energy.integrate import (
    Floats,
    Nanoseconds,
    PowerLine,
    line_of_instants,
)
from edgebench.host.analysis.energy.sync.alignment import ClockLine
from edgebench.host.analysis.energy.sync.load_code import ONE_CODE_DRIFT, align_code
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.record import LoadCode

SEQUENCE = (
    1,
    0,
    0,
    1,
    0,
    1,
    1,
    0,
    0,
    1,
    1,
    1,
    1,
    1,
    0,
    0,
    0,
    1,
    1,
    0,
    1,
    1,
    1,
    0,
    1,
    0,
    1,
    0,
    0,
    0,
    0,
)
CHIP_NS = 20_000_000
SECOND_NS = 1_000_000_000
REST_W, WORK_W = 1.0, 1.6
SPAN_NS = 10 * SECOND_NS, 20 * SECOND_NS
"""Span of a run whose windows are not used."""


def played(begin_ns: int, chip_ns: int = CHIP_NS, seed: int = 0) -> LoadCode:
    """Return a code as a device plays it: each chip begins a little late."""
    late_ns = np.random.default_rng(seed).integers(0, 100_000, len(SEQUENCE) + 1)
    edges = begin_ns + np.arange(len(SEQUENCE) + 1) * chip_ns + late_ns
    return LoadCode(tuple(map(int, edges)), tuple(map(bool, SEQUENCE)))


def trace(
    codes: list[LoadCode],
    truth: ClockLine,
    *,
    rate_hz: float,
    noise_w: float = 0.0,
    delay_ns: int = 0,
    seed: int = 0,
) -> Callable[[Nanoseconds], Floats]:
    """Return what an averaging meter sees of a device that plays these and works in between."""
    chance = np.random.default_rng(seed)
    first = truth.to_meter(codes[0].edges_ns[0] - 8 * SECOND_NS)
    last = truth.to_meter(codes[-1].edges_ns[-1] + 8 * SECOND_NS)
    period_ns = round(1e9 / rate_hz)
    time_ns = np.arange(int(first), int(last), period_ns)
    changes = [(codes[0].edges_ns[0] - 20 * SECOND_NS, False)]
    for code in codes:
        changes += zip(code.edges_ns, (*code.is_busy, False), strict=True)
    for one, other in pairwise(codes):
        changes += [(one.edges_ns[-1] + SECOND_NS, True), (other.edges_ns[0] - SECOND_NS, False)]
    changes.sort()
    at = truth.to_meter([when for when, _ in changes]) + delay_ns
    level = np.where([busy for _, busy in changes], WORK_W, REST_W)
    # Exact means: energy at the ends of each interval.
    energy = np.concatenate([[0.0], np.cumsum(np.diff(at) / 1e9 * level[:-1])])
    ends = np.interp(time_ns, at, energy)
    beyond = time_ns > at[-1]
    ends[beyond] = energy[-1] + level[-1] * (time_ns[beyond] - at[-1]) / 1e9
    power_w = np.diff(ends) / (period_ns / 1e9)
    power_w += noise_w * chance.standard_normal(len(power_w))
    cumulative = np.concatenate([[0.0], np.cumsum(power_w * period_ns / 1e9)])

    def look_up(asked: Nanoseconds) -> Floats:
        found = np.interp(asked, time_ns, cumulative)
        return np.where((asked < time_ns[0]) | (asked > time_ns[-1]), np.nan, found)

    return look_up


@pytest.mark.parametrize(
    ("rate_hz", "chip_ns", "noise_w"),
    [
        (100_000, CHIP_NS, 0.1),
        (1000, CHIP_NS, 0.05),
        (200, CHIP_NS, 0.02),
        (10, 400_000_000, 0.02),
    ],
)
def test_offset_and_drift_are_found_within_the_stated_error(
    rate_hz: float, chip_ns: int, noise_w: float
) -> None:
    """Otherwise a fast meter clock, off by seconds, would be aligned with the wrong part."""
    truth = ClockLine(0, 1.8e9, 37e-6)
    codes = [played(10 * SECOND_NS, chip_ns, 1), played(70 * SECOND_NS, chip_ns, 2)]
    seen = trace(codes, truth, rate_hz=rate_hz, noise_w=noise_w)
    found = align_code(codes, seen, ClockLine(0, 0.0), span_ns=SPAN_NS)
    times = np.array([11, 40, 69]) * SECOND_NS
    assert np.abs(found.line.to_meter(times) - truth.to_meter(times)).max() < found.error_ns
    assert found.error_ns < chip_ns / 20
    assert found.line.slope == pytest.approx(37e-6, abs=found.error_ns / 60e9 * 2)


@settings(max_examples=40, deadline=None)
@given(
    st.floats(-4.5e9, 4.5e9),
    st.floats(-100e-6, 100e-6),
    st.integers(0, 2**31),
    st.floats(0.0, 0.3),
)
def test_any_offset_within_the_search_is_found(
    offset_ns: float, slope: float, seed: int, noise_w: float
) -> None:
    """Otherwise some offsets, or a noisy device, would silently give a wrong result."""
    truth = ClockLine(12 * SECOND_NS, offset_ns, slope)
    codes = [played(10 * SECOND_NS, seed=seed), played(14 * SECOND_NS, seed=seed + 1)]
    seen = trace(codes, truth, rate_hz=2000, noise_w=noise_w, seed=seed)
    found = align_code(codes, seen, ClockLine(0, 0.0), span_ns=SPAN_NS)
    times = np.array([11, 12, 14]) * SECOND_NS
    # The bound holds in about 95 %: a property may not fail by chance.
    assert np.abs(found.line.to_meter(times) - truth.to_meter(times)).max() < 3 * found.error_ns


def test_one_code_gives_the_offset_and_keeps_the_rate() -> None:
    """Otherwise a run stopped before its second code would have no energy, or an invented rate."""
    truth = ClockLine(0, 1e9, 37e-6)
    codes = [played(10 * SECOND_NS)]
    guess = ClockLine(0, 0.0, 37e-6)
    found = align_code(codes, trace(codes, truth, rate_hz=1e4), guess, span_ns=SPAN_NS)
    assert found.line.slope == 37e-6
    assert abs(int(found.line.to_meter(10 * SECOND_NS) - truth.to_meter(10 * SECOND_NS))) < 50_000


@pytest.mark.parametrize("drift", [ONE_CODE_DRIFT, 4 * ONE_CODE_DRIFT])
def test_error_of_one_code_holds_to_the_far_end_of_the_run(drift: float) -> None:
    """Otherwise clocks 30 ms apart, ten minutes after the only code, would be ±0.7 ms."""
    truth = ClockLine(0, 1e9, 0.99 * drift)
    codes = [played(10 * SECOND_NS)]
    seen, span_ns = trace(codes, truth, rate_hz=1e4), (2 * SECOND_NS, 615 * SECOND_NS)
    found = align_code(codes, seen, ClockLine(0, 0.0), span_ns=span_ns, drift=drift)
    off_ns = np.abs(found.line.to_meter(span_ns) - truth.to_meter(span_ns))
    assert off_ns.max() <= found.error_ns <= 1.05 * off_ns.max()


@pytest.mark.parametrize("noise_w", [0.0, 5.0])
def test_power_without_the_code_is_refused(noise_w: float) -> None:
    """Otherwise noise, or a constant power, would be taken for the code."""
    codes = [played(10 * SECOND_NS), played(20 * SECOND_NS)]
    time_ns = np.arange(0, 30 * SECOND_NS, 1_000_000)
    power_w = 1.0 + noise_w * np.random.default_rng(3).standard_normal(len(time_ns))
    line = line_of_instants(time_ns, power_w)

    def seen(asked: Nanoseconds) -> Floats:
        found = line.cumulative_j(np.clip(asked, 0, time_ns[-1]))
        return np.where((asked < 0) | (asked > time_ns[-1]), np.nan, found)

    with pytest.raises(MeasurementError, match=r"not seen|two places|faintly"):
        align_code(codes, seen, ClockLine(0, 0.0), span_ns=SPAN_NS)


def test_device_that_played_none_is_told() -> None:
    """Otherwise an older agent would cause a traceback."""
    with pytest.raises(MeasurementError, match="played no load code"):
        align_code([], lambda asked: np.zeros(len(asked)), ClockLine(0, 0.0), span_ns=SPAN_NS)


@pytest.mark.parametrize("count", [1, 2])
def test_work_that_is_not_the_code_is_not_taken_for_it(count: int) -> None:
    """Otherwise two of a hundred runs on a busy device would align with the wrong second."""
    codes = [played(10 * SECOND_NS), played(18 * SECOND_NS)][:count]
    for seed in range(30):
        chance = np.random.default_rng(seed)
        lengths = 1 + chance.exponential(25, 2000).astype(np.int64)
        power_w = np.repeat(np.arange(2000) % 2 + 1.0, lengths)[:30_000]
        line = line_of_instants(np.arange(len(power_w)) * 1_000_000, power_w)
        with pytest.raises(MeasurementError):
            align_code(codes, recorded_in(line), ClockLine(0, 0.0), span_ns=SPAN_NS)


def test_code_of_a_device_that_stalled_is_found_or_refused() -> None:
    """Otherwise a chip of half a microsecond would use up the memory, and the run be lost."""
    truth = ClockLine(0, 1e9)
    codes = [played(10 * SECOND_NS), played(14 * SECOND_NS)]
    edges = list(codes[0].edges_ns)
    edges[8] = edges[9] - 400  # the chip before was 20 ms too long
    codes[0] = LoadCode(tuple(edges), codes[0].is_busy)
    seen = trace(codes, truth, rate_hz=10_000)
    found = align_code(codes, seen, ClockLine(0, 0.0), span_ns=SPAN_NS)
    off_ns = abs(int(found.line.to_meter(12 * SECOND_NS) - truth.to_meter(12 * SECOND_NS)))
    assert off_ns <= found.error_ns


@pytest.mark.parametrize(
    "edges",
    [
        tuple(range(0, 320_000_000, 10_000_000)),
        tuple([0] * 32),
        tuple(range(0, -320, -10)),
    ],
)
def test_account_that_cannot_be_true_is_refused(edges: tuple[int, ...]) -> None:
    """Otherwise an agent's false account of its code would cause a traceback, or an hour's work."""
    code = LoadCode(edges, tuple(map(bool, SEQUENCE)))
    flat = line_of_instants(np.arange(0, 30 * SECOND_NS, 1_000_000), np.ones(30_000))
    with pytest.raises(MeasurementError):
        align_code([code], recorded_in(flat), ClockLine(0, 0.0), span_ns=SPAN_NS)


def recorded_in(line: PowerLine) -> Callable[[Nanoseconds], Floats]:
    """Return the energy that a recording holds at any time; outside of it, NaN."""
    first, last = line.time_ns[0], line.time_ns[-1]

    def seen(asked: Nanoseconds) -> Floats:
        found = line.cumulative_j(np.clip(asked, first, last))
        return np.where((asked < first) | (asked > last), np.nan, found)

    return seen
