"""Devices that come and go, in one event loop and without a network."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from edgebench.agent.agent import Agent, AgentSettings
from edgebench.agent.hotplug import Hotplug
from edgebench.agent.lease import MAX_TTL_S
from edgebench.agent.seat_memory import SeatMemory
from edgebench.agent.seat_source import SeatOffer
from edgebench.agent.simulated_seats import SimulatedDirectory
from edgebench.protocol import messages as m
from edgebench.protocol.errors import SeatLeft, TargetError, UsageError

BOARD = "imx8mp-evk"


def device_file(serial: str, board: str = BOARD) -> str:
    """Text of a file of the directory."""
    return f'schema = 1\nboard = "{board}"\nserial = "10000000{serial}"\n'


def agent_in(folder: Path) -> tuple[Agent, Hotplug, Path]:
    """An agent with one board, and the directory of the others."""
    directory = folder / "usb"
    directory.mkdir(exist_ok=True)
    agent = Agent(
        AgentSettings(
            config=folder / "config",
            state=folder / "state",
            simulate=(BOARD,),
            simulate_directory=directory,
        )
    )
    assert agent.hotplug is not None
    return agent, agent.hotplug, directory


async def ended(agent: Agent) -> None:
    """End the tasks of the agent's seats."""
    await asyncio.gather(*(seat.end() for seat in agent.seats.values()))


def test_seat_keeps_what_is_its_own_while_its_device_is_away(tmp_path: Path) -> None:
    """Otherwise a board unplugged for a second would be another device, or blocked by its lease."""

    async def story() -> None:
        agent, hotplug, directory = agent_in(tmp_path)
        (directory / "pi.toml").write_text(device_file("A1"))
        await hotplug.look()
        seat = agent.seat("pi")
        device, before = seat.device, seat.state()
        assert (before.gone_for_s, before.device.name) == (None, "pi-simulated")
        assert seat.board
        seat.lease.acquire("ada", "ada", MAX_TTL_S)
        (directory / "pi.toml").unlink()
        await hotplug.look()
        assert not seat.is_there
        assert seat.lease.holder is None
        for what in ("runner", "surroundings", "wiring"):
            with pytest.raises(SeatLeft, match="pi has been disconnected from its agent since 20"):
                getattr(seat, what)
        assert seat.state().gone_for_s is not None
        (directory / "port-2.toml").write_text(device_file("A1"))
        await hotplug.look()
        assert agent.seat("pi") is seat
        assert seat.is_there
        assert seat.device == device
        assert list(agent.seats) == [BOARD, "pi"]
        await ended(agent)

    asyncio.run(story())


def test_next_agent_knows_the_boards_that_were_there(tmp_path: Path) -> None:
    """Otherwise a restarted agent would have lost the board that is not plugged in just now."""

    async def first() -> str:
        agent, hotplug, directory = agent_in(tmp_path)
        (directory / "pi.toml").write_text(device_file("A1"))
        await hotplug.look()
        await ended(agent)
        (directory / "pi.toml").unlink()
        return agent.seat("pi").device.id

    async def second() -> str:
        agent, hotplug, _ = agent_in(tmp_path)
        await hotplug.look()
        seat = agent.seat("pi")
        assert not seat.is_there
        await ended(agent)
        return seat.device.id

    assert asyncio.run(first()) == asyncio.run(second())
    with pytest.raises(UsageError, match="seat 'pi' belongs to a device that was once plugged in"):
        asyncio.run(_clash(tmp_path))


async def _clash(folder: Path) -> None:
    settings = AgentSettings(config=folder / "config", state=folder / "other", simulate=(BOARD,))
    agent = Agent(settings)
    agent.seats["pi"] = agent.first
    try:
        Hotplug(agent, [SimulatedDirectory(folder)], SeatMemory(folder / "state" / "seats"))
    finally:
        await agent.first.end()


def test_odd_file_is_named_once_and_keeps_no_other_away(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise one bad file would hide every board, fill the log, or remove its former board."""
    caplog.set_level(logging.WARNING)

    async def story() -> None:
        agent, hotplug, directory = agent_in(tmp_path)
        (directory / "bad.toml").write_text("schema = 1\nboard = 'abacus'\n")
        (directory / "folder.toml").mkdir()
        (directory / "notes.txt").write_text("no device")
        (directory / "pi.toml").write_text(device_file("A1"))
        (directory / "twin.toml").write_text(device_file("A1"))
        for _ in range(3):
            await hotplug.look()
        assert list(agent.seats) == [BOARD, "pi"]
        (directory / "pi.toml").write_text("schema = 1\nboard =")  # half written
        (directory / "bad.toml").write_text(device_file("A2"))
        await hotplug.look()
        assert agent.seat("pi").is_there
        assert agent.seat("bad").is_there
        directory.rename(tmp_path / "away")
        await hotplug.look()
        assert agent.seat("pi").is_there, "whether it is, cannot be told"
        await ended(agent)

    asyncio.run(story())
    told = [record.getMessage() for record in caplog.records]
    twin, bad, folder, gone = told
    assert "twin has the same identity as pi" in twin
    assert "abacus" in bad
    assert f"Is a directory: {tmp_path / 'usb' / 'folder.toml'}" in folder
    assert f"No such file or directory: {tmp_path / 'usb'}" in gone


def test_seat_is_forgotten_only_when_nothing_is_lost(tmp_path: Path) -> None:
    """Otherwise runs that wait for their host would be deleted, or a board that is present."""

    async def story() -> None:
        agent, hotplug, directory = agent_in(tmp_path)
        (directory / "pi.toml").write_text(device_file("A1"))
        await hotplug.look()
        with pytest.raises(UsageError, match="unplug it first"):
            await agent.forget("pi")
        with pytest.raises(UsageError, match="belongs to a permanent device"):
            await agent.forget(BOARD)
        (directory / "pi.toml").unlink()
        await hotplug.look()
        run = tmp_path / "state" / "seats" / "pi" / "spool" / "run"
        run.mkdir()
        with pytest.raises(UsageError, match="seat 'pi' has uncollected runs: 1"):
            await agent.forget("pi")
        os.rmdir(run)
        await agent.forget("pi")
        assert list(agent.seats) == [BOARD]
        await ended(agent)

    asyncio.run(story())


def test_oldest_seat_that_is_gone_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a rack on which hundreds of boards were tested would take no more."""
    monkeypatch.setattr("edgebench.agent.hotplug.MAX_SEATS", 3)

    async def story() -> None:
        agent, hotplug, directory = agent_in(tmp_path)
        for number in range(4):
            (directory / f"b{number}.toml").write_text(device_file(f"A{number}"))
            await hotplug.look()
            (directory / f"b{number}.toml").unlink()
            await hotplug.look()
        assert list(agent.seats) == [BOARD, "b2", "b3"]
        await ended(agent)

    asyncio.run(story())


class BrokenSource:
    """A source of one device, which cannot be opened at first."""

    period_s = 1.0

    def __init__(self, good: SeatOffer) -> None:
        self._good = good
        self.is_broken = True

    async def offers(self) -> Sequence[SeatOffer]:
        """The device."""
        if not self.is_broken:
            return [self._good]

        def fail(_name: str, state: Path) -> NoReturn:
            state.mkdir(parents=True)
            raise TargetError("it does not answer")

        return [SeatOffer(self._good.identity, self._good.name, fail)]


def test_device_that_could_not_be_opened_gets_its_name_later(tmp_path: Path) -> None:
    """Otherwise a board that was slow to start would be called nucleo-2 for ever."""

    async def story() -> None:
        agent, _, directory = agent_in(tmp_path)
        (directory / "nucleo.toml").write_text(device_file("A1"))
        [good] = await SimulatedDirectory(directory).offers()
        source = BrokenSource(good)
        hotplug = Hotplug(agent, [source], SeatMemory(tmp_path / "state" / "seats"))
        await hotplug.look()
        assert list(agent.seats) == [BOARD]
        source.is_broken = False
        await hotplug.look()
        assert list(agent.seats) == [BOARD, "nucleo"]
        await ended(agent)

    asyncio.run(story())


def test_port_in_trouble_says_why_whatever_it_is_called(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise `--board socket://HOST:PORT` would be refused for its name, not for its silence."""

    class Port:
        period_s = 1.0

        async def offers(self) -> Sequence[SeatOffer]:
            """Offer a port, which is no seat name."""
            error = TargetError("Connection refused")
            return [SeatOffer("port", "socket://127.0.0.1:9", None, error)]

    async def story() -> None:
        agent, _, _ = agent_in(tmp_path)
        await Hotplug(agent, [Port()], SeatMemory(tmp_path / "state" / "seats")).look()
        await ended(agent)

    asyncio.run(story())
    assert caplog.messages == ["device not served: socket://127.0.0.1:9: Connection refused"]


def test_device_that_cannot_be_opened_costs_no_other_its_seat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a port in trouble would take the names and histories of all boards in a drawer."""
    monkeypatch.setattr("edgebench.agent.hotplug.MAX_SEATS", 2)

    async def story() -> None:
        agent, _, directory = agent_in(tmp_path)
        (tmp_path / "port").mkdir()
        (tmp_path / "port" / "port.toml").write_text(device_file("A1"))
        [good] = await SimulatedDirectory(tmp_path / "port").offers()
        source = BrokenSource(good)
        hotplug = Hotplug(
            agent,
            [SimulatedDirectory(directory), source],
            SeatMemory(tmp_path / "state" / "seats"),
        )
        (directory / "drawer.toml").write_text(device_file("A0"))
        await hotplug.look()
        (directory / "drawer.toml").unlink()
        await hotplug.look()
        assert list(agent.seats) == [BOARD, "drawer"]
        source.is_broken = False
        await hotplug.look()
        assert list(agent.seats) == [BOARD, "port"]
        await ended(agent)

    asyncio.run(story())


def test_source_that_cannot_be_listed_stops_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise a driver in trouble would end its boards' runs, and no simulated one would come."""

    class Listed(SimulatedDirectory):
        """A directory whose listing may fail in an unforeseen way."""

        is_listed = True

        async def offers(self) -> Sequence[SeatOffer]:
            """Offer as usual, or raise an error."""
            if not self.is_listed:
                raise RuntimeError("driver is gone")
            return await super().offers()

    async def story() -> None:
        agent, _, usb = agent_in(tmp_path)
        (other := tmp_path / "other").mkdir()
        (usb / "one.toml").write_text(device_file("A1"))
        first = Listed(usb)
        hotplug = Hotplug(
            agent, [first, SimulatedDirectory(other)], SeatMemory(tmp_path / "state" / "seats")
        )
        await hotplug.look()
        first.is_listed = False
        (other / "two.toml").write_text(device_file("A2"))
        await hotplug.look()
        await hotplug.look()
        assert [seat.name for seat in agent.seats.values() if seat.is_there] == [
            *(BOARD, "one", "two")
        ]
        (usb / "one.toml").unlink()
        first.is_listed = True
        await hotplug.look()
        assert not agent.seats["one"].is_there
        await ended(agent)

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert [record.message for record in caplog.records].count(
        "device not served: driver is gone"
    ) == 1


def test_agent_that_ends_while_a_device_leaves_waits_for_its_run(tmp_path: Path) -> None:
    """Otherwise the run of the unplugged device would be neither spooled nor failed."""

    async def story() -> None:
        agent, hotplug, directory = agent_in(tmp_path)
        (directory / "pi.toml").write_text(device_file("A1"))
        await hotplug.look()
        seat, leaving, spooled = agent.seat("pi"), asyncio.Event(), asyncio.Event()
        lose_device = seat.lose_device

        async def slowly() -> None:
            leaving.set()
            await spooled.wait()
            await lose_device()

        seat.lose_device = slowly  # type: ignore[method-assign]  # waits for the spool
        following = asyncio.create_task(hotplug.follow())
        (directory / "pi.toml").unlink()
        await leaving.wait()
        ending = asyncio.create_task(hotplug.end(following))
        assert not (await asyncio.wait([ending], timeout=0.1))[0]
        spooled.set()
        await ending
        assert not seat.is_there
        with pytest.raises(asyncio.CancelledError):
            await following
        await ended(agent)

    asyncio.run(story())


def test_watchers_of_all_hear_of_later_seats_and_of_their_leaving(tmp_path: Path) -> None:
    """Otherwise a page would show a board unplugged an hour ago, and none plugged in since."""
    told: list[m.SeatChange] = []

    def send(notice: m.Message, _payload: bytes) -> None:
        if isinstance(notice, m.SeatChange):
            told.append(notice)

    async def story() -> None:
        agent, hotplug, directory = agent_in(tmp_path)
        agent.watches.add(list(agent.seats.values()), send, is_for_all=True)
        for _ in range(2):
            (directory / "pi.toml").write_text(device_file("A1"))
            await hotplug.look()
            (directory / "pi.toml").unlink()
            await hotplug.look()
        agent.watches.remove(send)
        await ended(agent)

    asyncio.run(story())
    assert [one.state.name for one in told] == 4 * ["pi"]
    assert [one.state.gone_for_s is None for one in told] == [True, False, True, False]
