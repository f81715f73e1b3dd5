"""Runs that cannot be analysed: set aside with their files, listed, removed, analysed again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from support.records import RUN_ID, latencies, run_record, spool_files, worker_record
from support.sessions import FreeDevice, session_of

from edgebench.host.bench import events
from edgebench.host.bench import finish as finish_module
from edgebench.host.bench.collect import (
    HostRecord,
    analyse_set_aside,
    collect,
)
from edgebench.host.bench.session import RunPlan
from edgebench.host.bench.verify import verify
from edgebench.host.cli.main import main
from edgebench.host.client import Client
from edgebench.host.result.run import Run
from edgebench.host.store import set_aside as set_aside_module
from edgebench.host.store.incomplete import incomplete_runs
from edgebench.host.store.layout import Store
from edgebench.host.store.set_aside import runs_set_aside
from edgebench.protocol.errors import EdgebenchError, RunDamaged, RunNotStored, RunSetAside
from edgebench.protocol.messages import RunListing
from edgebench.protocol.traces import RECORD_FILE

LATENCY_NS = latencies()


class Device(FreeDevice):
    """A device with one run, which is damaged until it is repaired."""

    def __init__(self, damage: bytes | None = b"{}") -> None:
        self.damage = damage
        self.waiting = [RUN_ID]

    def fetch_run(self, run_id: str, directory: Path) -> None:
        """Write the files of the run."""
        spool_files(directory, run_record(worker_record(LATENCY_NS)), LATENCY_NS)
        if self.damage is not None:
            (directory / RECORD_FILE).write_bytes(self.damage)

    def list_runs(self) -> RunListing:
        """List the runs that wait."""
        return RunListing(tuple(self.waiting))

    def acknowledge(self, run_id: str) -> None:
        """Forget the run."""
        self.waiting.remove(run_id)


def waiting(device: Device, store: Store) -> list[EdgebenchError]:
    """Errors of the runs that a later command finds on the device."""
    doubts: list[EdgebenchError] = []

    def keep(event: events.MeasurementEvent) -> None:
        if isinstance(event, (events.EarlierRunRejected, events.EarlierRunFailed)):
            doubts.append(event.error)

    session_of(device, store, keep).settle(RunPlan("pi", keep))
    return doubts


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")


def test_own_run_is_set_aside_and_the_device_forgets_it(store: Store) -> None:
    """Otherwise it would stay in the spool, in the way of each later command."""
    device = Device()
    with pytest.raises(RunSetAside, match=rf"^run {RUN_ID} cannot be analysed: .*set-aside"):
        collect(cast(Client, device), store, RUN_ID, HostRecord([]))
    assert device.waiting == []
    assert incomplete_runs(store) == []
    [one] = runs_set_aside(store)
    assert (one.directory / "raw" / RECORD_FILE).read_bytes() == b"{}"
    assert one.fault is not None
    assert one.fault.error.startswith("record of the run is not readable: ")
    assert one.fault.software.startswith("edgebench ")


def test_earlier_run_that_was_set_aside_is_not_fetched_again(store: Store) -> None:
    """A host that was killed before it acknowledged the run accepts its second copy."""
    device = Device()
    assert [type(one) for one in waiting(device, store)] == [RunSetAside]
    device.waiting, device.damage = [RUN_ID], None
    assert [type(one) for one in waiting(device, store)] == [RunSetAside]
    assert device.waiting == []


@pytest.mark.parametrize(
    "error", [MemoryError("3 GB"), RecursionError("too deep"), KeyError("x"), SystemError("null")]
)
def test_whatever_the_analysis_meets_is_one_named_error(
    store: Store, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Otherwise our next defect would be a traceback, and make the device unusable."""

    def fail(*_: object) -> Run:
        raise error

    monkeypatch.setenv("XDG_STATE_HOME", str(store.root.parent / "state"))
    monkeypatch.setattr(finish_module, "read_traces", fail)
    device = Device(damage=None)
    [doubt] = waiting(device, store)
    assert isinstance(doubt, RunSetAside)
    named = "not enough memory for the analysis: 3 GB"
    if not isinstance(error, MemoryError):
        named = f"unforeseen {type(error).__name__} in analysis: "
    assert f"run {RUN_ID} cannot be analysed: {named}" in str(doubt)
    assert device.waiting == []


def test_full_disk_says_nothing_of_the_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise every run that is fetched onto a full disk would be reported as damaged."""

    def fail(*_: object) -> Run:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(finish_module, "write_events", fail)
    device = Device(damage=None)
    with pytest.raises(RunNotStored, match="stays on the device"):
        collect(cast(Client, device), store, RUN_ID, HostRecord([]))
    assert device.waiting == [RUN_ID]
    assert runs_set_aside(store) == []


def test_beyond_the_limit_runs_stay_on_the_device(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a device that sends only such runs would fill the disk."""
    monkeypatch.setattr(set_aside_module, "MAX_RUNS", 0)
    device = Device()
    [doubt] = waiting(device, store)
    assert type(doubt) is RunDamaged
    assert "0 runs are set aside already" in str(doubt)
    assert device.waiting == [RUN_ID]


def test_later_version_analyses_it_again(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a defect of one version would cost the measurement."""

    def fail(*_: object) -> Run:
        raise ZeroDivisionError

    doubts: list[str] = []

    def doubt(run_id: str, _: EdgebenchError) -> None:
        doubts.append(run_id)

    with monkeypatch.context() as patch:
        patch.setattr(finish_module, "analyse_run", fail)
        waiting(Device(damage=None), store)
        assert analyse_set_aside(store, on_doubt=doubt) == []
    assert doubts == [RUN_ID]
    assert incomplete_runs(store) == []
    [run] = analyse_set_aside(store, on_doubt=doubt)
    assert run.run_id == RUN_ID
    assert runs_set_aside(store) == []
    assert verify(store, RUN_ID) == []


def test_commands_list_remove_and_retry_it(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise files would exist that no command names."""
    waiting(Device(), store)
    at = ["--store", str(store.root)]
    assert main(["runs", *at]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith(f"run {RUN_ID} (")
    assert "edgebench collect --set-aside" in lines[2]
    assert main(["collect", "--set-aside", *at]) == 0
    assert f"warning: run {RUN_ID} cannot be analysed: " in capsys.readouterr().err
    assert main(["prune", "--older-than", "2020-01-01", "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == []
    assert main(["prune", "--older-than", "1d", "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == [RUN_ID]
    assert main(["rm", RUN_ID, *at]) == 0
    assert len(runs_set_aside(store)) == 1
    capsys.readouterr()
    assert main(["rm", RUN_ID, "--yes", "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == [RUN_ID]
    assert runs_set_aside(store) == []
