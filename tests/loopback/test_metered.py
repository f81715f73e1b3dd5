"""Runs made for a meter: idle before and after, with marks, and recorded meanwhile."""

from __future__ import annotations

import json
import os
import pty
import tty
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from support.agents import AgentProcess, Host
from support.digits import FOLDER
from support.disks import small_disk
from support.ppk2 import Faults, Ppk2Emulator
from support.recordings import decoded
from support.tools import need_loadgen, need_root, need_runtime, need_tool

from edgebench.agent.worker.sync_line import LOW_NS
from edgebench.host.bench.collect import HostRecord, collect
from edgebench.host.bench.model import open_model
from edgebench.host.bench.run import new_run_id
from edgebench.host.client import Client
from edgebench.meters.spool import read_packets
from edgebench.protocol.errors import UsageError
from edgebench.protocol.messages import Progress, RunEnded
from edgebench.protocol.plain import from_plain
from edgebench.protocol.record import (
    IDLE_ENDED,
    METER_TROUBLE,
    MeterFacts,
    Outcome,
    Phase,
    RunRecord,
    SyncFacts,
)
from edgebench.protocol.spec import Engine, RunSpec, Scenario
from edgebench.protocol.traces import (
    METER_FILE,
    QUERIES_FILE,
    QUERY_COLUMNS,
    RECORD_FILE,
    TELEMETRY_COLUMNS,
    TELEMETRY_FILE,
)

SPEC = RunSpec(
    "litert",
    duration_s=0.3,
    min_query_count=20,
    warmup_query_count=1,
    warmup_duration_s=0.05,
    cooldown_timeout_s=0.0,
    is_checked=False,
)
METER = "synthetic:square,low=0.5,high=1.5,period=0.1"


@dataclass(frozen=True)
class Metered:
    """What a run left: its record, its files, and the phases that were reported to the host."""

    record: RunRecord
    directory: Path
    phases: list[Phase]

    def kinds(self) -> list[str]:
        """Kinds of its events, in order."""
        return [event.kind for event in self.record.events]


@dataclass(frozen=True)
class Bench:
    """An agent, and a host that is paired with it."""

    agent: AgentProcess
    host: Host
    folder: Path

    def client(self) -> Client:
        return self.host.lab.connect("board")

    def run(self, spec: RunSpec, at: dict[Phase, Callable[[Client, str], None]] | None) -> Metered:
        """One run to its end; `at` is called when a phase is reported."""
        model, run_id = open_model(FOLDER / "digits_fp32.tflite"), new_run_id()
        phases = []
        with self.client() as client:
            client.acquire()
            client.push_model(model.path, model.sha256)
            client.start_run(
                *(run_id, spec),
                sha256=model.sha256,
                model_name=model.name,
                size_bytes=model.size_bytes,
            )
            for notice in client.follow_run():
                if isinstance(notice, Progress):
                    phases.append(notice.phase)
                    if at and notice.phase in at:
                        at[notice.phase](client, run_id)
                elif isinstance(notice, RunEnded):
                    assert notice.is_spooled, notice.error
            directory = self.folder / run_id
            directory.mkdir(parents=True)
            client.fetch_run(run_id, directory)
            client.acknowledge(run_id)
        plain = json.loads((directory / RECORD_FILE).read_bytes())
        return Metered(from_plain(plain, RunRecord), directory, phases)


def start(folder: Path, *options: str) -> Bench:
    """A paired agent with these options."""
    need_runtime("ai-edge-litert")
    agent = AgentProcess(folder / "agent", options=["--name", "board", *options]).start()
    host = Host(folder / "host")
    host.lab.pair(agent.pairing_string())
    return Bench(agent, host, folder / "fetched")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """An agent without any wiring."""
    bench = start(tmp_path_factory.mktemp("plain"))
    yield bench
    bench.agent.kill()


def cancel(client: Client, run_id: str) -> None:
    client.request_cancel(run_id)


def test_run_is_idle_before_the_worker_and_after_it(plain: Bench) -> None:
    """Otherwise the idle power would include the loading, or its second window have no end."""
    run = plain.run(replace(SPEC, idle_duration_s=0.4), None)
    assert run.kinds() == [
        *("idle", IDLE_ENDED, "starting", "loading", "warming_up", "measuring"),
        *("spooling", "checking", "idle", IDLE_ENDED),
    ]
    first, first_end, *_, second, second_end = run.record.events
    for begin, end in ((first, first_end), (second, second_end)):
        told_s = float(end.detail.removeprefix("after ").removesuffix(" s"))
        assert 0.4 <= told_s <= (end.time_ns - begin.time_ns) / 1e9 + 0.005  # reported to 10 ms
    assert run.phases.count(Phase.IDLE) == 2
    assert run.record.outcome is Outcome.COMPLETED


def test_run_without_a_meter_is_not_idle(plain: Bench) -> None:
    """Otherwise every run would last longer than before."""
    run = plain.run(SPEC, None)
    assert "idle" not in run.kinds()
    assert Phase.IDLE not in run.phases


def test_stop_ends_the_idle_time_before(plain: Bench) -> None:
    """Otherwise Ctrl-C would take effect only after ten minutes."""
    run = plain.run(replace(SPEC, idle_duration_s=600.0), {Phase.IDLE: cancel})
    assert run.record.outcome is Outcome.FAILED
    assert run.record.error == "stopped before anything was measured"
    assert run.kinds()[:2] == ["idle", IDLE_ENDED]
    assert run.record.events[1].detail.startswith("cut short after ")


def test_stop_ends_the_idle_time_after_and_keeps_the_run(plain: Bench) -> None:
    """Otherwise a complete measurement would be lost with its idle time."""
    seen: list[Phase] = []

    def second(client: Client, run_id: str) -> None:
        seen.append(Phase.IDLE)
        if len(seen) == 2:
            client.request_cancel(run_id)

    run = plain.run(replace(SPEC, idle_duration_s=2.0), {Phase.IDLE: second})
    assert run.record.outcome is Outcome.COMPLETED
    assert run.record.worker is not None
    assert run.record.events[-1].kind == IDLE_ENDED
    assert run.record.events[-1].detail.startswith("cut short after ")


def test_run_that_is_stopped_is_not_idle_after_it(plain: Bench) -> None:
    """Otherwise a user who stops a run would wait for nothing."""
    spec = replace(SPEC, idle_duration_s=0.3, duration_s=60.0)
    run = plain.run(spec, {Phase.MEASURING: cancel})
    assert run.kinds().count("idle") == 1
    assert run.record.outcome is not Outcome.COMPLETED


class Serial:
    """A pseudo-terminal in place of a serial port, and what was written to it."""

    def __init__(self) -> None:
        self._far, self._near = pty.openpty()
        tty.setraw(self._far)
        os.set_blocking(self._far, False)
        self.path = os.ttyname(self._near)

    def taken(self) -> bytes:
        """What arrived since the last call."""
        try:
            return os.read(self._far, 4096)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        os.close(self._far)
        os.close(self._near)


@pytest.fixture(scope="module")
def serial() -> Iterator[Serial]:
    made = Serial()
    yield made
    made.close()


@pytest.fixture(scope="module")
def wired(serial: Serial, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """An agent with a meter, and a line to it."""
    options = ("--meter", "rapl", "--meter", METER, "--sync-line", f"uart:{serial.path}")
    bench = start(tmp_path_factory.mktemp("wired"), *options)
    yield bench
    bench.agent.kill()


def sync(run: Metered) -> SyncFacts:
    """What the worker reports about its marks."""
    assert run.record.worker is not None
    return run.record.worker.sync


def queries(run: Metered) -> tuple[int, int]:
    """Begin of the first timed query and end of the last, nanoseconds."""
    assert run.record.worker is not None
    packed = np.fromfile(run.directory / QUERIES_FILE, "<i8")
    columns = packed.reshape(len(QUERY_COLUMNS), run.record.worker.query_count)
    table = {column.name: row for column, row in zip(QUERY_COLUMNS, columns, strict=True)}
    first = run.record.worker.warmup_query_count
    return int(table["start_ns"][first]), int(table["end_ns"][-1])


def test_marks_are_made_around_the_timed_loop_and_never_in_it(wired: Bench, serial: Serial) -> None:
    """Otherwise a pulse would be part of a latency, or the host could not identify the edges."""
    serial.taken()
    run = wired.run(replace(SPEC, load_code_chip_s=0.005), None)
    assert run.kinds() == [
        *("starting", "loading", "syncing", "warming_up", "measuring", "syncing"),
        *("spooling", "checking"),
    ]
    made = sync(run)
    assert (made.line, made.error) == (f"uart:{serial.path}", None)
    assert serial.taken() == b"\0" * len(made.pulses) == b"\0" * 10
    times = [time_ns for one in made.pulses for time_ns in (one.before_ns, one.after_ns)]
    assert times == sorted(times)
    begin_ns, end_ns = queries(run)
    assert made.pulses[4].after_ns + LOW_NS <= begin_ns
    assert end_ns <= made.pulses[5].before_ns
    for code, before, after in zip(
        made.codes, made.pulses[3::6], (*made.pulses[4:5], None), strict=False
    ):
        assert before.after_ns < code.edges_ns[0]
        assert after is None or code.edges_ns[-1] < after.before_ns
    assert len(made.codes) == 2
    assert made.codes[0].edges_ns[-1] < begin_ns < end_ns < made.codes[1].edges_ns[0]


@pytest.mark.parametrize("scenario", list(Scenario))
@pytest.mark.parametrize("engine", [Engine.NATIVE, Engine.LOADGEN])
def test_every_scenario_and_engine_makes_its_marks(
    wired: Bench, serial: Serial, scenario: Scenario, engine: Engine
) -> None:
    """Otherwise energy would be available for one scenario only."""
    if engine is Engine.LOADGEN:
        need_loadgen()
    serial.taken()
    is_server = scenario is Scenario.SERVER
    spec = replace(
        SPEC,
        scenario=scenario,
        engine=engine,
        target_qps=200.0 if is_server else None,
        target_latency_s=0.1 if is_server else None,
        load_code_chip_s=0.002,
    )
    run = wired.run(spec, None)
    assert run.record.outcome is Outcome.COMPLETED, run.record.error
    assert [len(code.edges_ns) for code in sync(run).codes] == [32, 32]
    assert len(sync(run).pulses) == len(serial.taken()) == 10
    begin_ns, end_ns = queries(run)
    assert sync(run).pulses[4].after_ns < begin_ns
    assert end_ns < sync(run).pulses[5].before_ns


def test_run_that_is_not_metered_makes_no_marks(wired: Bench, serial: Serial) -> None:
    """Otherwise other users of the wire would see marks of runs that were never recorded."""
    serial.taken()
    run = wired.run(SPEC, None)
    assert sync(run) == SyncFacts()
    assert serial.taken() == b""
    assert Phase.SYNCING not in run.phases


def test_stop_ends_the_code_before_the_run(wired: Bench) -> None:
    """Otherwise Ctrl-C would wait for a code of minutes."""
    spec = replace(SPEC, load_code_chip_s=10.0)
    run = wired.run(spec, {Phase.SYNCING: cancel})
    assert run.record.outcome is Outcome.FAILED
    assert run.record.error == "stopped before anything was measured"


def test_stop_in_the_code_after_the_run_keeps_it(wired: Bench) -> None:
    """Otherwise a complete measurement would be lost with the marks after it."""
    seen: list[Phase] = []

    def second(client: Client, run_id: str) -> None:
        seen.append(Phase.SYNCING)
        if len(seen) == 2:
            client.request_cancel(run_id)

    spec = replace(SPEC, load_code_chip_s=0.1, duration_s=0.1)
    run = wired.run(spec, {Phase.SYNCING: second})
    assert run.record.outcome is Outcome.COMPLETED
    assert len(sync(run).codes) == 1


def test_recording_that_would_fill_the_disk_costs_no_latency(tmp_path: Path) -> None:
    """Otherwise a fast meter would leave no room for the results, and the latencies be lost."""
    need_root()
    need_tool("mount")
    meter = "synthetic:constant,power=1,rate=100000"  # 0.8 MB a second
    spec = replace(
        SPEC,
        scenario=Scenario.SERVER,
        target_qps=20.0,
        target_latency_s=0.1,
        duration_s=12.0,
        meter=meter,
    )
    with small_disk(tmp_path / "small", 8 * 2**20) as disk:
        bench = start(disk, "--meter", meter)
        try:
            run = replace(bench, folder=tmp_path / "fetched").run(spec, None)
        finally:
            bench.agent.kill()
    assert run.record.outcome is Outcome.COMPLETED
    assert run.record.metered is not None
    assert "left for the results of the run" in (run.record.metered.trouble or "")
    assert (run.directory / QUERIES_FILE).stat().st_size > 0
    assert len(decoded(run.directory / METER_FILE).power_w) > 0


def test_line_that_cannot_be_opened_ends_no_run(tmp_path: Path) -> None:
    """Otherwise a cable that was pulled out would cost the latencies."""
    bench = start(tmp_path, "--sync-line", f"gpio:{tmp_path}/gpio17/value")
    try:
        run = bench.run(replace(SPEC, idle_duration_s=0.1), None)
    finally:
        bench.agent.kill()
    assert run.record.outcome is Outcome.COMPLETED
    assert sync(run).pulses == ()
    error = sync(run).error
    assert error is not None
    assert error.startswith("sync line not opened: No such file or directory")


def test_agent_says_what_is_wired(wired: Bench, plain: Bench, serial: Serial) -> None:
    """Otherwise a host would wait for edges of a device that has no line."""
    with wired.client() as client:
        found = client.describe()
    assert (found.meters, found.sync_line) == (("rapl", METER), f"uart:{serial.path}")
    with plain.client() as client:
        found = client.describe()
    assert (found.meters, found.sync_line) == ((), None)
    status = wired.agent.status()
    assert (status.meters, status.sync_line) == (("rapl", METER), f"uart:{serial.path}")


def test_meter_records_from_before_the_idle_time_until_after_it(wired: Bench) -> None:
    """Otherwise the idle power would be missing, or the bytes would stay on the device."""
    spec = replace(SPEC, meter=METER, idle_duration_s=0.3, load_code_chip_s=0.005)
    run = wired.run(spec, None)
    assert run.kinds() == [
        *("idle", IDLE_ENDED, "starting", "loading", "syncing", "warming_up", "measuring"),
        *("syncing", "spooling", "checking", "idle", IDLE_ENDED),
    ]
    assert run.record.metered == MeterFacts(METER)
    packets = list(read_packets(run.directory / METER_FILE))
    assert packets[0].first_rx_ns <= run.record.events[0].time_ns
    assert packets[-1].last_rx_ns >= run.record.events[-1].time_ns - 200_000_000
    found = decoded(run.directory / METER_FILE)
    events = run.record.events
    assert len(found.power_w) >= 1000 * (events[-1].time_ns - events[0].time_ns) / 1e9 - 200
    assert 0.9 < found.power_w.mean() < 1.1
    assert len(sync(run).codes) == 2
    assert len(sync(run).pulses) == 10


def test_device_is_watched_while_it_is_idle(plain: Bench) -> None:
    """Otherwise the temperature of the device during its idle power would be unknown."""
    run = plain.run(replace(SPEC, idle_duration_s=1.0), None)  # ten samples; one is enough
    trace = np.fromfile(run.directory / TELEMETRY_FILE, "<i8")
    times_ns = trace[: len(trace) // len(TELEMETRY_COLUMNS)]
    idle_ns = [event.time_ns for event in run.record.events if event.kind in ("idle", IDLE_ENDED)]
    for begin_ns, end_ns in (idle_ns[:2], idle_ns[2:]):
        assert np.any((begin_ns < times_ns) & (times_ns < end_ns))


def test_run_without_a_meter_has_no_recording(wired: Bench) -> None:
    """Otherwise each run would carry megabytes that were not requested."""
    run = wired.run(SPEC, None)
    assert run.record.metered is None
    assert not (run.directory / METER_FILE).exists()


def test_meter_that_is_not_served_is_refused_and_nothing_is_left(wired: Bench) -> None:
    """Otherwise a host could open any device file there, or run an hour without a recording."""
    with pytest.raises(UsageError) as refused:
        wired.run(replace(SPEC, meter="ppk2:/dev/ttyACM7"), None)
    said = f"meter 'ppk2:/dev/ttyACM7' is not served by this agent, which serves rapl, {METER}"
    assert str(refused.value) == said
    assert wired.agent.status().running is None
    assert list((wired.agent.state / "work").iterdir()) == []


def test_meter_that_is_pulled_out_costs_the_run_no_latency(tmp_path: Path) -> None:
    """Otherwise a loose cable would lose the measurement, or half the power be missing silently."""
    with Ppk2Emulator(faults=Faults(gone_after_s=0.5)) as emulator:
        meter = f"ppk2:{emulator.path},supply=3.3"
        bench = start(tmp_path, "--meter", meter)
        try:
            run = bench.run(replace(SPEC, meter=meter, duration_s=1.0), None)
        finally:
            bench.agent.kill()
    assert run.record.outcome is Outcome.COMPLETED
    assert run.record.metered is not None
    assert run.record.metered.trouble is not None
    assert "is gone" in run.record.metered.trouble
    assert run.record.events[-1].kind == METER_TROUBLE
    assert (run.directory / METER_FILE).stat().st_size > 10_000
    begin_ns, end_ns = queries(run)
    assert end_ns - begin_ns >= 900_000_000


def test_meter_that_is_not_there_costs_the_run_no_latency(tmp_path: Path) -> None:
    """Otherwise an hour of measurement would be lost because the meter was borrowed."""
    meter = f"ppk2:{tmp_path}/ttyACM0"
    bench = start(tmp_path, "--meter", meter)
    try:
        run = bench.run(replace(SPEC, meter=meter), None)
    finally:
        bench.agent.kill()
    assert run.record.outcome is Outcome.COMPLETED
    assert run.record.metered is not None
    assert run.record.metered.trouble is not None
    assert f"{tmp_path}/ttyACM0" in run.record.metered.trouble
    assert not (run.directory / METER_FILE).exists()


def test_metered_run_reaches_the_store(wired: Bench) -> None:
    """Otherwise the marks, the idle times or the bytes would be lost on the way into the store."""
    spec = replace(SPEC, meter=METER, idle_duration_s=0.2, load_code_chip_s=0.005)
    store, model, run_id = wired.host.lab.store, "digits_fp32.tflite", new_run_id()
    found = open_model(FOLDER / model)
    with wired.client() as client:
        client.acquire()
        client.push_model(found.path, found.sha256)
        client.start_run(
            run_id, spec, sha256=found.sha256, model_name=model, size_bytes=found.size_bytes
        )
        for _ in client.follow_run():
            pass
        stored = collect(client, store, run_id, HostRecord([client.probe_clock()]))
    assert stored is not None
    raw = store.directory(run_id) / "raw"
    record = from_plain(json.loads((raw / RECORD_FILE).read_bytes()), RunRecord)
    assert record.worker is not None
    assert len(record.worker.sync.codes) == 2
    assert len(record.worker.sync.pulses) == 10
    assert [event.kind for event in record.events].count("idle") == 2
    assert len(decoded(raw / METER_FILE).power_w) > 500
