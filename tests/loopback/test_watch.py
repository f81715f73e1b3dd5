"""A host watches two real agents: the reported updates, and how a lost agent is shown."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.agents import AgentProcess, Host
from support.tools import need_runtime
from support.watched import until
from support.wire import Conversation, tls_context

from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.watch import Absence, Batch, StateChange, Update, follow
from edgebench.protocol import messages as m
from edgebench.protocol.errors import ErrorCode
from edgebench.protocol.live import WATCH_HZ
from edgebench.protocol.record import Phase
from edgebench.protocol.spec import SpecChanges

RACK = "rack-simulated"
SEATS = ("imx8mp-evk", "imx8mp-evk-2")
DEVICES = ("board", *(f"{RACK}/{seat}" for seat in SEATS))
RUN: SpecChanges = {
    "duration_s": 2.0,
    "min_query_count": 20,
    "warmup_query_count": 1,
    "warmup_duration_s": 0.05,
    "is_checked": False,
    "cooldown_timeout_s": 0.0,
}


@pytest.fixture(scope="module")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, AgentProcess]]:
    """This machine as an agent, and a rack of two simulated boards."""
    options = {
        "board": [],
        RACK: ["--simulate", "imx8mp-evk", "--simulate", "imx8mp-evk:7"],
    }
    made = {
        name: AgentProcess(
            tmp_path_factory.mktemp(name),
            options=["--name", name.removesuffix("-simulated"), *words],
        ).start()
        for name, words in options.items()
    }
    yield made
    for agent in made.values():
        agent.kill()


@pytest.fixture(scope="module")
def host(agents: dict[str, AgentProcess], tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A host that is paired with both."""
    made = Host(tmp_path_factory.mktemp("host") / "h")
    for agent in agents.values():
        made.lab.pair(agent.pairing_string())
    return made


@pytest.fixture
def files(host: Host) -> HostFiles:
    """The host's files."""
    return HostFiles(host.folder / "config" / "edgebench" / "host")


def known(files: HostFiles) -> list[KnownDevice]:
    """Its devices."""
    return list(files.devices())


def batches(updates: list[Update], device: str) -> list[Batch]:
    """Batches of a device."""
    return [one for one in updates if isinstance(one, Batch) and one.device == device]


def test_run_is_seen_while_it_goes_on(host: Host, files: HostFiles) -> None:
    """Otherwise the user, the phase and the temperature of a campaign would not be visible."""
    need_runtime("onnxruntime")
    device = DEVICES[1]
    lane = threading.Thread(
        target=lambda: host.lab.bench("digits_int8.onnx", runs=1, on=[device], **RUN)
    )

    def is_over(heard: list[Update]) -> bool:
        states = [one for one in heard if isinstance(one, StateChange) and one.device == device]
        return any(one.state.running for one in states) and not states[-1].state.running

    updates = asyncio.run(until(files, known(files), is_over, at_start=lane.start))
    lane.join()
    states = [one.state for one in updates if isinstance(one, StateChange) and one.device == device]
    [run_id] = {state.running for state in states} - {None}
    assert any(state.phase is Phase.MEASURING and state.held_by for state in states)
    told = [one.samples for one in batches(updates, device) if one.run_id == run_id]
    full = [one for one in told if len(one) > 5]
    assert full, "no batch has the samples of a second"
    times = [time for samples in told for time in samples.time_ns]
    assert times == sorted(times)
    assert all(20 < temp < 100 for samples in full for temp in samples.temp_c)
    assert all(hz > 1e8 for samples in full for hz in samples.freq_hz[-1:])
    assert max(map(len, told)) <= WATCH_HZ + 2
    others = {one.run_id for other in (DEVICES[0], DEVICES[2]) for one in batches(updates, other)}
    assert others == {None}


def test_killed_agent_is_away_and_comes_back(
    agents: dict[str, AgentProcess], files: HostFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a board that lost power would be shown as it was, or never again."""
    monkeypatch.setattr(follow, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(follow, "LAST_PAUSE_S", 0.2)
    rack = agents[RACK]
    started: list[threading.Thread] = []

    def is_enough(heard: list[Update]) -> bool:
        away = [at for at, one in enumerate(heard) if isinstance(one, Absence)]
        if not away and batches(heard, DEVICES[1]) and rack.process is not None and not started:
            rack.listen = f"127.0.0.1:{rack.port}"
            rack.kill()
        elif away and not started:
            started.append(threading.Thread(target=rack.start))
            started[0].start()
        return bool(away) and all(batches(heard[away[-1] :], one) for one in DEVICES)

    updates = asyncio.run(until(files, known(files), is_enough))
    started[0].join()
    absences = [one for one in updates if isinstance(one, Absence)]
    assert {one.device for one in absences} == set(DEVICES[1:])
    assert absences[0].reason == f"connection to {RACK} was lost"
    assert not any(one.is_final for one in absences)
    last = max(at for at, one in enumerate(updates) if isinstance(one, Absence))
    back = [one for one in updates[last:] if isinstance(one, StateChange)]
    assert {one.device for one in back} == set(DEVICES[1:])


def test_seat_that_is_not_there_is_away(files: HostFiles) -> None:
    """Otherwise a misspelt seat would seem a hostile agent, or be waited for silently."""
    rack = next(one for one in known(files) if one.name == RACK)
    [absence] = asyncio.run(until(files, [rack.at_seat("imx9")], bool))
    assert isinstance(absence, Absence)
    assert not absence.is_final
    assert "no device seat is named 'imx9'" in absence.reason
    assert absence.device == f"{RACK}/imx9"


def test_stranger_is_not_told_of_any_seat(files: HostFiles, tmp_path: Path) -> None:
    """Otherwise anyone on the network could see what a lab measures."""
    device = replace(known(files)[0], name="board")
    [absence] = asyncio.run(until(HostFiles(tmp_path), [device], bool))
    assert isinstance(absence, Absence)
    assert "does not accept this host's identity" in absence.reason


def test_connection_watches_once(agents: dict[str, AgentProcess], host: Host) -> None:
    """Otherwise one connection could subscribe a thousand times and get every update as often."""
    identity = host.folder / "config" / "edgebench" / "host" / "identity.pem"
    with Conversation(agents["board"].port, tls_context(identity)) as link:
        link.hello()
        assert isinstance(link.ask(m.Watch()), m.Seats)
        answer = link.ask(m.Watch())
        while isinstance(answer, (m.SeatReadings, m.SeatChange)):
            answer = link.receive()
        assert isinstance(answer, m.Problem)
        assert answer.code == ErrorCode.USAGE


def test_every_seat_of_every_agent_is_told_of(host: Host) -> None:
    """Otherwise a script would lack idle boards or their temperature, or fail on Ctrl-C."""
    process = host.popen("devices", "--watch", "--json")
    assert process.stdout is not None
    documents: list[dict[str, Any]] = []

    def of(update: str, device: str) -> list[dict[str, Any]]:
        return [one for one in documents if (one["update"], one["device"]) == (update, device)]

    while any(len(of("batch", device)) < 2 for device in DEVICES):
        documents.append(json.loads(process.stdout.readline()))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert {one["device"] for one in documents} == set(DEVICES)
    assert [one["update"] for one in documents[:2]] != ["batch", "batch"]
    for device in DEVICES:
        assert [one["state"]["running"] for one in of("state_change", device)] == [None]
    for device in DEVICES[1:]:
        first, second = of("batch", device)[:2]
        assert list(first) == ["update", "device", "samples", "run_id", "load_1m"]
        assert {name: len(values) for name, values in first["samples"].items()} == {
            "time_ns": 1,
            "temp_c": 1,
            "freq_hz": 1,
        }
        assert 20 < first["samples"]["temp_c"][0] < 100
        assert first["samples"]["freq_hz"] == [None]
        assert second["samples"]["time_ns"][0] - first["samples"]["time_ns"][0] > 0.5e9
