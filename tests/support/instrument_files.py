"""Files of instruments that were beside a run: its course of power, sampled by another clock.

A stored run says when the device was active; what it took then is made up. So the energy of its
timed loop is known, whatever the instrument's clock does, and however its program writes it down.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgebench.host.store.files import read_queries, read_record
from edgebench.host.store.layout import Store
from edgebench.protocol.record import Phase
from support.energy import SECOND_NS
from support.energy_simulation import Course

Floats = NDArray[np.float64]
IDLE_W, WORK_W, LOAD_W = 0.5, 2.0, 1.2


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of an instrument, by its own clock."""

    time_s: Floats
    """Ends of the intervals that the powers are means over."""
    power_w: Floats


def course_of(directory: Path, *, around_s: float = 3.0) -> Course:
    """Power over the device's clock in seconds, of a stored run and some time around it."""
    record, queries = read_record(directory), read_queries(directory)
    assert record.worker is not None
    pieces: list[tuple[int, int, float]] = []
    for event, following in pairwise(record.events):
        if event.kind in (Phase.LOADING.value, Phase.SPOOLING.value):
            pieces.append((event.time_ns, following.time_ns, LOAD_W))
    for code in record.worker.sync.codes:
        edges = list(zip(pairwise(code.edges_ns), code.is_busy, strict=True))
        pieces += [(begin, end, WORK_W) for (begin, end), is_busy in edges if is_busy]
    # A loop without a pause is one piece.
    pieces.append((int(queries.start_ns[0]), int(queries.end_ns[-1]), WORK_W))
    pieces.sort()
    first_ns = record.events[0].time_ns - round(around_s * SECOND_NS)
    last_ns = max(record.events[-1].time_ns, pieces[-1][1]) + round(around_s * SECOND_NS)
    edges_ns, powers_w = [first_ns], list[float]()
    for begin_ns, end_ns, power_w in pieces:
        begin_ns = max(begin_ns, edges_ns[-1])
        if end_ns <= begin_ns:
            continue
        edges_ns += [begin_ns, end_ns]
        powers_w += [IDLE_W, power_w]
    edges_ns.append(last_ns)
    powers_w.append(IDLE_W)
    # Seconds from the beginning: nanoseconds since boot would lose their last digits.
    return Course(np.array([(one - first_ns) / 1e9 for one in edges_ns]), np.array(powers_w))


def sampled(
    course: Course,
    *,
    rate_hz: float,
    zero_s: float = 0.0,
    drift_ppm: float = 0.0,
    noise_w: float = 0.0,
    seed: int = 0,
) -> Samples:
    """What an instrument that averages makes of a course, by a clock of its own."""
    interval_s = 1 / rate_hz / (1 + drift_ppm * 1e-6)
    count = int(course.edges_s[-1] / interval_s) - 1
    ends_s = (np.arange(count) + 1) * interval_s
    power_w = np.diff(course.energy_j(np.append(0.0, ends_s))) / interval_s
    power_w += np.random.default_rng(seed).normal(0, noise_w, count) if noise_w else 0.0
    return Samples(zero_s + (np.arange(count) + 1) / rate_hz, power_w)


def truth_j(directory: Path) -> float:
    """True energy per inference of those that count: the power of the loop is constant."""
    queries = read_queries(directory)
    warmup = Store(directory.parents[1]).run(directory.name).metrics.warmup
    assert warmup is not None
    first = warmup.query_count
    span_ns = int(queries.end_ns[-1]) - int(queries.start_ns[first])
    return WORK_W * span_ns / 1e9 / (len(queries) - first)
