"""A finished run with a recording of power, on its way from the device into the store."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from support.energy import header
from support.metered import (
    BEGIN_NS,
    CODES,
    COUNT,
    END_NS,
    EVENTS,
    METER,
    QUERIES_NS,
    probe,
    recorder,
    samples,
)
from support.records import RUN_ID, latencies, run_record, spool_files, worker_record
from support.sessions import FreeDevice, session_of

from edgebench.host.analysis.run import NO_METRICS
from edgebench.host.bench import events
from edgebench.host.bench.collect import HostRecord, collect
from edgebench.host.bench.session import RunPlan
from edgebench.host.bench.verify import verify
from edgebench.host.client import Client
from edgebench.host.result.document import Document, to_document
from edgebench.host.result.facts import EnergyRequest, HostFacts, SetMember
from edgebench.host.result.run import Failure
from edgebench.host.result.verdict import State
from edgebench.host.store import power
from edgebench.host.store.files import write_facts
from edgebench.host.store.host_file import packed_facts
from edgebench.host.store.index import list_runs
from edgebench.host.store.layout import RAW_DIRECTORY, Store
from edgebench.host.store.recording import open_recording, write_power
from edgebench.meters.base import Packet, Recording
from edgebench.meters.polled import HOST_CLOCK
from edgebench.meters.spool import SpoolWriter
from edgebench.protocol.errors import (
    EdgebenchError,
    ErrorCode,
    LinkLost,
    MeasurementError,
    RemoteProtocolError,
    RunNotStored,
    StoreError,
    TargetError,
    UsageError,
    WorkerDied,
)
from edgebench.protocol.messages import RunListing
from edgebench.protocol.record import Event, MeterFacts, Outcome, Phase, RunRecord, SyncFacts
from edgebench.protocol.traces import HOST_FILE, METER_FILE, RECORD_FILE

LATENCY_NS = latencies(COUNT)
WriteSpool = Callable[[Path], object]
PROBES = [[probe(BEGIN_NS)], [probe(END_NS)]]


class FakeClient(FreeDevice):
    """A device with one run; with `write_spool`, the agent recorded a meter, too."""

    def __init__(self, record: RunRecord, write_spool: WriteSpool | None = None) -> None:
        self._record = record
        self._write_spool = write_spool
        self.acknowledged: list[str] = []

    def fetch_run(self, run_id: str, directory: Path) -> None:
        """Write its files."""
        spool_files(directory, self._record, LATENCY_NS, begin_ns=QUERIES_NS)
        if self._write_spool:
            (directory / METER_FILE).unlink(missing_ok=True)
            self._write_spool(directory / METER_FILE)

    def acknowledge(self, run_id: str) -> None:
        """Note that the run may be forgotten."""
        self.acknowledged.append(run_id)


def finished(metered: MeterFacts | None = None) -> RunRecord:
    """Return a run whose energy is known."""
    worker = replace(worker_record(LATENCY_NS), sync=SyncFacts(codes=CODES))
    return replace(run_record(worker), events=EVENTS, metered=metered)


def expect(store: Store) -> Path:
    """Keep the host's files of a run before it starts; return the place of its recording."""
    with store.expecting(RUN_ID) as directory:
        write_facts(directory, HostFacts(energy=EnergyRequest(meter=METER)), {})
    return directory / RAW_DIRECTORY / METER_FILE


def collected(store: Store, client: FakeClient, recording: Recording | None = None) -> Document:
    """Return the document of the run."""
    run = collect(
        cast(Client, client),
        store,
        RUN_ID,
        HostRecord(PROBES, recording.trouble if recording else None),
    )
    assert run is not None
    return to_document(run)


def rapl_spool(*packets: bytes) -> WriteSpool:
    """Return a writer of an energy counter's recording, a tenth of a second per packet."""
    meter = header(clock=HOST_CLOCK, rate_hz=10.0, is_uniform=False)
    averaging = replace(meter.capability, is_averaging=True)
    facts = {"ranges_uj": [1 << 32]}
    rapl = replace(meter, driver="rapl", capability=averaging, facts=facts)

    def write(path: Path) -> None:
        with SpoolWriter(path, rapl) as writer:
            for number, data in enumerate(packets):
                writer.append(Packet(number * 10**8, number * 10**8, data))

    return write


def garbage(path: Path) -> None:
    """Write what is no recording at all."""
    path.write_bytes(b"\x00" * 100)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_half_a_file_of_power_does_not_keep_the_run_on_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Otherwise every later command would fail at the run.

    After Ctrl-C or a full disk, the device would never forget it.
    """
    store, client = Store(tmp_path / "store"), FakeClient(finished())
    recording = recorder(samples(int(LATENCY_NS.sum())))(expect(store))
    write = power._RowGroupWriter._write

    def fail(writer: Any, channel: int) -> None:
        write(writer, channel)
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(power._RowGroupWriter, "_write", fail)
        with pytest.raises((StoreError, KeyboardInterrupt)):
            collected(store, client, recording)
    assert not list(store.root.rglob("power.parquet*"))
    assert collected(store, client)["metrics"]["energy"]["refused"] is None
    assert client.acknowledged == [RUN_ID]


def test_what_a_killed_host_left_of_its_power_goes(tmp_path: Path) -> None:
    """Otherwise half a file would become part of the run, or be taken for its power."""
    store = Store(tmp_path / "store")
    spool = expect(store)
    for name in ("power.parquet", "power.parquet.part"):
        (spool.parent.parent / name).write_bytes(b"PAR1 and no more")
    collected(store, FakeClient(finished()))
    assert not list(store.root.rglob("power.parquet*"))
    assert verify(store, RUN_ID) == []


def test_clock_probes_that_are_damaged_do_not_keep_the_run_on_the_device(tmp_path: Path) -> None:
    """Otherwise, after a power cut, every later command would report that the run stays there."""
    store, client = Store(tmp_path / "store"), FakeClient(finished())
    directory = expect(store).parent.parent
    (directory / "clock.parquet").write_bytes(b"")
    assert collect(cast(Client, client), store, RUN_ID, HostRecord([])) is not None
    assert client.acknowledged == [RUN_ID]
    assert verify(store, RUN_ID) == []


def test_recording_of_a_host_that_went_away_is_used(tmp_path: Path) -> None:
    """Otherwise a link that breaks after the last inference would cost an hour of power."""
    store = Store(tmp_path / "store")
    recorder(samples(int(LATENCY_NS.sum())))(expect(store))
    energy = collected(store, FakeClient(finished()))["metrics"]["energy"]
    assert energy["refused"] is None
    assert energy["gross_j_per_inference"] > 0
    assert verify(store, RUN_ID) == []


def test_run_that_another_host_started_is_complete_but_for_its_meter(tmp_path: Path) -> None:
    """Otherwise a lab's second host would drop a run's set, or not mention requested energy."""
    facts = HostFacts(
        member=SetMember("set-1", 1, 3), energy=EnergyRequest(meter=METER), ambient_c=21.0
    )
    with Store(tmp_path / "first").expecting(RUN_ID) as directory:
        write_facts(directory, facts, {})
        told = packed_facts(directory)
    store = Store(tmp_path / "second")

    def write(path: Path) -> None:
        path.with_name(HOST_FILE).write_bytes(told)

    run = collect(cast(Client, FakeClient(finished(), write)), store, RUN_ID, HostRecord([]))
    assert run.member == facts.member
    assert run.conditions.ambient_c == facts.ambient_c
    energy = run.metrics.energy
    assert energy is not None
    assert energy.gross_j_per_inference is None
    [rule] = [rule for rule in run.verdict.failures if rule.id == "meter"]
    assert "the host that started the run, where the meter was connected" in (rule.detail or "")
    assert verify(store, RUN_ID) == []


def test_recording_that_a_killed_host_cut_short_gives_no_energy(tmp_path: Path) -> None:
    """Otherwise joules of half a run would be printed as those of all of it."""
    store = Store(tmp_path / "store")
    recorder(samples(int(LATENCY_NS.sum()))[:3200])(expect(store))
    document = collected(store, FakeClient(finished()))
    assert "beyond the meter's recording" in document["metrics"]["energy"]["refused"]
    assert verify(store, RUN_ID) == []


@pytest.mark.parametrize(
    ("write_spool", "reason"),
    [
        (rapl_spool(b"\x92\x00"), "complete: the recording of the meter is damaged: "),
        (rapl_spool(b"\x07"), "complete: the recording of the meter is damaged: 'int' object"),
        (rapl_spool(b"\x93\x92\x00\xc4\x011" * 3), "complete: the recording of the meter is"),
        (garbage, "complete: the recording of the meter is damaged: the kind of meter is unknown"),
    ],
)
def test_recording_that_is_damaged_costs_the_energy_alone(
    tmp_path: Path, write_spool: WriteSpool, reason: str
) -> None:
    """Otherwise a flipped bit in the meter's bytes would keep latencies on the device for ever."""
    store = Store(tmp_path / "store")
    expect(store)
    document = collected(store, FakeClient(finished(MeterFacts(METER)), write_spool))
    energy = document["metrics"]["energy"]
    assert document["metrics"]["latency_ns"]["count"] > 10
    assert energy["refused"].startswith(reason)
    assert energy["gross_j_per_inference"] is None
    assert (store.directory(RUN_ID) / RAW_DIRECTORY / METER_FILE).exists()
    assert verify(store, RUN_ID) == []


def test_samples_before_the_damage_stay(tmp_path: Path) -> None:
    """Otherwise what the meter reported before the damage could not be inspected."""
    good = b"\x91\x92\xce\x00\x00\x00%c\xc4\x01%c"
    packets = [good % (number, b"%d" % number) for number in range(5)]
    path = tmp_path / "spool"
    rapl_spool(*packets[:3], b"\xc1", *packets[3:])(path)
    facts = write_power(tmp_path, open_recording(path))
    assert [group.row_count for group in facts.groups] == [2]
    assert facts.loss.received_count == 2
    assert facts.loss.trouble is not None


class Waiting(FakeClient):
    """A device on which the run waits."""

    def list_runs(self) -> RunListing:
        """List the run."""
        return RunListing((RUN_ID,))


def unwanted(event: events.MeasurementEvent) -> None:
    """Fail, as nothing is to happen to any run."""
    raise AssertionError(event)


class Failing(FakeClient):
    """Of two runs that wait, the first cannot be fetched."""

    def __init__(self, error: EdgebenchError) -> None:
        super().__init__(finished())
        self._error = error

    def list_runs(self) -> RunListing:
        """List both."""
        return RunListing(("20260102-030404-0123abcd", RUN_ID))

    def fetch_run(self, run_id: str, directory: Path) -> None:
        """Fetch only the second."""
        if run_id != RUN_ID:
            raise self._error
        super().fetch_run(run_id, directory)


@pytest.mark.parametrize(
    "error",
    [
        TargetError("agent failed: [Errno 5] Input/output error"),
        UsageError("no run waits here for this host"),
        RemoteProtocolError("arrived damaged"),
        StoreError("store not writable"),
        MeasurementError("record makes no sense"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_run_that_cannot_be_fetched_keeps_no_other(tmp_path: Path, error: EdgebenchError) -> None:
    """Otherwise a bad sector under a run of last week would end all measuring on the device."""
    store, client = Store(tmp_path / "store"), Failing(error)
    seen: list[events.MeasurementEvent] = []
    session_of(client, store, seen.append).settle(RunPlan("pi", seen.append))
    doubts = [event.error for event in seen if isinstance(event, events.EarlierRunRejected)]
    [run] = [event.run for event in seen if isinstance(event, events.EarlierRunStored)]
    assert run.run_id == RUN_ID
    [doubt] = doubts
    assert str(error) in str(doubt)
    assert isinstance(doubt, RunNotStored) == isinstance(error, StoreError)
    assert client.acknowledged == [RUN_ID]


def test_run_that_cannot_be_stored_stays_on_the_device(tmp_path: Path) -> None:
    """Otherwise the error of a full disk, after an hour, would not state that nothing is lost."""
    (tmp_path / "file").write_text("")
    client = FakeClient(finished())
    with pytest.raises(RunNotStored, match=f"run {RUN_ID} stays on the device: store not writ"):
        collected(Store(tmp_path / "file"), client)
    assert client.acknowledged == []


class Damaging(FakeClient):
    """A device whose record of the run is cut."""

    def fetch_run(self, run_id: str, directory: Path) -> None:
        """Write half of the record."""
        super().fetch_run(run_id, directory)
        path = directory / RECORD_FILE
        path.write_bytes(path.read_bytes()[:100])


def test_damaged_run_is_no_failure_of_the_store(tmp_path: Path) -> None:
    """Otherwise the user would make room on a disk that is not full."""
    with pytest.raises(EdgebenchError) as caught:
        collected(Store(tmp_path), Damaging(finished()))
    assert not isinstance(caught.value, RunNotStored)


def test_link_that_fails_while_runs_are_fetched_is_told(tmp_path: Path) -> None:
    """Otherwise a lost link would be taken for damaged runs, one after another."""
    client = Failing(LinkLost("gone"))
    with pytest.raises(LinkLost):
        session_of(client, Store(tmp_path), unwanted).settle(RunPlan("pi", unwanted))


def failed_run() -> RunRecord:
    """Return a run whose worker was killed in its warm-up."""
    return replace(
        run_record(None),
        outcome=Outcome.FAILED,
        error_code=int(ErrorCode.WORKER_DIED),
        error="worker was killed by SIGKILL",
        events=(Event(1, "starting"), Event(2, "warming_up"), Event(3, "failed", "killed")),
    )


def test_failed_run_is_stored_with_its_reason_and_no_number(tmp_path: Path) -> None:
    """Otherwise the failed runs of a night would be gone, and their reasons unknown."""
    store = Store(tmp_path / "store")
    expect(store)
    client = FakeClient(failed_run())
    run = collect(cast(Client, client), store, RUN_ID, HostRecord(PROBES))
    assert client.acknowledged == [RUN_ID]
    assert run.failure == Failure(
        code="worker_died", message="worker was killed by SIGKILL", phase=Phase.WARMING_UP
    )
    assert run.metrics == NO_METRICS
    assert run.verdict.state is State.INVALID
    [rule] = run.verdict.rules
    assert (rule.id, rule.detail) == (
        "complete",
        "run failed: worker was killed by SIGKILL",
    )
    assert store.run(RUN_ID) == run
    directory = store.directory(RUN_ID)
    assert (directory / "events.jsonl").read_text().count("\n") == 3
    assert (directory / RAW_DIRECTORY / "record.json").exists()
    [row] = list_runs(store)
    assert (row.verdict, row.latency_ns_p50) == ("failed", None)
    assert verify(store, RUN_ID) == []
    damage(directory)
    assert [one.key for one in verify(store, RUN_ID)] == ["failure.code"]


def damage(directory: Path) -> None:
    """Change the reason in the document."""
    path = directory / "run.json"
    path.write_text(path.read_text().replace('"code": "worker_died",\n  "m', '"code": "x",\n  "m'))


def test_failed_run_of_a_dead_host_is_named_before_it_is_forgotten(tmp_path: Path) -> None:
    """Otherwise a run whose worker and host were killed would vanish without any report."""
    store = Store(tmp_path / "store")
    client = Waiting(failed_run())
    told: list[tuple[str, EdgebenchError, list[str]]] = []

    def keep(event: events.MeasurementEvent) -> None:
        assert isinstance(event, events.EarlierRunFailed)
        told.append((event.run_id, event.error, list(client.acknowledged)))

    session_of(client, store, keep).settle(RunPlan("pi", keep))
    [(run_id, error, acknowledged)] = told
    assert run_id == RUN_ID
    assert isinstance(error, WorkerDied)
    assert (str(error), error.run_id) == ("worker was killed by SIGKILL", RUN_ID)
    assert acknowledged == [], "a host killed in between would have told nobody"
    assert client.acknowledged == [RUN_ID]
    assert store.run_ids() == [RUN_ID]
