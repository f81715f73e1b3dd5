"""A run followed by another process than that which started it: whose probes count."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.records import RUN_ID, latencies, run_record, spool_files, worker_record
from support.sessions import FreeDevice, session_of

from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.collect import left_probes
from edgebench.host.bench.events import raise_failures
from edgebench.host.bench.follow import follow
from edgebench.host.bench.run import OpenDevice
from edgebench.host.store.files import read_clock, write_clock
from edgebench.host.store.incomplete import ExpectedRun, write_expectation
from edgebench.host.store.layout import Store
from edgebench.protocol.clock import ClockProbe
from edgebench.protocol.errors import LeaseHeld
from edgebench.protocol.messages import RunEnded, RunListing
from edgebench.protocol.record import Outcome

LATENCY_NS = latencies(200)
RECORD = run_record(worker_record(LATENCY_NS))
LEFT = ClockProbe(1_000_000_000, 5_000_100_000, 5_000_150_000, 1_000_250_000)


def later(elapsed_ns: int, *, ahead_ns: int = 0) -> ClockProbe:
    """Return the same exchange so much later, on a clock that was moved meanwhile."""
    times = (LEFT.t0, LEFT.t1 + ahead_ns, LEFT.t2 + ahead_ns, LEFT.t3)
    return ClockProbe(*(time_ns + elapsed_ns for time_ns in times))


class FakeClient(FreeDevice):
    """A device whose run ends as soon as it is followed."""

    def __init__(self, probe: ClockProbe) -> None:
        self._probe = probe
        self._is_running = True
        self.acknowledged: list[str] = []

    def list_runs(self) -> RunListing:
        return RunListing((), RUN_ID) if self._is_running else RunListing((RUN_ID,))

    def follow(self, run_id: str) -> None:
        assert run_id == RUN_ID

    def follow_run(self) -> list[RunEnded]:
        self._is_running = False
        return [RunEnded(RUN_ID, Outcome.COMPLETED)]

    def probe_clock(self) -> list[ClockProbe]:
        return [self._probe]

    def fetch_run(self, run_id: str, directory: Path) -> None:
        spool_files(directory, RECORD, LATENCY_NS)

    def acknowledge(self, run_id: str) -> None:
        self.acknowledged.append(run_id)


class HeldClient(FakeClient):
    """A device that another user holds, without following the run."""

    def acquire(self, wait_s: float) -> None:
        raise LeaseHeld("device is in use by ada")


def device_of(
    store: Store, client: FakeClient, cancellation: Cancellation | None = None
) -> OpenDevice:
    """Return a device behind this client."""
    return session_of(client, store, raise_failures, cancellation)


@pytest.mark.parametrize(
    ("probe", "is_kept"),
    [
        (later(10**10), True),
        (later(10**10, ahead_ns=1_900_000), True),
        (later(10**10, ahead_ns=3_000_000), False),
        (later(-(10**8)), False),
    ],
    ids=["steady", "drifted by 190 ppm", "slept for 3 ms", "started anew"],
)
def test_probes_of_two_processes_are_of_one_clock(
    tmp_path: Path, probe: ClockProbe, is_kept: bool
) -> None:
    """Otherwise, after a restart, energy would be laid on a line drawn through two clocks."""
    store, client = Store(tmp_path), FakeClient(probe)
    with store.expecting(RUN_ID) as directory:
        write_expectation(directory, ExpectedRun("1", "pi", "tls", "m.tflite", probes=(LEFT,)))
    assert follow(device_of(store, client), RUN_ID).run_id == RUN_ID
    assert client.acknowledged == [RUN_ID]
    kept = read_clock(store.directory(RUN_ID))
    assert kept == ([[LEFT], [probe]] if is_kept else [[LEFT]])


def test_all_probes_that_were_left_count_before_those_of_the_start(tmp_path: Path) -> None:
    """Otherwise a host killed while it stores a run would lose the probes of the run's end."""
    probe = later(10**10)
    write_expectation(tmp_path, ExpectedRun("1", "pi", "tls", "m.tflite", probes=(LEFT,)))
    assert left_probes(tmp_path) == [[LEFT]]
    write_clock(tmp_path, [[LEFT], [probe]])
    assert left_probes(tmp_path) == [[LEFT], [probe]]
    (tmp_path / "clock.parquet").write_bytes(b"")
    assert left_probes(tmp_path) == [[LEFT]]


def test_run_that_another_keeps_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a process that hangs at a finished run would hang all later processes."""
    monkeypatch.setattr("edgebench.host.bench.follow.TAKEOVER_TIMEOUT_S", 0.0)
    with pytest.raises(LeaseHeld, match="in use by ada"):
        follow(device_of(Store(tmp_path), HeldClient(later(1))), RUN_ID)


class CancellingClient(HeldClient):
    """A device that another user holds, whose own user cancels the wait."""

    def __init__(self, cancellation: Cancellation) -> None:
        super().__init__(later(1))
        self._cancellation = cancellation

    def acquire(self, wait_s: float) -> None:
        """Refuse, after the user has cancelled."""
        self._cancellation.request()
        super().acquire(wait_s)


def test_wait_for_another_process_can_be_cancelled(tmp_path: Path) -> None:
    """Otherwise Ctrl-C would end the other lanes, and this lane would wait for a minute more."""
    cancellation = Cancellation()
    client = CancellingClient(cancellation)
    with pytest.raises(Interrupted):
        follow(device_of(Store(tmp_path), client, cancellation), RUN_ID)
