"""Made-up runs: an agent's record, its traces, and a run in a store, made by the real code."""

from __future__ import annotations

import atexit
import hashlib
import json
import pickle
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.latency.queries import Queries
from edgebench.host.analysis.measurement import Traces
from edgebench.host.analysis.run import analyse_run, fit_clock
from edgebench.host.result.document import created_utc
from edgebench.host.result.facts import HostFacts
from edgebench.host.result.outputs import ReferenceAccuracy
from edgebench.host.show.sentences import described
from edgebench.host.store import files
from edgebench.host.store.layout import RAW_DIRECTORY, Store
from edgebench.host.store.recording import write_power
from edgebench.meters.base import Recording
from edgebench.protocol import record as r
from edgebench.protocol import traces
from edgebench.protocol.clock import ClockProbe
from edgebench.protocol.device import CpuDescription, DeviceDescription, Environment
from edgebench.protocol.plain import to_plain
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.telemetry import AbsentSensor, TelemetryFacts
from edgebench.protocol.thermal import CooldownFacts, CooldownOutcome

RUN_ID = "20260102-030405-0123abcd"
CREATED_UTC = "2026-01-02T03:04:05+00:00"
WARMUP_COUNT = 10
BEGIN_NS = 1_000_000
"""Of the first query, device clock."""
SENSORS = ("cpu.all.busy_ratio", "thermal.cpu.0.temp_c")

DEVICE = DeviceDescription(
    id="0011223344556677",
    name="board",
    profile="generic-arm64",
    arch="aarch64",
    soc="brcm,bcm2712",
    os="Debian GNU/Linux 12 (bookworm)",
)
ENVIRONMENT = Environment(
    cpu=CpuDescription("Cortex-A76", 4, 4, 2_400_000_000, "performance"),
    memory_total_bytes=8 * 2**30,
    memory_available_bytes=7 * 2**30,
    swap_used_bytes=0,
    kernel="6.6.31",
    os=DEVICE.os,
    python="3.11.2",
    virtualization=None,
    load_1m=0.2,
    packages={"edgebench": "0.1.0", "tflite-runtime": "2.14.0"},
    agent_version="0.1.0",
)
MODEL = r.ModelFacts("digits.tflite", "ab" * 32, "tflite", 24_376, "int8")


YARDSTICK = r.Yardstick(
    before=r.YardstickReading(13_200.0, 0.02, 4.0e9, 0.1),
    after=r.YardstickReading(13_210.0, 0.03, 3.9e9, 0.2),
)


def latencies(count: int = 500) -> NDArray[np.int64]:
    """Latencies around 100 µs with a tail, always the same."""
    chance = np.random.default_rng(1)
    return (100_000 + chance.exponential(5_000, count)).astype(np.int64)


def worker_record(latency_ns: Sequence[int] | NDArray[np.int64]) -> r.WorkerRecord:
    """A good worker's account of queries with these latencies, one right after another."""
    span_ns = int(np.sum(latency_ns)) + 1_000_000_000
    return r.WorkerRecord(
        model=MODEL,
        runtime=r.RuntimeFacts("tflite", "2.14.0", (), ("xnnpack",)),
        inputs=(r.TensorSpec("in", (1, 8, 8, 1), "int8"),),
        outputs=(r.TensorSpec("out", (1, 10), "int8", 0.5, 0),),
        cold_start=r.ColdStart(50_000_000, 2_000_000, 300_000),
        memory=r.MemoryFacts(40 * 2**20, 2**20),
        harness=r.HarnessFacts(60, 110.5, binding=r.BindingFacts(1_300, 1_000)),
        output=r.OutputFacts("cd" * 32, is_finite=True),
        warmup_query_count=WARMUP_COUNT,
        query_count=len(latency_ns),
        is_interrupted=False,
        before=moment(0),
        after=moment(span_ns),
        scheduling=r.Scheduling((0, 1, 2, 3), "other", 0, quotas=()),
        sample_count=16,
        placement=(r.OperatorPlacement("xnnpack", "CONV_2D", 3),),
        check=r.CheckFacts(sample_count=4, reference="tflite reference kernels"),
        timed_path=r.TimedPathFacts(9),
        yardstick=YARDSTICK,
    )


def moment(after_ns: int, **fields: Any) -> r.Moment:
    """Clocks and counters of a quiet machine with four CPUs, so long after the start."""
    passed_s = after_ns / 1e9
    found = r.Moment(
        monotonic_ns=1_000_000 + after_ns,
        wall_ns=9_000_000 + after_ns,
        own_cpu_s=1.0 + passed_s,
        involuntary_switch_count=3,
        cpu_busy_s=50.0 + 1.04 * passed_s,
        cpu_total_s=100.0 + 4 * passed_s,
        swapped_page_count=7,
        cpu_stall_s=0.5,
        memory_stall_s=0.0,
        io_stall_s=0.0,
        freq_hz=(2_400_000_000,) * 4,
        governors=("performance",),
        suspended_ns=5_000_000_000,
    )
    return replace(found, **fields)


def queries_of(
    latency_ns: NDArray[np.int64], warmup_count: int = WARMUP_COUNT, begin_ns: int = BEGIN_NS
) -> Queries:
    """Queries with these latencies, one right after another; copying takes no time."""
    end_ns = begin_ns + np.cumsum(latency_ns, dtype=np.int64)
    start_ns = end_ns - latency_ns
    sample = np.arange(len(latency_ns), dtype=np.int64) % 16
    return Queries(start_ns, start_ns, start_ns, end_ns, end_ns, sample, warmup_count)


def answers() -> dict[str, NDArray[Any]]:
    """What the model and the reference answered to four samples: one number differs by one."""
    reference = np.arange(40, dtype=np.int8).reshape(4, 1, 10)
    used = reference.copy()
    used[0, 0, 0] += 1
    return {"used.0": used, "reference.0": reference}


def run_record(worker: r.WorkerRecord | None, run_id: str = RUN_ID) -> r.RunRecord:
    """A good agent's account of a run with this worker."""
    return r.RunRecord(
        run_id=run_id,
        owner="f" * 43,
        spec=RunSpec("tflite", duration_s=0.01, min_query_count=100),
        model=replace(MODEL, precision=None),
        device=DEVICE,
        environment=ENVIRONMENT,
        outcome=r.Outcome.COMPLETED,
        worker=worker,
        load_1m_after=0.4,
        cooldown=CooldownFacts(CooldownOutcome.COOL, 5.0, 41.0, 40.0, 44.0, -0.5),
        telemetry=TelemetryFacts(
            sensors=tuple(SENSORS),
            absent=(AbsentSensor("thermal", "no thermal zone"),),
            rate_hz=10.0,
            reading_count=1000,
            cpu_s=0.01,
            wall_s=10.0,
        ),
        events=(r.Event(1_000, "starting"), r.Event(2_000, "loading")),
    )


def query_trace(latency_ns: NDArray[np.int64], begin_ns: int = BEGIN_NS) -> bytes:
    """The packed query trace, as an agent spools it."""
    made = queries_of(latency_ns, begin_ns=begin_ns)
    columns = [getattr(made, column.name) for column in traces.QUERY_COLUMNS]
    packed: bytes = np.concatenate(columns).astype("<i8").tobytes()
    return packed


def traces_of(latency_ns: NDArray[np.int64], warmup_count: int = WARMUP_COUNT) -> Traces:
    """The traces of a good run with these latencies."""
    return Traces(queries_of(latency_ns, warmup_count), answers())


def telemetry_trace(count: int = 20) -> bytes:
    """The packed telemetry trace of the two sensors."""
    time_ns = np.repeat(np.arange(count, dtype="<i8") * 500_000_000, len(SENSORS))
    sensor = np.tile(np.arange(len(SENSORS), dtype="<i8"), count)
    value = np.tile(np.array([0.25, 51.5]), count) + np.arange(2 * count) / 100
    packed: bytes = time_ns.tobytes() + sensor.tobytes() + value.astype("<f8").tobytes()
    return packed


def clock_probes() -> list[list[ClockProbe]]:
    """Two groups of probes of a device that drifts."""
    return [
        [ClockProbe(t, t + 5_000_100 + d, t + 5_000_200 + d, t + 500 + 10 * d) for d in range(4)]
        for t in (1_000_000, 61_000_000)
    ]


def spool_files(
    directory: Path,
    record: r.RunRecord,
    latency_ns: NDArray[np.int64],
    more_answers: Mapping[str, NDArray[Any]] | None = None,
    begin_ns: int = BEGIN_NS,
) -> None:
    """Write what an agent spools of a run."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / traces.RECORD_FILE).write_text(json.dumps(to_plain(record)))
    (directory / traces.QUERIES_FILE).write_bytes(query_trace(latency_ns, begin_ns))
    (directory / traces.TELEMETRY_FILE).write_bytes(telemetry_trace())
    kept: dict[str, Any] = answers() | dict(more_answers or {})
    np.savez(directory / traces.ANSWERS_FILE, **kept)
    (directory / traces.WORKER_LOG_FILE).write_text("INFO: Created XNNPACK delegate.\n")


LABELS = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 0])
JUDGED = HostFacts("digits", "top1", ReferenceAccuracy("run-1", "digits_fp32.tflite", 0.95))


def judged_record(worker: r.WorkerRecord) -> r.WorkerRecord:
    """The account of a worker that answered a data set of ten samples too."""
    return replace(worker, check=replace(worker.check, dataset_sample_count=10))


def profiled_record(record: r.RunRecord) -> r.RunRecord:
    """The account of a run with a profile of two operators."""
    assert record.worker is not None
    operators = (
        r.OperatorTime(0, "CONV_2D", "conv", "xnnpack", 2, 140_000, 70_000),
        r.OperatorTime(1, "SOFTMAX", "softmax", "cpu", 2, 40_000, 20_000),
    )
    check = replace(record.worker.check, operators=operators, profile_run_count=2)
    spec = replace(record.spec, is_profiled=True)
    return replace(record, spec=spec, worker=replace(record.worker, check=check))


def dataset_answers() -> dict[str, NDArray[Any]]:
    """What the model answered to the data set: nine of ten are right."""
    found = np.zeros((10, 1, 10), np.int8)
    found[np.arange(10), 0, LABELS] = 5
    found[3, 0, 0] = 9
    return {"dataset.0": found}


def store_run(
    store: Store, run_id: str = RUN_ID, *, is_judged: bool = False, is_profiled: bool = False
) -> Path:
    """Store a good run, with an accuracy if it is judged; its directory."""
    latency_ns = latencies()
    worker = worker_record(latency_ns)
    record = run_record(judged_record(worker) if is_judged else worker, run_id)
    record = profiled_record(record) if is_profiled else record
    facts = JUDGED if is_judged else HostFacts()
    return put_into_store(store, record, latency_ns, facts=facts)


def put_into_store(
    store: Store,
    record: r.RunRecord,
    latency_ns: NDArray[np.int64],
    *,
    facts: HostFacts,
    probes: list[list[ClockProbe]] | None = None,
    begin_ns: int = BEGIN_NS,
    write_recording: Callable[[Path], Recording] | None = None,
) -> Path:
    """Store what an agent spooled, a host knows and a meter recorded; the run's directory.

    Args:
        store: Where.
        record: Of the agent.
        latency_ns: Of its queries.
        facts: Of the host.
        probes: Of the clock.
        begin_ns: Of the first query.
        write_recording: Writes what the meter recorded. It can be pickled, because the same run is
            analysed once in a process, and copied from then on.
    """
    groups = probes or clock_probes()
    inputs = record, latency_ns, facts, groups, begin_ns, write_recording
    kept = kept_runs() / hashlib.sha256(pickle.dumps(inputs)).hexdigest()
    if not kept.exists():
        made = kept.with_suffix(".made")
        _write_run(made, *inputs)
        made.rename(kept)
    with store.incoming(record.run_id) as directory:
        shutil.copytree(kept, directory, copy_function=shutil.copyfile, dirs_exist_ok=True)
    return store.directory(record.run_id)


@cache
def kept_runs() -> Path:
    """A folder for made-up runs that several tests of this process copy."""
    folder = tempfile.mkdtemp(prefix="edgebench-test-runs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _write_run(
    directory: Path,
    record: r.RunRecord,
    latency_ns: NDArray[np.int64],
    facts: HostFacts,
    groups: list[list[ClockProbe]],
    begin_ns: int,
    write_recording: Callable[[Path], Recording] | None,
) -> None:
    """Files of an analysed run."""
    is_judged = facts.dataset is not None
    more = dataset_answers() if is_judged else {}
    spool_files(directory / RAW_DIRECTORY, record, latency_ns, more, begin_ns)
    queries = files.unpack_traces(directory, record)
    files.write_clock(directory, groups)
    if write_recording:
        write_power(directory, write_recording(directory / RAW_DIRECTORY / traces.METER_FILE))
    files.write_events(directory, record.events)
    files.write_facts(directory, facts, {"y": LABELS} if is_judged else {})
    run = analyse_run(
        record,
        files.read_traces(directory, record, queries),
        created_utc=created_utc(record.run_id) or CREATED_UTC,
        clock=fit_clock(groups, record),
    )
    digests = files.file_digests(directory)
    files.write_run(directory, replace(run, files=digests, verdict=described(run.verdict)))
