"""Time per operator on ONNX Runtime, read from the file that the session's profiler writes.

Theory of operation. A session with profiling records an event for each operator that it runs, and
an event `model_run` at the end of each run. The session writes all events to a file when the
profiling ends. Times are whole microseconds and include the time of the profiler itself: 3 to 15 µs
per operator. In a small model, most of the time of an operator is the time of the profiler. The
time of an operator that contains graphs (`Loop`, `If`) includes the time of the operators in these
graphs, so these inner operators are omitted.

Source: onnxruntime/core/framework/sequential_executor.cc, onnxruntime/core/common/profiler.cc.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low
from typing import Any

from edgebench.agent.runtimes.text import library_line
from edgebench.protocol.errors import ModelRefused
from edgebench.protocol.record import OperatorTime

FILE_PREFIX = "profile-of-operators"
"""Prefix of the name of the profile, a file in the directory in which the worker runs."""
MAX_FILE_BYTES = 8 * 2**20
"""Maximum size of the profile's file; reading the file takes memory of ten times its size."""
BYTES_PER_EVENT = 800
"""Upper bound for the bytes of an event in the file; 600 to 750 were observed."""
NS_PER_US = 1000
_SUFFIX = "_kernel_time"
_WITH_GRAPHS = {"If", "Loop", "Scan", "SequenceMap"}


@dataclass(frozen=True, slots=True)
class _Event:
    """An execution of an operator."""

    name: str
    operator: str
    provider: str
    node: str
    start_us: int
    duration_us: int

    def is_inside(self, other: _Event) -> bool:
        end_us = self.start_us + self.duration_us
        other_end_us = other.start_us + other.duration_us
        return self != other and other.start_us <= self.start_us and end_us <= other_end_us


def affordable_run_count(run_count: int, operator_count: int) -> int:
    """Number of runs, from 1 to `run_count`, whose events fit into the profile's file."""
    return max(1, min(run_count, MAX_FILE_BYTES // (BYTES_PER_EVENT * max(1, operator_count))))


def read_profile(path: str, run_count: int) -> tuple[OperatorTime, ...]:
    """Read the operator times of the last `run_count` runs, and delete the file.

    Raises:
        ModelRefused: the file contains fewer runs, or has another format.
    """
    try:
        runs = _runs(json.loads(Path(path).read_bytes()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise ModelRefused(f"cannot read the profile of onnxruntime: {library_line(exc)}") from exc
    finally:
        Path(path).unlink(missing_ok=True)
    if len(runs) < run_count:
        raise ModelRefused(f"onnxruntime profiled {len(runs)} of {run_count} runs")
    by_operator: dict[tuple[str, str], list[_Event]] = {}
    for run in runs[-run_count:]:
        for event in _outermost(run):
            by_operator.setdefault((event.node, event.name), []).append(event)
    return tuple(_total(index, events) for index, events in enumerate(by_operator.values()))


def _total(index: int, events: Sequence[_Event]) -> OperatorTime:
    first = events[0]
    return OperatorTime(
        index=index,
        operator=library_line(first.operator),
        name=library_line(first.name),
        place=first.provider.removesuffix("ExecutionProvider").lower(),
        count=len(events),
        total_ns=sum(event.duration_us for event in events) * NS_PER_US,
        p50_ns=median_low(event.duration_us for event in events) * NS_PER_US,
    )


def _runs(entries: Sequence[dict[str, Any]]) -> list[list[_Event]]:
    """The operators of each run, in order."""
    runs: list[list[_Event]] = [[]]
    for entry in entries:
        if entry.get("cat") == "Node" and entry["name"].endswith(_SUFFIX):
            runs[-1].append(_event(entry))
        elif entry.get("name") == "model_run":
            runs.append([])
    return runs[:-1]


def _event(entry: dict[str, Any]) -> _Event:
    facts = entry["args"]
    return _Event(
        name=str(entry["name"]).removesuffix(_SUFFIX),
        operator=str(facts["op_name"]),
        provider=str(facts.get("provider", "")),
        node=str(facts.get("node_index", "")),
        start_us=int(entry["ts"]),
        duration_us=int(entry["dur"]),
    )


def _outermost(run: Sequence[_Event]) -> list[_Event]:
    holders = [event for event in run if event.operator in _WITH_GRAPHS]
    return [event for event in run if not any(event.is_inside(holder) for holder in holders)]
