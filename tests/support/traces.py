"""Traces in Perfetto's and Chrome's formats, read back by Perfetto's own schema and by JSON."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from itertools import chain
from typing import Any

import numpy as np
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

from edgebench.host.export import perfetto
from edgebench.host.export.exported import ExportedRun
from edgebench.host.export.run_trace import INFERENCE
from edgebench.host.result.latency import LatencySummary


@dataclass
class Parsed:
    """One run of a trace file, as the format's own schema reads it."""

    title: str
    facts: dict[str, str] = field(default_factory=dict)
    slices: dict[str, list[tuple[str, int, int]]] = field(default_factory=dict)
    """Name, begin and end of each slice, by the name of the track."""
    windows: list[dict[str, str]] = field(default_factory=list)
    """Arguments of the slices of windows."""
    counters: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)

    def latencies_ns(self, name: str) -> list[int]:
        """Durations of the slices of this name, ascending."""
        found = self.slices["inferences"]
        return sorted(end - begin for what, begin, end in found if what == name)


def parse_perfetto(data: bytes) -> list[Parsed]:
    """The runs of a trace; packets that nobody refers to are an error."""
    trace = Trace()
    trace.ParseFromString(data)
    runs: dict[int, Parsed] = {}
    tracks: dict[int, tuple[Parsed, str]] = {}
    open_slices: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        if packet.HasField("track_descriptor"):
            track = packet.track_descriptor
            if track.HasField("process"):
                runs[track.uuid] = Parsed(track.process.process_name)
                assert track.process.pid == len(runs)
                continue
            run = runs[track.parent_uuid]
            tracks[track.uuid] = (run, track.name)
            if track.HasField("counter"):
                run.counters[track.name] = []
                run.units[track.name] = track.counter.unit_name
            else:
                run.slices[track.name] = []
            continue
        event = packet.track_event
        run, name = tracks[event.track_uuid]
        if event.type == TrackEvent.TYPE_COUNTER:
            run.counters[name].append((packet.timestamp, event.double_counter_value))
        elif event.type == TrackEvent.TYPE_SLICE_BEGIN:
            open_slices[event.track_uuid].append((event.name, packet.timestamp))
            facts = {one.name: one.string_value for one in event.debug_annotations}
            if name == "run":
                run.facts = facts
            if name == "windows":
                run.windows.append(facts)
        else:
            assert event.type == TrackEvent.TYPE_SLICE_END
            what, begin_ns = open_slices[event.track_uuid].pop()
            run.slices[name].append((what, begin_ns, packet.timestamp))
    assert not any(open_slices.values())
    return list(runs.values())


def parse_chrome(data: bytes) -> list[Parsed]:
    """The same of Chrome's JSON, whose events have the keys that the format requires."""
    events: list[dict[str, Any]] = json.loads(data)["traceEvents"]
    runs: dict[int, Parsed] = {}
    names: dict[tuple[int, int], str] = {}
    for event in events:
        assert {"ph", "pid", "tid", "name"} <= set(event)
        pid, tid = event["pid"], event["tid"]
        if event["ph"] == "M":
            name = event["args"]["name"]
            if event["name"] == "process_name":
                runs[pid] = Parsed(name)
            else:
                assert event["name"] == "thread_name"
                names[pid, tid] = name
                runs[pid].slices[name] = []
            continue
        begin_ns = round(event["ts"] * 1000)
        if event["ph"] == "C":
            [(unit, value)] = event["args"].items()
            runs[pid].counters.setdefault(event["name"], []).append((begin_ns, value))
            runs[pid].units[event["name"]] = unit
            continue
        assert event["ph"] == "X"
        end_ns = round((event["ts"] + event["dur"]) * 1000)
        name = names[pid, tid]
        runs[pid].slices[name].append((event["name"], begin_ns, end_ns))
        if name == "run":
            runs[pid].facts = event["args"]
        if name == "windows":
            runs[pid].windows.append(event["args"])
    return list(runs.values())


def mean_power_w(run: Parsed, counter: str) -> float:
    """Mean of a counter from the first inference that counts to the end of the last one."""
    times_ns, power_w = (np.array(one) for one in zip(*run.counters[counter], strict=True))
    counted = [times for name, *times in run.slices["inferences"] if name == INFERENCE]
    begin_ns, end_ns = counted[0][0], counted[-1][1]
    assert run.facts["first_query_ns"] == str(begin_ns)
    held_s = np.diff(np.clip(times_ns, begin_ns, end_ns)) / 1e9
    return float(held_s @ power_w[:-1] / held_s.sum())


def window_ns(facts: Mapping[str, str]) -> float:
    """Length of a window by the counter of its device."""
    return int(facts["ticks"]) / float(facts["tick_rate_hz"]) * 1e9


def instructions(facts: Mapping[str, str]) -> list[float]:
    """Instructions of each inference of a window of an emulated device."""
    tick_ns = 1e9 / float(facts["inference_tick_rate_hz"])
    each_ns = [round(int(ticks) * tick_ns) for ticks in facts["inference_ticks"].split()]
    return [one_ns / float(facts["instruction_ns"]) for one_ns in each_ns]


def assert_is_read_back(one: ExportedRun) -> Parsed:
    """What the run says of itself is computed from its Perfetto trace again."""
    out = BytesIO()
    perfetto.write([one], out)
    [found] = parse_perfetto(out.getvalue())
    metrics = one.run.metrics
    assert found.facts["run_id"] == one.run.run_id
    assert found.title.endswith(one.run.marks.label)
    if one.run.verdict.is_refused:
        assert list(found.slices) == ["run"]
        assert found.counters == {}
        return found
    if (summary := metrics.latency_ns) is not None:
        _assert_latencies(found, summary)
    if (windows := metrics.windows) is not None and found.windows[0].get("ticks"):
        each_ns = [window_ns(facts) / int(facts["inferences"]) for facts in found.windows]
        assert windows.duration_ns_per_inference is not None
        assert np.isclose(np.median(each_ns), windows.duration_ns_per_inference)
    if (counted := metrics.instructions_per_inference) is not None:
        each = [one for facts in found.windows for one in instructions(facts)]
        assert np.isclose(np.median(each), counted, rtol=1e-12)
    spans_s = metrics.thermal.throttled_spans_s if metrics.thermal else ()
    first_ns = int(found.facts["first_query_ns"])
    throttled = [
        ((begin_ns - first_ns) / 1e9, (end_ns - first_ns) / 1e9)
        for _, begin_ns, end_ns in found.slices.get("throttled", ())
    ]
    assert np.allclose(np.array(throttled), np.array(spans_s), rtol=0, atol=1e-8)
    for _, begin_ns, end_ns in chain.from_iterable(found.slices.values()):
        assert 0 <= begin_ns <= end_ns <= found.slices["run"][0][2]
    return found


def _assert_latencies(found: Parsed, summary: LatencySummary) -> None:
    """Slices are rounded, of another counter, or the warm-up is among them."""
    latencies_ns = found.latencies_ns(INFERENCE)
    assert len(latencies_ns) == summary.count
    assert (latencies_ns[0], latencies_ns[-1]) == (summary.min, summary.max)
    assert np.isclose(np.mean(latencies_ns), summary.mean)
    if summary.p50 is not None:
        middle = (len(latencies_ns) - 1) // 2, len(latencies_ns) // 2
        assert latencies_ns[middle[0]] <= summary.p50 <= latencies_ns[middle[1]]
