"""Seats of one agent, and which of their runs may start at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from support.tools import need_tool

from edgebench.agent.agent import Agent, AgentSettings
from edgebench.protocol import messages as m
from edgebench.protocol.errors import LeaseHeld
from edgebench.protocol.spec import RunSpec

if TYPE_CHECKING:
    from edgebench.agent.running import ActiveRun

BOARD = "qemu:mps2-an386"


def test_board_is_not_opened_while_a_run_of_the_machine_starts(tmp_path: Path) -> None:
    """Otherwise two runs that start together would not see, and would disturb, each other."""
    need_tool("qemu-system-arm")
    told: list[str] = []

    def send(notice: m.Message, _payload: bytes) -> None:
        if isinstance(notice, m.SeatChange):
            told.append(notice.state.name)

    async def story() -> None:
        agent = Agent(AgentSettings(config=tmp_path, state=tmp_path))
        agent.watches.add(list(agent.seats.values()), send, is_for_all=True)
        async with agent.undisturbed(agent.first):
            opening = asyncio.create_task(agent.opened_seat(BOARD))
            assert not (await asyncio.wait([opening], timeout=0.5))[0]
        assert (await opening).is_target
        assert list(agent.seats) == ["machine", BOARD]
        agent.watches.remove(send)
        await asyncio.gather(*(seat.end() for seat in agent.seats.values()))

    asyncio.run(story())
    assert told == [BOARD]


def test_meter_records_one_board_at_a_time(tmp_path: Path) -> None:
    """Otherwise the second of two runs would find the meter's port in use, and lack its energy."""
    need_tool("qemu-system-arm")
    meter = "ppk2:/dev/ttyACM0"

    async def story() -> None:
        agent = Agent(AgentSettings(config=tmp_path, state=tmp_path))
        one, other = [await agent.opened_seat(name) for name in (BOARD, "qemu:mps2-an500")]
        request = m.RunStart("r1", RunSpec("tflm", meter=meter), "", "model")
        one.runner.current = cast("ActiveRun", SimpleNamespace(request=request))

        for same in (meter, f"{meter},supply=3.3"):
            with pytest.raises(LeaseHeld, match=f"{same} records run r1 on {BOARD}"):
                async with agent.undisturbed(other, same):
                    pass
        for elsewhere in (None, "ppk2:/dev/ttyACM1"):
            async with agent.undisturbed(other, elsewhere):
                pass
        one.runner.current = None
        async with agent.undisturbed(other, meter):
            pass
        await asyncio.gather(*(seat.end() for seat in agent.seats.values()))

    asyncio.run(story())


def test_simulated_boards_start_side_by_side(tmp_path: Path) -> None:
    """Otherwise thirty boards of a farm would wait for each other."""

    async def story() -> None:
        boards = ("imx8mp-evk:1", "imx8mp-evk:2")
        agent = Agent(AgentSettings(config=tmp_path, state=tmp_path, simulate=boards))
        one, other = agent.seats.values()

        async def start_other() -> None:
            async with agent.undisturbed(other):
                return

        async with agent.undisturbed(one):
            await asyncio.wait_for(start_other(), 60.0)
        await asyncio.gather(one.end(), other.end())

    asyncio.run(story())
