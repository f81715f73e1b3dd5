"""Chrome's trace events as JSON, for chrome://tracing, Perfetto and Speedscope.

The events are the same as in the Perfetto export. Times are microseconds with three decimals.

Source: Trace Event Format, Google, 2016: JSON object format; complete events (X), counters (C) and
metadata (M)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO

from numpy.typing import NDArray

from edgebench.host.export.exported import ExportedRun
from edgebench.host.export.run_trace import RunTrace, SliceGroup, run_trace_of

_CHUNK_EVENTS = 10_000
"""Number of events encoded at a time."""


def write(runs: Sequence[ExportedRun], out: BinaryIO) -> None:
    """Write each run as a process with its own time zero."""
    out.write(b'{"displayTimeUnit":"ms","otherData":')
    out.write(json.dumps({"runs": [run.run.run_id for run in runs]}).encode())
    out.write(b',"traceEvents":[')
    separator = b"\n"
    for pid, run in enumerate(runs, 1):
        events = _events(run_trace_of(run), pid)
        while part := list(islice(events, _CHUNK_EVENTS)):
            out.write(separator + ",\n".join(part).encode())
            separator = b",\n"
    out.write(b"\n]}\n")


def _events(trace: RunTrace, pid: int) -> Iterator[str]:
    yield _metadata("process_name", trace.title, pid, 0)
    yield _metadata("thread_name", "run", pid, 1)
    yield from _slices(SliceGroup.single(trace.title, 0, trace.end_ns, trace.facts), pid, 1)
    for tid, track in enumerate(trace.slices, 2):
        yield _metadata("thread_name", track.name, pid, tid)
        for group in track.groups:
            yield from _slices(group, pid, tid)
    for counter in trace.counters:
        head = json.dumps({"ph": "C", "pid": pid, "tid": 0, "name": counter.name})[:-1]
        unit = json.dumps(counter.unit or "value")
        for time_ns, value in _pairs(counter.time_ns, counter.value):
            yield f'{head}, "ts": {time_ns / 1e3:.3f}, "args": {{{unit}: {value!r}}}}}'


def _metadata(kind: str, name: str, pid: int, tid: int) -> str:
    event = {"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": {"name": name}}
    return json.dumps(event)


def _slices(group: SliceGroup, pid: int, tid: int) -> Iterator[str]:
    event = {"ph": "X", "cat": "edgebench", "pid": pid, "tid": tid, "name": group.name}
    head = json.dumps(event)[:-1]
    tail = f', "args": {json.dumps(dict(group.facts))}}}' if group.facts else "}"
    for begin_ns, end_ns in _pairs(group.begin_ns, group.end_ns):
        yield f'{head}, "ts": {begin_ns / 1e3:.3f}, "dur": {(end_ns - begin_ns) / 1e3:.3f}{tail}'


def _pairs(first: NDArray[Any], second: NDArray[Any]) -> Iterator[tuple[Any, Any]]:
    """Pairs of Python numbers from two columns, converted in chunks to limit the use of memory."""
    for row in range(0, len(first), _CHUNK_EVENTS):
        rows = slice(row, row + _CHUNK_EVENTS)
        yield from zip(first[rows].tolist(), second[rows].tolist(), strict=True)
