"""Watching many agents, some of which send false data: each can only end its own watch."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from support.records import DEVICE
from support.watched import (
    SEAT,
    STATE,
    WATCH_NUMBER,
    Behave,
    agent_at_loopback,
    batch,
    greet,
    saying,
    until,
    well_behaved,
)
from websockets.asyncio.server import ServerConnection

from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.transports import async_links
from edgebench.host.transports.base import Endpoint
from edgebench.host.transports.pinned import PlainStream
from edgebench.host.watch import Absence, Batch, StateChange, Update, farm, follow, watch
from edgebench.protocol import messages as m
from edgebench.protocol.codec import encode
from edgebench.protocol.live import MAX_SAMPLES, LiveSamples, pack_samples

LIES: dict[str, bytes | str] = {
    "no frame": b"\xff" * 40,
    "text": "hello",
    "another message": encode(WATCH_NUMBER, m.Done()),
    "another seat": encode(WATCH_NUMBER, m.SeatReadings("other", 0)),
    "fewer samples than it says": encode(WATCH_NUMBER, m.SeatReadings(SEAT, 3), b"\0" * 71),
    "too many samples": encode(
        WATCH_NUMBER, m.SeatReadings(SEAT, MAX_SAMPLES + 1), b"\0" * 24 * (MAX_SAMPLES + 1)
    ),
    "negative count": encode(WATCH_NUMBER, m.SeatReadings(SEAT, -1)),
}  # fmt: skip


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses too short to slow the tests down."""
    monkeypatch.setattr(follow, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(follow, "LAST_PAUSE_S", 0.05)


@pytest.fixture
def files(tmp_path: Path) -> HostFiles:
    """Files of a host."""
    return HostFiles(tmp_path / "host")


async def watched(
    files: HostFiles, folder: Path, behaves: dict[str, Behave], is_enough: object
) -> list[Update]:
    """Updates of agents that behave as given."""
    assert callable(is_enough)
    async with AsyncExitStack() as stack:
        devices = [
            (await stack.enter_async_context(agent_at_loopback(folder, name, behave)))[0]
            for name, behave in behaves.items()
        ]
        return await until(files, devices, is_enough)


def batches(updates: list[Update], device: str) -> int:
    """Number of batches of a device."""
    return sum(isinstance(update, Batch) and update.device == device for update in updates)


def absences(updates: list[Update], device: str = "") -> list[Absence]:
    """Absences of a device, or of all."""
    return [
        update
        for update in updates
        if isinstance(update, Absence) and (not device or update.device == device)
    ]


def test_state_comes_first_and_then_batches(files: HostFiles, tmp_path: Path) -> None:
    """Otherwise a watcher would receive readings of a device without knowing who uses it."""
    updates = asyncio.run(
        watched(files, tmp_path, {"a": well_behaved}, lambda heard: batches(heard, "a") == 2)
    )
    assert updates[0] == StateChange("a", STATE)
    samples = LiveSamples((0, 1, 2), (50.0, 51.0, 52.0), (1e9, 1e9, 1e9))
    assert updates[1:] == [Batch("a", samples, None, 0.5)] * 2


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_lie_of_an_agent_ends_its_own_watch_only(
    files: HostFiles, tmp_path: Path, lie: bytes | str
) -> None:
    """Otherwise hostile data of one device would end the watch of the whole farm."""

    def is_enough(heard: list[Update]) -> bool:
        ended = next((at for at, one in enumerate(heard) if isinstance(one, Absence)), None)
        return ended is not None and batches(heard[ended:], "good") >= 3

    behaves = {"good": well_behaved, "evil": saying(lie)}
    updates = asyncio.run(watched(files, tmp_path, behaves, is_enough))
    [absence] = absences(updates)
    assert (absence.device, absence.is_final) == ("evil", True)
    assert not batches(updates, "evil")


def test_agent_that_invents_seats_has_a_limit(files: HostFiles, tmp_path: Path) -> None:
    """Otherwise a hostile agent could fill the host's memory with ever new seats."""

    async def invent(connection: ServerConnection) -> None:
        await greet(connection)
        for number in range(m.MAX_SEATS + 1):
            state = m.SeatState(f"seat{number}", DEVICE)
            await connection.send(encode(WATCH_NUMBER, m.SeatChange(state)))
        await connection.wait_closed()

    updates = asyncio.run(watched(files, tmp_path, {"evil": invent}, absences))
    names = {update.device for update in updates if isinstance(update, StateChange)}
    assert names == {"evil", *(f"evil/seat{number}" for number in range(m.MAX_SEATS - 1))}
    last = absences(updates)[-1]
    assert last.is_final
    assert f"a device that is not watched: 'seat{m.MAX_SEATS - 1}'" in last.reason


def test_rack_may_see_more_boards_in_a_year_than_it_has_seats(
    files: HostFiles, tmp_path: Path
) -> None:
    """Otherwise a watch that is long enough would end, as if the agent had sent false data."""

    async def rotate(connection: ServerConnection) -> None:
        await greet(connection)
        for number in range(2 * m.MAX_SEATS):
            for gone_for_s in (None, 0.0):
                state = m.SeatState(f"seat{number}", DEVICE, gone_for_s=gone_for_s)
                await connection.send(encode(WATCH_NUMBER, m.SeatChange(state)))
        await connection.send(batch())
        await connection.wait_closed()

    def is_enough(heard: list[Update]) -> bool:
        return bool(batches(heard, "a")) or any(absence.is_final for absence in absences(heard))

    updates = asyncio.run(watched(files, tmp_path, {"a": rotate}, is_enough))
    assert batches(updates, "a") == 1
    assert len(absences(updates)) == 2 * m.MAX_SEATS


def test_seat_whose_device_has_left_is_away_though_its_agent_speaks(
    files: HostFiles, tmp_path: Path
) -> None:
    """Otherwise an unplugged board would look idle, or its agent would look dead."""
    gone = m.SeatState(SEAT, DEVICE, gone_for_s=60.0)
    frames = (
        encode(WATCH_NUMBER, m.SeatChange(gone)),
        encode(WATCH_NUMBER, m.SeatReadings(SEAT, 0)),
        encode(WATCH_NUMBER, m.SeatChange(STATE)),
        batch(),
    )

    def is_enough(heard: list[Update]) -> bool:
        return bool(batches(heard, "a"))

    updates = asyncio.run(watched(files, tmp_path, {"a": saying(*frames)}, is_enough))
    assert [type(update) for update in updates] == [StateChange, Absence, StateChange, Batch]
    [absence] = absences(updates)
    assert absence.reason == "the device is no longer connected to its agent"
    assert not absence.is_final
    assert 59 < time.time() - absence.since_s < 600


def test_flood_ends_the_watch_of_its_sender(files: HostFiles, tmp_path: Path) -> None:
    """Otherwise a device that sends without a pause would take the host's core from the others."""

    async def flood(connection: ServerConnection) -> None:
        await greet(connection)
        while True:
            await connection.send(batch(1))
            await asyncio.sleep(0)

    updates = asyncio.run(watched(files, tmp_path, {"evil": flood, "good": well_behaved}, absences))
    [absence] = absences(updates)
    assert absence.is_final
    assert "limit 100 within 10 s" in absence.reason
    assert batches(updates, "evil") == follow.NOTICES_PER_SEAT


def test_watch_ends_when_every_agent_has_lied(files: HostFiles, tmp_path: Path) -> None:
    """Otherwise a script would wait for ever for devices that are not tried again."""

    async def all_of_it() -> list[Update]:
        async with agent_at_loopback(tmp_path, "evil", saying(b"?")) as (device, _):
            return [update async for update in watch([device], files)]

    assert [type(one) for one in asyncio.run(all_of_it())] == [StateChange, Absence]


def test_wrong_agent_gets_no_byte(files: HostFiles, tmp_path: Path) -> None:
    """Otherwise a stranger at a device's address would learn the host's name, or be trusted."""

    async def meet() -> tuple[list[Update], list[bytes]]:
        async with agent_at_loopback(tmp_path, "other", well_behaved) as (device, got):
            wanted = replace(device, name="board", pin="A" * 43)
            return await until(files, [wanted], lambda heard: bool(heard)), got

    [absence], got = asyncio.run(meet())
    assert isinstance(absence, Absence)
    assert "is not the paired agent" in absence.reason
    assert not absence.is_final
    assert got == []


def test_device_that_goes_and_comes_is_away_meanwhile(files: HostFiles, tmp_path: Path) -> None:
    """Otherwise a restarted board would stay dead in the table, or show its old state as new."""

    async def cut_off(connection: ServerConnection) -> None:
        await greet(connection)
        await connection.send(batch())
        connection.transport.abort()

    def is_enough(heard: list[Update]) -> bool:
        return batches(heard, "a") == 3

    updates = asyncio.run(watched(files, tmp_path, {"a": cut_off}, is_enough))
    kinds = [StateChange, Batch, Absence]
    assert [type(update) for update in updates] == [*kinds, *kinds, *kinds[:2]]
    assert [absence.reason for absence in absences(updates)] == ["connection to a was lost"] * 2


def test_nobody_at_the_address_is_told_once(files: HostFiles, tmp_path: Path) -> None:
    """Otherwise a thousand devices that are off would fill the log with one line a second."""

    async def meet() -> list[Update]:
        async with agent_at_loopback(tmp_path, "good", well_behaved) as (good, _):
            # Port 1 of loopback (tcpmux): no process listens there.
            off = KnownDevice("off", "off", "B" * 43, ("127.0.0.1",), 1)
            return await until(files, [off, good], lambda heard: batches(heard, "good") >= 6)

    [absence] = absences(asyncio.run(meet()))
    assert (absence.device, absence.is_final) == ("off", False)
    assert "Connection refused" in absence.reason


def test_device_that_is_off_keeps_no_slot_from_the_others(
    files: HostFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a rack that is off would delay each other device by ten seconds a board."""
    monkeypatch.setattr(farm, "PARALLEL_HANDSHAKES", 1)
    monkeypatch.setattr(async_links, "QUICK_S", 0.01)
    connect = async_links._open_tcp

    async def connect_or_hang(place: Endpoint) -> PlainStream:
        if place.name == "off":
            await asyncio.Event().wait()
        return await connect(place)

    monkeypatch.setattr(async_links, "_open_tcp", connect_or_hang)

    async def meet() -> list[Update]:
        async with agent_at_loopback(tmp_path, "good", well_behaved) as (good, _):
            off = [
                KnownDevice("off", str(number), f"{number:043}", ("127.0.0.1",), 1)
                for number in range(5)
            ]
            return await until(files, [*off, good], lambda heard: batches(heard, "good") > 0)

    assert not absences(asyncio.run(meet()))


def test_agent_that_is_too_old_says_so(files: HostFiles, tmp_path: Path) -> None:
    """Otherwise an agent of protocol 4 would get an unknown message, and look hostile."""

    async def old(connection: ServerConnection) -> None:
        await greet(connection, protocol=m.SEATS_SINCE - 1)

    [absence] = asyncio.run(watched(files, tmp_path, {"old": old}, lambda heard: bool(heard)))
    assert isinstance(absence, Absence)
    assert "too old" in absence.reason


def test_silent_agent_is_away(
    files: HostFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a board that hangs while connected would show its last temperature for ever."""
    monkeypatch.setattr(follow, "SILENCE_S", 0.1)
    monkeypatch.setattr("edgebench.host.watch.farm.CHECK_S", 0.05)
    updates = asyncio.run(watched(files, tmp_path, {"mute": saying()}, absences))
    assert absences(updates)[0].reason == "no data from mute for 0 s"


def test_several_seats_have_their_names(files: HostFiles, tmp_path: Path) -> None:
    """Otherwise readings of one board of a rack would be shown for another board."""
    states = (STATE, m.SeatState("pi5", DEVICE))

    async def rack(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.send(encode(1, m.Welcome(m.PROTOCOL_VERSION, "", DEVICE)))
        await connection.recv()
        await connection.send(encode(WATCH_NUMBER, m.Seats(states)))
        sample = pack_samples([(1, 40.0, 1e9)])
        await connection.send(encode(WATCH_NUMBER, m.SeatReadings("pi5", 1), sample))
        await connection.wait_closed()

    updates = asyncio.run(watched(files, tmp_path, {"rack": rack}, lambda heard: len(heard) == 3))
    assert [update.device for update in updates] == ["rack/machine", "rack/pi5", "rack/pi5"]


def test_buffer_of_a_connection_is_small(
    files: HostFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a thousand devices would take a quarter of a gigabyte of zeros."""
    seen: list[object] = []
    shrink = async_links._shrink

    def keep(transport: asyncio.BaseTransport) -> None:
        shrink(transport)
        seen.append(transport)

    monkeypatch.setattr(async_links, "_shrink", keep)
    asyncio.run(watched(files, tmp_path, {"a": well_behaved}, lambda heard: batches(heard, "a")))
    tls = getattr(seen[0], "_ssl_protocol", None)
    if tls is not None and hasattr(tls, "_ssl_buffer"):
        assert len(tls._ssl_buffer) == async_links.TLS_BUFFER_BYTES
