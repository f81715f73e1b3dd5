"""A metered run in a store, made by the real code from a made-up meter and made-up marks.

Seconds of the device's clock; the meter's begins at its first sample, the host's is 5 ms behind.

    1 meter on · 1.5 idle · 2.5 starting · 2.6 loading · 3 code · 4 queries · 4.7 code · 5.5 idle
    · 6.5 end · 7 meter off
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.agent.worker.load_code import chips_of
from edgebench.host.result.energy import SyncMethod
from edgebench.host.result.facts import EnergyRequest, HostFacts, Pair, SetMember
from edgebench.host.store.layout import Store
from edgebench.meters.base import Header, Packet, Recording
from edgebench.meters.registry import find_meter
from edgebench.meters.spool import SpoolWriter
from edgebench.meters.uncertainty import UncertaintyTerm
from edgebench.protocol.clock import ClockProbe
from edgebench.protocol.record import LoadCode, SyncFacts
from support.energy import SECOND_NS, events
from support.records import RUN_ID, latencies, put_into_store, run_record, worker_record

METER = "synthetic:constant,power=1"
CAPACITY_J = 66_600.0
IDLE_W, LOAD_W, WORK_W = 1.0, 1.5, 2.0
COUNT = 5000
BEGIN_NS, END_NS = SECOND_NS, 7 * SECOND_NS
"""Of the recording."""
QUERIES_NS = 4 * SECOND_NS
CHIP_NS = 20_000_000
CHIPS = tuple(chip == "1" for chip in "1001011001111100011011101010000")
"""A maximum-length sequence."""
RATE_HZ = 1000.0
HOST_LATE_NS = 5_000_000
PACKET_SAMPLES = 10
EVENTS = events(
    ("idle", 1.5), ("idle_ended", 2.5), ("starting", 2.5), ("loading", 2.6), ("syncing", 3.0),
    ("warming_up", 3.9), ("measuring", 4.1), ("syncing", 4.6), ("spooling", 5.4), ("idle", 5.5),
    ("idle_ended", 6.5),
)  # fmt: skip


def code(begin_ns: int, chips: tuple[bool, ...]) -> LoadCode:
    """As a worker plays it."""
    edges = tuple(begin_ns + chip * CHIP_NS for chip in range(len(chips) + 1))
    return LoadCode(edges, chips)


def codes_of(run_id: str) -> tuple[LoadCode, LoadCode]:
    """The codes of a run, with its own chips."""
    return code(3_100_000_000, chips_of(run_id, 0)), code(4_700_000_000, chips_of(run_id, 1))


CODES = code(3_100_000_000, CHIPS), code(4_700_000_000, CHIPS)
"""The codes of every run of an agent of the first versions."""


def store_metered_run(
    store: Store,
    run_id: str = RUN_ID,
    *,
    sync: SyncMethod | None = None,
    battery_capacity_j: float | None = CAPACITY_J,
    terms: Sequence[UncertaintyTerm] = (),
    work_w: float = WORK_W,
    pair: Pair | None = None,
    trouble: str | None = None,
) -> Path:
    """Store a run whose energy is known; its directory.

    Args:
        store: Where.
        run_id: Its id.
        sync: The way that the user asked for.
        battery_capacity_j: What the user said of the battery.
        terms: Uncertainty of the meter.
        work_w: Power while the model runs.
        pair: Of a comparison.
        trouble: That ended the recording.
    """
    latency_ns = latencies(COUNT)
    worker = replace(worker_record(latency_ns), sync=SyncFacts(codes=CODES))
    record = replace(run_record(worker, run_id), events=EVENTS)
    request = EnergyRequest(meter=METER, sync=sync, battery_capacity_j=battery_capacity_j)
    facts = HostFacts(pair=pair, energy=request)
    powers_w = samples(int(latency_ns.sum()), work_w)
    return put_into_store(
        store,
        record,
        latency_ns,
        facts=facts,
        probes=[[probe(BEGIN_NS)], [probe(END_NS)]],
        begin_ns=QUERIES_NS,
        write_recording=recorder(powers_w, tuple(terms), trouble),
    )


def samples(
    queries_took_ns: int, work_w: float = WORK_W, codes: Sequence[LoadCode] = CODES
) -> NDArray[np.float64]:
    """Mean power of each millisecond."""
    levels: list[tuple[int, float]] = [(BEGIN_NS, IDLE_W), (2_600_000_000, LOAD_W)]
    for one, after_w in zip(codes, (work_w, IDLE_W), strict=True):
        chips_w = [WORK_W if busy else IDLE_W for busy in one.is_busy]
        levels += [
            (one.edges_ns[0] - CHIP_NS, IDLE_W),
            *zip(one.edges_ns, [*chips_w, IDLE_W], strict=True),
            (one.edges_ns[-1] + CHIP_NS, after_w),
        ]
    levels += [(QUERIES_NS + queries_took_ns, IDLE_W), (END_NS, IDLE_W)]
    levels.sort()
    begins = np.array([at for at, _ in levels], np.float64)
    powers_w = np.array([power for _, power in levels])
    energy_j = np.concatenate([[0.0], np.cumsum(np.diff(begins) / 1e9 * powers_w[:-1])])
    ends = np.arange(BEGIN_NS, END_NS + 1, round(1e9 / RATE_HZ))
    found: NDArray[np.float64] = np.diff(np.interp(ends, begins, energy_j)) * RATE_HZ
    return found


def recorder(
    powers_w: NDArray[np.float64],
    terms: tuple[UncertaintyTerm, ...] = (),
    trouble: str | None = None,
) -> Callable[[Path], Recording]:
    """Writes what the meter recorded of these powers into a file."""
    return partial(_record, powers_w, terms, trouble)


def _record(
    powers_w: NDArray[np.float64],
    terms: tuple[UncertaintyTerm, ...],
    trouble: str | None,
    path: Path,
) -> Recording:
    found: Any = find_meter(METER).open()
    assert isinstance(found, Header)
    header = replace(found, uncertainty=terms)
    with SpoolWriter(path, header) as writer:
        for first in range(0, len(powers_w), PACKET_SAMPLES):
            part = powers_w[first : first + PACKET_SAMPLES]
            taken_ns = BEGIN_NS + round((first + len(part)) * 1e9 / RATE_HZ)
            came_ns = taken_ns - HOST_LATE_NS
            writer.append(Packet(came_ns - 1_000_000, came_ns, part.tobytes()))
    return Recording(path, header, trouble)


def probe(device_ns: int) -> ClockProbe:
    """Of the device's clock, when it showed this."""
    host_ns = device_ns - HOST_LATE_NS
    return ClockProbe(host_ns - 100, device_ns - 50, device_ns + 50, host_ns + 100)


def store_coded_run(
    store: Store,
    run_id: str = RUN_ID,
    *,
    codes: Sequence[LoadCode] = CODES,
    later_s: float = 0.0,
    member: SetMember | None = None,
) -> Path:
    """Store a run that played the load code and had no meter; its directory.

    Args:
        store: Where.
        run_id: Its id.
        codes: The load codes that it played.
        later_s: By which all of it is later on the device's clock.
        member: Its place in a set.
    """
    latency_ns, later_ns = latencies(COUNT), round(later_s * SECOND_NS)
    codes = tuple(
        replace(one, edges_ns=tuple(edge + later_ns for edge in one.edges_ns)) for one in codes
    )
    moved = tuple(replace(event, time_ns=event.time_ns + later_ns) for event in EVENTS)
    worker = replace(worker_record(latency_ns), sync=SyncFacts(codes=codes))
    return put_into_store(
        store,
        replace(run_record(worker, run_id), events=moved),
        latency_ns,
        facts=HostFacts(member=member),
        probes=[[probe(BEGIN_NS + later_ns)], [probe(END_NS + later_ns)]],
        begin_ns=QUERIES_NS + later_ns,
    )


def write_trace_csv(
    path: Path,
    *,
    work_w: float = WORK_W,
    runs: Sequence[Sequence[LoadCode]] = (CODES,),
    gap_s: float = 0.0,
) -> None:
    """What an instrument of its own recorded of coded runs, one after another, as a file.

    Args:
        path: Of the file.
        work_w: Power while the model runs.
        runs: Codes of each run in it.
        gap_s: Idle time between the end of one recording and the next.
    """
    gap_w = np.full(round(gap_s * RATE_HZ), IDLE_W)
    took_ns = int(latencies(COUNT).sum())
    parts_w = [np.append(samples(took_ns, work_w, codes), gap_w) for codes in runs]
    powers_w = np.concatenate(parts_w)
    # Without noise, the levels of the run would be the only values, and their distance a step.
    powers_w += np.random.default_rng(1).normal(0, 1e-3, len(powers_w))
    rows = (f"{(row + 1) / RATE_HZ:.3f},{1e3 * one:.4f}" for row, one in enumerate(powers_w))
    path.write_text("time_s,power_mW\n" + "\n".join(rows) + "\n")
