"""Pauses of a whole device are found in the traces of the worker and of the sampler."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from support.records import queries_of

from edgebench.host.analysis.latency.queries import Queries
from edgebench.host.analysis.pauses import paused_s
from edgebench.host.analysis.thermal.telemetry import Series, TelemetryTrace

PAUSE_NS = 3 * 10**9


def queries(latency_ns: int, *, pause_at: int | None = None, count: int = 1000) -> Queries:
    """Inferences one after another, one of which may contain a pause."""
    durations_ns = np.full(count, latency_ns, np.int64)
    if pause_at is not None:
        durations_ns[pause_at] += PAUSE_NS
    return queries_of(durations_ns)


def readings(of: Queries, *, is_paused: bool) -> TelemetryTrace:
    """Readings ten times a second; none within the longest inference if the sampler is paused."""
    time_ns = np.arange(of.start_ns[0] - 10**9, of.end_ns[-1] + 10**9, 10**8)
    if is_paused:
        longest = int(np.argmax(of.invoke_ns))
        is_inside = (time_ns > of.start_ns[longest]) & (time_ns < of.end_ns[longest])
        time_ns = time_ns[~is_inside]
    return TelemetryTrace({"load": Series(time_ns, np.ones(time_ns.size))})


def test_pause_of_worker_and_sampler_is_found() -> None:
    """Otherwise a paused virtual machine would be a device of which others took the CPU."""
    of = queries(5_000_000, pause_at=500)
    assert paused_s(of, readings(of, is_paused=True)) == pytest.approx(3.0, abs=0.2)


def test_two_pauses_add_up() -> None:
    """Otherwise a machine that is paused again and again would be paused for a moment."""
    durations_ns = np.full(1000, 5_000_000, np.int64)
    durations_ns[[300, 600]] += PAUSE_NS
    of = queries_of(durations_ns)
    time_ns = np.concatenate([readings(of, is_paused=False).series["load"].time_ns])
    for number in (300, 600):
        time_ns = time_ns[(time_ns < of.start_ns[number]) | (time_ns > of.end_ns[number])]
    both = TelemetryTrace({"load": Series(time_ns, np.ones(time_ns.size))})
    assert paused_s(of, both) == pytest.approx(6.0, abs=0.4)


@pytest.mark.parametrize(("pause_at", "latency_ns"), [(500, 5_000_000), (None, PAUSE_NS)])
def test_worker_alone_is_not_paused(pause_at: int | None, latency_ns: int) -> None:
    """Otherwise a slow inference, and a slow model, would be a pause."""
    of = queries(latency_ns, pause_at=pause_at, count=20 if pause_at is None else 1000)
    assert paused_s(of, readings(of, is_paused=False)) == 0.0


def test_slow_model_beside_a_slow_sampler_is_not_paused() -> None:
    """Otherwise a device whose model takes all CPUs for seconds would be paused."""
    of = queries(PAUSE_NS, count=20)
    assert paused_s(of, readings(of, is_paused=True)) == 0.0


def test_sampler_alone_is_not_paused() -> None:
    """Otherwise a sensor that hangs would be a pause."""
    of = queries(5_000_000)
    time_ns: NDArray[np.int64] = readings(of, is_paused=False).series["load"].time_ns
    time_ns = time_ns[(time_ns < 2 * 10**9) | (time_ns > 5 * 10**9)]
    assert paused_s(of, TelemetryTrace({"load": Series(time_ns, np.ones(time_ns.size))})) == 0.0


def test_wait_for_an_arrival_is_no_pause() -> None:
    """Otherwise a server without queries would be paused."""
    of = queries(5_000_000)
    moved = {
        name: getattr(of, name) + np.where(np.arange(1000) < 500, 0, PAUSE_NS)
        for name in ("scheduled_ns", "start_ns", "invoke_start_ns", "invoke_end_ns", "end_ns")
    }
    waiting = replace(of, **moved)
    time_ns = np.arange(0, waiting.end_ns[-1], 10**8)
    time_ns = time_ns[(time_ns < of.end_ns[499]) | (time_ns > waiting.start_ns[500])]
    trace = TelemetryTrace({"load": Series(time_ns, np.ones(time_ns.size))})
    assert paused_s(waiting, trace) == 0.0


def test_pause_is_unknown_without_telemetry() -> None:
    """Otherwise a run without a sampler would not have been paused."""
    assert paused_s(queries(5_000_000), TelemetryTrace()) is None
