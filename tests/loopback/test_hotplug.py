"""Devices that are plugged in and out while their agent runs."""

from __future__ import annotations

import asyncio
import subprocess
import threading
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host, wait_until
from support.started import start
from support.tools import need_runtime
from support.wire import Conversation, tls_context

from edgebench.host.devices.discovery import Access, find_devices
from edgebench.host.devices.files import HostFiles
from edgebench.host.stored_run import StoredRun
from edgebench.host.watch import Absence, StateChange, Update
from edgebench.protocol import messages as m
from edgebench.protocol.errors import ErrorCode, SeatLeft
from edgebench.protocol.record import Phase
from edgebench.protocol.spec import SpecChanges

BOARD = "raspberry-pi-5-cooled"
FIRST = "imx8mp-evk"
AGENT = "rack-simulated"
MODEL = "digits_int8.onnx"
SHORT: SpecChanges = {
    "duration_s": 0.3,
    "min_query_count": 5,
    "warmup_query_count": 1,
    "warmup_duration_s": 0.05,
    "is_checked": False,
    "cooldown_timeout_s": 0.0,
}


@dataclass(frozen=True)
class Rack:
    """An agent with one fixed board, and a directory whose files are the others."""

    agent: AgentProcess
    directory: Path
    host: Host

    def plug_in(self, file: str, serial: str) -> None:
        """Plug a board in."""
        text = f'schema = 1\nboard = "{BOARD}"\nserial = "10000000{serial}"\n'
        (self.directory / f"{file}.toml").write_text(text)

    def unplug(self, file: str) -> None:
        """Pull a board out."""
        (self.directory / f"{file}.toml").unlink()

    def said(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Output of the agent's command line."""
        command = self.agent.command(*words)
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def seat(self, name: str) -> m.SeatState | None:
        """The seat of this name, if there is one."""
        seats = {seat.name: seat for seat in self.agent.status().seats}
        return seats.get(name)

    def until_there(self, name: str) -> m.SeatState:
        """Wait until the device of this seat is present."""
        wait_until(lambda: (s := self.seat(name)) and s.gone_for_s is None, f"{name} is there")
        seat = self.seat(name)
        assert seat is not None
        return seat

    def until_gone(self, name: str) -> None:
        """Wait until the device of this seat has left."""
        wait_until(lambda: (s := self.seat(name)) and s.gone_for_s is not None, f"{name} is gone")

    def until_measured(self, count: int) -> None:
        """Wait until so many devices are in the timed loop of a run."""
        wait_until(
            lambda: (
                sum(seat.phase is Phase.MEASURING for seat in self.agent.status().seats) == count
            ),
            f"{count} are measured",
        )

    def measure(self, seat: str, duration_s: float = 0.3) -> StoredRun:
        """Make a run on this seat."""
        changes: SpecChanges = {**SHORT, "duration_s": duration_s}
        [run] = self.host.lab.bench(MODEL, runs=1, on=[f"{AGENT}/{seat}"], **changes)
        return run


@pytest.fixture(scope="module")
def rack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    """A rack, with a host that is paired with it."""
    need_runtime("onnxruntime")
    folder = tmp_path_factory.mktemp("rack")
    directory = folder / "usb"
    directory.mkdir()
    options = ["--name", "rack", "--simulate", FIRST, "--simulate-directory", str(directory)]
    agent = AgentProcess(folder / "agent", options=options).start()
    host = Host(folder / "host")
    host.lab.pair(agent.pairing_string())
    yield Rack(agent, directory, host)
    agent.kill()


def test_board_that_is_pulled_out_ends_its_run_and_comes_back_under_its_name(rack: Rack) -> None:
    """Otherwise a lost board would hang its run, end the others' runs, or return as a new board."""
    rack.plug_in("nucleo", "A1")
    before = rack.until_there("nucleo")
    errors: list[SeatLeft] = []

    def measured_in_vain() -> None:
        try:
            rack.measure("nucleo", 60.0)
        except SeatLeft as exc:
            errors.append(exc)

    runs: list[StoredRun] = []
    lanes = [
        threading.Thread(target=measured_in_vain),
        threading.Thread(target=lambda: runs.append(rack.measure(FIRST, 3.0))),
    ]
    for count, lane in enumerate(lanes, 1):  # the short run begins when the long one is measured
        lane.start()
        rack.until_measured(count)
    rack.unplug("nucleo")
    for lane in lanes:
        lane.join()
    [error] = errors
    assert "nucleo has been disconnected from its agent since" in str(error)
    assert error.run_id is not None
    failed = rack.host.lab.run(error.run_id).document
    assert failed["failure"]["code"] == "device_gone"
    assert failed["metrics"] is None or failed["metrics"].get("latency_ns") is None
    assert runs[0].document["metrics"]["latency_ns"]["count"] > 0, "the other board's run went on"
    state = rack.seat("nucleo")
    assert state is not None
    assert (state.held_by, state.running, state.device) == (None, None, before.device)
    assert state.gone_for_s is not None

    rack.plug_in("another-port", "A1")
    assert rack.until_there("nucleo").device == before.device
    assert rack.measure("nucleo").document["device"]["id"] == before.device.id
    assert [seat.name for seat in rack.agent.status().seats] == [FIRST, "nucleo"]
    rack.unplug("another-port")


def test_device_that_is_gone_is_listed_and_refused(rack: Rack) -> None:
    """Otherwise an unplugged board would remove its rack from the list, or look usable."""
    rack.plug_in("nucleo", "A1")  # it may be known already
    rack.until_there("nucleo")
    rack.unplug("nucleo")
    rack.until_gone("nucleo")
    # The agent stands for this machine's own, which would otherwise be started.
    found = find_devices(HostFiles(rack.host.config), timeout_s=0.1, state=rack.agent.state)
    listed = {one.name: one for one in found}
    assert listed[f"{AGENT}/{FIRST}"].access is Access.READY
    gone = listed[f"{AGENT}/nucleo"]
    assert (gone.access, gone.system) == (Access.GONE, None)
    assert gone.seat is not None
    assert gone.seat.gone_for_s is not None
    with pytest.raises(SeatLeft, match="device nucleo has been disconnected from its agent since"):
        rack.measure("nucleo")


def test_another_board_never_gets_the_name_of_one_that_is_known(rack: Rack) -> None:
    """Otherwise the runs and the history of a board would be continued by another."""
    rack.plug_in("twin", "T1")
    first = rack.until_there("twin")
    rack.plug_in("twin", "T2")
    second = rack.until_there("twin-2")
    rack.until_gone("twin")
    assert first.device.id != second.device.id
    refused = rack.said("forget", "twin-2")
    assert refused.returncode == 2
    assert "plugged in: unplug it first" in refused.stderr
    assert rack.said("forget", FIRST).returncode == 2
    assert rack.said("forget", "twin").returncode == 0
    assert rack.seat("twin") is None
    rack.plug_in("twin", "T3")
    rack.until_gone("twin-2")
    assert rack.until_there("twin").device.id not in (first.device.id, second.device.id)
    rack.unplug("twin")


def test_run_of_a_board_that_has_left_is_collected_after_a_restart(rack: Rack) -> None:
    """Otherwise runs in an unplugged board's spool would be lost unless it is plugged in again."""
    rack.plug_in("lost", "L1")
    rack.until_there("lost")
    with rack.host.lab.connect(f"{AGENT}/lost") as client:
        run_id = start(client)
    rack.unplug("lost")
    rack.until_gone("lost")
    refused = rack.said("forget", "lost")
    assert refused.stderr.splitlines() == [
        "error: seat 'lost' has uncollected runs: 1",
        "hint: see the seats: edgebench-agent status; collect the runs of a seat, on a host: "
        "edgebench collect --on AGENT/SEAT",
    ]
    port = rack.agent.port
    rack.agent.stop()
    rack.agent.listen = f"127.0.0.1:{port}"
    rack.agent.start()
    state = rack.seat("lost")
    assert state is not None
    assert state.gone_for_s is not None
    [run] = rack.host.lab.collect(on=[f"{AGENT}/lost"])
    assert run.id == run_id
    assert run.document["failure"]["code"] == "device_gone"
    assert rack.agent.status().spooled_count == 0


def test_watcher_hears_of_boards_that_come_and_leave(rack: Rack) -> None:
    """Otherwise a watcher would get a protocol error, or an outdated state."""
    name = f"{AGENT}/watched"
    told: list[Update] = []

    def act(update: Update) -> None:
        if isinstance(update, StateChange | Absence) and update.device == name:
            told.append(update)
            if len(told) in (1, 3):
                rack.unplug("watched")
            elif len(told) == 2:
                rack.plug_in("watched", "W1")

    async def watch() -> None:
        async with aclosing(rack.host.lab.watch(AGENT)) as updates:
            async for update in updates:
                if not told and isinstance(update, StateChange) and FIRST in update.device:
                    rack.plug_in("watched", "W1")
                act(update)
                if len(told) == 4:
                    break

    asyncio.run(asyncio.wait_for(watch(), 90.0))
    assert [type(one) for one in told] == [StateChange, Absence, StateChange, Absence]
    assert [one.reason for one in told if isinstance(one, Absence)] == 2 * [
        "the device is no longer connected to its agent"
    ]


def test_host_of_version_4_has_the_board_that_stays(rack: Rack) -> None:
    """Otherwise an older host would receive what it cannot read when a board leaves."""
    identity = rack.host.folder / "config" / "edgebench" / "host" / "identity.pem"
    with Conversation(rack.agent.port, tls_context(identity)) as link:
        welcome = link.ask(m.Hello(4, "test", "ada", "4"))
        assert isinstance(welcome, m.Welcome)
        assert welcome.device.name == AGENT
        assert isinstance(link.ask(m.Acquire(30.0)), m.Granted)
        rack.plug_in("beside", "B1")
        rack.until_there("beside")
        rack.unplug("beside")
        rack.until_gone("beside")
        assert isinstance(link.ask(m.Probe()), m.ProbeReply)
    with Conversation(rack.agent.port, tls_context(identity)) as link:
        assert isinstance(link.ask(m.Hello(5, "test", "ada", "5", "beside")), m.Welcome)
        for request in (m.Acquire(30.0), m.Describe(), m.ModelOffer(64 * "0", 1)):
            problem = link.ask(request)
            assert isinstance(problem, m.Problem)
            assert problem.code == ErrorCode.DEVICE_GONE
        assert link.ask(m.RunList()) == m.RunListing(())
