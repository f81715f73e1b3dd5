"""Watched devices, as they are displayed."""

from __future__ import annotations

import asyncio
import io
import math
import time
from collections.abc import AsyncIterator

import pytest
from rich.console import Console
from support.records import DEVICE

from edgebench.host.cli import watch as command
from edgebench.host.result.units import ABSENT
from edgebench.host.show.watch import WatchTable, change_line
from edgebench.host.watch import Absence, Batch, StateChange, Update
from edgebench.protocol.live import LiveSamples
from edgebench.protocol.messages import SeatState
from edgebench.protocol.record import Phase

NAN = math.nan
NOW_S = 1_800_000_000.0
FREE = SeatState("machine", DEVICE)
BUSY = SeatState("machine", DEVICE, "ada", 5.0, "run-1", 50.0, phase=Phase.WARMING_UP)
HOT = SeatState("machine", DEVICE, fault="it has 91.0 °C: the profile's limit is 90 °C")
UPDATES: list[Update] = [
    StateChange("pi5", FREE),
    StateChange("rack/\x1b[2Ja", BUSY),
    Batch("rack/\x1b[2Ja", LiveSamples((1, 2), (50.0, 51.26), (1.5e9, NAN)), "run-1", 1.25),
    StateChange("jetson", HOT),
    Batch("jetson", LiveSamples((1,), (NAN,), (NAN,)), None, None),
    Absence("off", NOW_S - 61, "no answer"),
]


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fixed time, however long the tests before took."""
    monkeypatch.setattr(time, "time", lambda: NOW_S)


def rendered(updates: list[Update]) -> list[list[str]]:
    """Cells of the table, without its header."""
    shown, console = WatchTable(), Console(width=200, file=io.StringIO())
    for update in updates:
        shown.take(update)
    console.print(shown.table())
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert "\x1b" not in console.file.getvalue()
    return [[cell for cell in line.split("  ") if cell] for line in lines[3:] if line.strip()]


def test_table_has_the_last_of_each_device() -> None:
    """Otherwise a device would be missing, or be shown with another's state."""
    rows = {row[0].strip(): [cell.strip() for cell in row[1:]] for row in rendered(UPDATES)}
    assert rows["pi5"] == ["free", ABSENT, ABSENT, ABSENT, ABSENT, ABSENT]
    assert rows["rack/?[2Ja"] == [
        "in use by ada",
        "run-1",
        "warming up",
        "51.3 °C",
        "1.50 GHz",
        "1.25",
    ]
    assert rows["jetson"][0] == HOT.fault
    assert rows["off"][0].startswith("away for 0:0")
    assert rows["off"][0].endswith(": no answer")


def test_device_that_is_away_shows_nothing_old() -> None:
    """Otherwise a board without power would seem to have 50 °C and a run."""
    away = Absence("rack/\x1b[2Ja", NOW_S, "lost")
    [*_, row] = rendered([*UPDATES, away])
    assert [cell.strip() for cell in row[2:]] == [ABSENT, ABSENT, ABSENT, ABSENT, ABSENT]
    back = rendered([*UPDATES, away, StateChange("rack/\x1b[2Ja", FREE)])[-1]
    assert [cell.strip() for cell in back[1:]] == ["free", ABSENT, ABSENT, ABSENT, ABSENT, ABSENT]


@pytest.mark.parametrize(
    ("update", "line"),
    [
        (UPDATES[0], "pi5: free"),
        (StateChange("a", BUSY), "a: in use by ada; runs run-1, warming up"),
        (UPDATES[3], f"jetson: free; {HOT.fault}"),
        (Absence("b", NOW_S + 3600, "no answer"), "b: away for 0:00:00: no answer"),
    ],
)
def test_change_is_one_line(update: Absence | StateChange, line: str) -> None:
    """Otherwise a log would report that something changed, but not what."""
    assert change_line(update) == line


async def replayed() -> AsyncIterator[Update]:
    """The updates above."""
    for update in UPDATES:
        yield update
    await asyncio.sleep(0.1)


def test_terminal_is_drawn_while_updates_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the table would be drawn only once, when the watch ends."""
    terminal = Console(width=120, file=io.StringIO(), force_terminal=True)
    monkeypatch.setattr("edgebench.host.show.tables.console", lambda: terminal)
    monkeypatch.setattr(command, "REDRAW_S", 0.02)
    drawn = terminal.file
    assert isinstance(drawn, io.StringIO)

    async def until_drawn() -> AsyncIterator[Update]:
        async for update in replayed():
            yield update
        while drawn.getvalue().count("jetson") <= 2:
            await asyncio.sleep(0.01)

    asyncio.run(command._draw(until_drawn()))


def test_pipe_gets_changes_only(capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise a log would get a line per second for each device."""
    asyncio.run(command._print_changes(replayed()))
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["pi5", "rack/?[2Ja", "jetson", "off"]
