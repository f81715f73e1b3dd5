"""Who looks on: everything first, then each change; and whoever does not read is dropped."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from edgebench.host.devices.files import HostFiles
from edgebench.host.devices.health import HealthFiles
from edgebench.host.serve import app as app_module
from edgebench.host.serve.app import EventStream
from edgebench.host.serve.feed import MAX_WAITING, Feed, Subscriber
from edgebench.host.serve.overview import Overview, OverviewSources
from edgebench.host.store.layout import Store
from edgebench.host.store.live import LiveDevice, LiveFile

WAIT_S = 30.0


def overview_of(folder: Path) -> Overview:
    """The overview of a host without devices."""
    return Overview(
        OverviewSources(
            store=Store(folder),
            files=HostFiles(folder / "config"),
            health=HealthFiles(folder / "state"),
            farm=folder / "farm.toml",
            campaigns=list,
        )
    )


async def told(subscriber: Subscriber) -> bytes:
    """The next message."""
    message = await subscriber.next(WAIT_S)
    assert message is not None
    return message


def test_whoever_comes_gets_everything_and_then_what_changes(tmp_path: Path) -> None:
    """A browser that connects again shows half of a farm; or the files are read for nobody."""
    file = LiveFile(Store(tmp_path), "bench")

    async def look_on() -> None:
        feed = Feed(overview_of(tmp_path))
        following = asyncio.create_task(feed.follow())
        with feed.subscribed() as first:
            assert b'"is_whole":true' in await told(first)
            file.put(LiveDevice(device="pi5", at_utc="", state="waiting"))
            change = await told(first)
            assert b'"is_whole":false' in change
            assert b"pi5" in change
            with feed.subscribed() as second:
                whole = await told(second)
                assert b'"is_whole":true' in whole
                assert b"pi5" in whole
        following.cancel()

    asyncio.run(look_on())
    file.close()


def test_whoever_does_not_read_is_dropped(tmp_path: Path) -> None:
    """Messages pile up for a browser that sleeps."""

    async def pile_up() -> Subscriber:
        subscriber = Subscriber()
        for _ in range(MAX_WAITING + 1):
            subscriber.put(b"change")
        assert await subscriber.next(WAIT_S) is None
        return subscriber

    assert asyncio.run(pile_up()).is_over


def test_a_browser_that_takes_nothing_ends_its_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream whose connection stands still is kept for ever, with its place."""
    monkeypatch.setattr(app_module, "SEND_TIMEOUT_S", 0.05)

    async def stand_still() -> bool:
        feed = Feed(overview_of(tmp_path))
        never = asyncio.Event()

        async def receive() -> dict[str, object]:
            await never.wait()
            return {"type": "http.disconnect"}

        async def send(message: object) -> None:
            if "body" in str(message):
                await never.wait()

        stream = EventStream(feed)({"type": "http"}, receive, send)
        await asyncio.wait_for(stream, WAIT_S)
        return feed.is_watched

    assert not asyncio.run(stand_still())


def test_what_cannot_be_read_is_said_and_the_rest_is_shown(tmp_path: Path) -> None:
    """A mistake in the farm file hides all runs."""
    (tmp_path / "farm.toml").write_text("[")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "devices.json").write_text("{")
    overview = overview_of(tmp_path)
    overview.refresh()
    whole = overview.whole()
    assert b"farm.toml" in whole
    assert b"list of devices not readable" in whole
    assert b'"runs":{}' in whole
