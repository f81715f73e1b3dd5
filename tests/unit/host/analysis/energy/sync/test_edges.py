"""Pulses on a wire, among other edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebench.host.analysis.energy.integrate import Nanoseconds
from edgebench.host.analysis.energy.sync.alignment import ClockLine
from edgebench.host.analysis.energy.sync.edges import FIRST_PULSES, MAX_EDGES, align_edges
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.record import Pulse, SyncFacts

PERIOD_NS = 10_000.0
SECOND_NS = 1_000_000_000
GROUP_NS = np.cumsum([0, 10, 20, 15]) * 1_000_000
PULSES_NS = np.concatenate(
    [SECOND_NS + GROUP_NS, [2 * SECOND_NS, 9 * SECOND_NS], 9 * SECOND_NS + 50_000_000 + GROUP_NS]
)


def marks(latency_ns: int = 20_000) -> SyncFacts:
    """Return what the device reports of its pulses."""
    pulses = tuple(Pulse(int(t) - 2000, int(t) + 2000) for t in PULSES_NS)
    return SyncFacts(pulses=pulses, line="gpio:x", latency_ns=latency_ns)


def seen(truth: ClockLine, chance: np.random.Generator, late_ns: int = 20_000) -> Nanoseconds:
    """Return the edges as the meter samples them."""
    times = truth.to_meter(PULSES_NS) + chance.integers(0, late_ns, len(PULSES_NS))
    return np.asarray(np.ceil(times / PERIOD_NS) * PERIOD_NS - PERIOD_NS / 2, np.int64)


@settings(max_examples=50, deadline=None)
@given(st.floats(-3e9, 3e9), st.floats(-100e-6, 100e-6), st.integers(0, 2**31))
def test_offset_and_rate_are_found_among_other_edges(
    offset_ns: float, slope: float, seed: int
) -> None:
    """Otherwise another signal on the meter's inputs, or a lost pulse, would move the window."""
    chance = np.random.default_rng(seed)
    truth = ClockLine(5 * SECOND_NS, offset_ns, slope)
    lost = chance.integers(0, len(PULSES_NS))
    ours = np.delete(seen(truth, chance), lost)
    stray = chance.integers(-SECOND_NS, 12 * SECOND_NS, 20)
    edges = {
        1: np.sort(chance.integers(-3 * SECOND_NS, 15 * SECOND_NS, 200)),
        3: np.unique(np.concatenate([ours, stray])),
    }
    found = align_edges(marks(), edges, PERIOD_NS)
    times = np.array([2, 5, 9]) * SECOND_NS
    off_ns = np.abs(found.line.to_meter(times) - truth.to_meter(times)).max()
    assert off_ns <= found.error_ns < 200_000


def test_rate_that_is_known_allows_a_long_run() -> None:
    """Otherwise a drift above the pulse spacing, over ten minutes, would match other pulses."""
    far = PULSES_NS.copy()
    far[5:] += 600 * SECOND_NS
    pulses = tuple(Pulse(int(t) - 2000, int(t) + 2000) for t in far)
    truth = ClockLine(0, 1e9, 90e-6)
    edges = {0: np.sort(truth.to_meter(far))}
    found = align_edges(SyncFacts(pulses=pulses, latency_ns=20_000), edges, PERIOD_NS, 88e-6)
    assert found.line.slope == pytest.approx(90e-6, abs=1e-7)
    assert found.mark_count == len(far)


@pytest.mark.parametrize(
    ("edges", "reason"),
    [
        ({}, "no digital input"),
        ({0: np.arange(100) * 777_777_777}, "no digital input"),
        ({0: np.array([5])}, "no digital input"),
    ],
)
def test_input_without_the_pulses_is_refused(edges: dict[int, Nanoseconds], reason: str) -> None:
    """Otherwise a line that is not connected would give an alignment."""
    with pytest.raises(MeasurementError, match=reason):
        align_edges(marks(), edges, PERIOD_NS)


def test_hum_on_open_inputs_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise every edge of mains hum would be a guess of its own, for a minute per run."""
    calls: list[int] = []
    search = np.searchsorted

    def counted(*arguments: Any, **more: Any) -> Any:
        calls.append(np.size(arguments[1]))
        return search(*arguments, **more)

    chance = np.random.default_rng(5)
    hum = np.arange(MAX_EDGES) * 20_000_000
    edges = {bit: hum + 1_000_000 * bit for bit in range(7)}
    edges[7] = seen(ClockLine(0, 30e9, 20e-6), chance)
    monkeypatch.setattr(np, "searchsorted", counted)
    found = align_edges(marks(), edges, PERIOD_NS)
    assert found.mark_count == len(PULSES_NS)
    assert len(calls) <= 8 * (FIRST_PULSES + 1)
    assert sum(calls) <= 8 * (FIRST_PULSES + 1) * MAX_EDGES * len(PULSES_NS)


def test_input_that_is_too_busy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise an input with another signal would be searched for minutes, or silently skipped."""
    monkeypatch.setattr("edgebench.host.analysis.energy.sync.edges._match", None)
    chance = np.random.default_rng(5)
    edges = {0: np.sort(chance.integers(0, 99 * SECOND_NS, 20_000))}
    with pytest.raises(MeasurementError, match="; 1 digital inputs have more than 4000 edges"):
        align_edges(marks(), edges, PERIOD_NS)


def test_device_without_a_line_says_why() -> None:
    """Otherwise the reason that the device gave would be discarded."""
    with pytest.raises(MeasurementError, match="Permission denied"):
        align_edges(SyncFacts(error="line gpio:x: Permission denied"), {}, PERIOD_NS)
