"""Match falling edges of the meter's input with pulses that the device sends on a wire.

Theory of operation. The device sends a few pulses at irregular distances and records their times.
For each digital input, every pairing of an edge with one of the first pulses is a guess at the
offset. The guess with which the most pulses match an edge is right, because the irregular distances
fit at only one offset. An input with another signal does not match. The method needs neither a
third clock nor a first guess.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.integrate import Nanoseconds
from edgebench.host.analysis.energy.refusal import EnergyRefused
from edgebench.host.analysis.energy.sync.alignment import (
    Alignment,
    ClockLine,
    fit_line,
    residuals_ns,
)
from edgebench.host.result.energy import SyncMethod
from edgebench.host.result.reasons import alignment as reasons
from edgebench.host.result.reasons.energy import stated
from edgebench.protocol.record import SyncFacts

DRIFT_LIMIT = 300e-6
"""Maximum drift between two crystals of 100 ppm each, plus a margin, for an unknown rate."""
GUESS_NS = 3e6
"""Assumed time error at the far end of a recording if the rate comes from arrivals."""
NEEDED_RATIO = 0.8
"""Minimum share of the pulses that must be found. Not all are required, because a glitch may hide
one or two pulses."""
MIN_FOUND = 4
MAX_EDGES = 4000
"""An input with more edges carries another signal; mains hum makes this many edges in 80 s."""
FIRST_PULSES = 3
"""Number of pulses at the start, at least one of which must be found."""
MARK_RESIDUAL_FACTOR = 3.0
"""A mark is rejected if its residual exceeds the error from wire and sampling by this factor."""


@dataclass(frozen=True, slots=True)
class _Match:
    found: Nanoseconds
    """Indices of the pulses with a matching edge."""
    edges: Nanoseconds


def align_edges(
    sync: SyncFacts, edges: Mapping[int, Nanoseconds], period_ns: float, slope: float | None = None
) -> Alignment:
    """Align the pulses with the edges of the input that carries them.

    Args:
        sync: Pulses and other marks recorded by the device.
        edges: Falling edges by digital input, meter clock, ascending.
        period_ns: Sampling period of the meter.
        slope: Meter seconds per device second, minus one, from arrivals; None if unknown.

    Raises:
        MeasurementError: there are fewer than MIN_FOUND pulses, or no input has these pulses.
    """
    if len(sync.pulses) < MIN_FOUND:
        raise EnergyRefused(stated(text=sync.error) if sync.error else reasons.no_line_to_input())
    times = np.array([(pulse.before_ns + pulse.after_ns) // 2 for pulse in sync.pulses])
    # Maximum distance of an edge from the middle of its pulse.
    widest_ns = max(pulse.after_ns - pulse.before_ns for pulse in sync.pulses)
    explained_ns = widest_ns / 2 + sync.latency_ns + period_ns
    span_ns = float(times[-1] - times[0])
    allowed_ns = explained_ns + (DRIFT_LIMIT * span_ns if slope is None else GUESS_NS)
    quiet = [input_edges for input_edges in edges.values() if len(input_edges) <= MAX_EDGES]
    matches = [
        match
        for input_edges in quiet
        if len(input_edges) >= MIN_FOUND
        and (match := _match(times, input_edges, allowed_ns, slope or 0.0)) is not None
    ]
    if not matches:
        busy_count = len(edges) - len(quiet)
        busy = reasons.busy_inputs(edge_limit=MAX_EDGES, input_count=busy_count)
        raise EnergyRefused(reasons.pulses_not_seen(), *([busy] if busy_count else []))
    best = max(matches, key=lambda match: len(match.found))
    return _judged(best, times, explained_ns)


def _match(
    times: Nanoseconds, edges: Nanoseconds, allowed_ns: float, slope: float
) -> _Match | None:
    """Match of the most pulses with edges; None if too few pulses match, or two offsets fit."""
    first = times[:FIRST_PULSES]
    counts = np.concatenate(
        [_counts(pulse_ns, times, edges, allowed_ns, slope) for pulse_ns in first]
    )
    offsets_ns = (edges - first[:, None]).reshape(-1)  # in the same order
    count = int(counts.max())
    good = np.flatnonzero(counts == count)
    guesses = [ClockLine(int(first[n // len(edges)]), float(offsets_ns[n]), slope) for n in good]
    begins = [int(guess.to_meter(times[0])) for guess in guesses]
    needed = max(MIN_FOUND, NEEDED_RATIO * len(times))
    if count < needed or max(begins) - min(begins) > 2 * allowed_ns:
        return None
    expected = guesses[0].to_meter(times)
    nearest = _nearest(expected, edges)
    matched = np.flatnonzero(np.abs(nearest - expected) <= allowed_ns)
    return _Match(matched, nearest[matched])


def _counts(
    pulse_ns: int, times: Nanoseconds, edges: Nanoseconds, allowed_ns: float, slope: float
) -> NDArray[np.int64]:
    """Number of pulses that match an edge if `pulse_ns` belongs to the edge, for each edge."""
    line = ClockLine(int(pulse_ns), 0.0, slope)
    expected = line.to_meter(times) + (edges - pulse_ns)[:, None]
    is_near = np.abs(_nearest(expected, edges) - expected) <= allowed_ns
    counts: NDArray[np.int64] = np.count_nonzero(is_near, axis=1)
    return counts


def _nearest(expected: Nanoseconds, edges: Nanoseconds) -> Nanoseconds:
    """Edge nearest to each of these times, of any shape."""
    after = np.clip(np.searchsorted(edges, expected), 1, len(edges) - 1)
    is_before = expected - edges[after - 1] <= edges[after] - expected
    return np.where(is_before, edges[after - 1], edges[after])


def _judged(match: _Match, times: Nanoseconds, explained_ns: float) -> Alignment:
    """Fit a line through the marks that are not outliers.

    Raises:
        MeasurementError: too few marks remain.
    """
    device_ns, edges_ns = times[match.found], match.edges
    limit_ns = MARK_RESIDUAL_FACTOR * explained_ns
    while True:
        line = fit_line(device_ns, edges_ns, slope=None)
        off_ns = residuals_ns(line, device_ns, edges_ns)
        worst = int(np.abs(off_ns).argmax())
        worst_ns = float(abs(off_ns[worst]))
        if worst_ns <= limit_ns:
            break
        device_ns, edges_ns = np.delete(device_ns, worst), np.delete(edges_ns, worst)
        if len(device_ns) < max(MIN_FOUND, NEEDED_RATIO * len(times)):
            raise EnergyRefused(reasons.pulses_off_line(off_ns=worst_ns, limit_ns=limit_ns))
    return Alignment(
        SyncMethod.EDGE, line, explained_ns + worst_ns, float(off_ns.std()), len(device_ns)
    )
