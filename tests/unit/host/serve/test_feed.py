"""Feed of the live page: the whole overview first, then each change; slow readers are dropped."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from support.records import RUN_ID, store_run

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


def test_a_store_that_vanishes_is_noted_until_it_is_back(tmp_path: Path) -> None:
    """Otherwise an unplugged disk would look like a store that never had a run."""
    store = Store(tmp_path / "store")
    overview = overview_of(store.root)
    assert "The store is missing" not in str(overview.refresh()), "a new store has no directory yet"
    store_run(store)
    assert RUN_ID in str(overview.refresh())
    store.root.rename(tmp_path / "elsewhere")
    overview.refresh()
    whole = json.loads(overview.whole())["sections"]
    assert whole["runs"] == {}
    assert whole["notes"]["store"]["text"].startswith("The store is missing: ")
    assert str(store.runs) in whole["notes"]["store"]["text"]
    (tmp_path / "elsewhere").rename(store.root)
    overview.refresh()
    whole = json.loads(overview.whole())["sections"]
    assert RUN_ID in whole["runs"]
    assert whole["notes"] == {}


async def next_message(subscriber: Subscriber) -> bytes:
    """The next message."""
    message = await subscriber.next(WAIT_S)
    assert message is not None
    return message


def test_a_new_subscriber_gets_the_whole_overview_and_then_changes(tmp_path: Path) -> None:
    """Otherwise a browser that reconnects would show half of a farm, or files be polled idly."""
    file = LiveFile(Store(tmp_path), "bench")

    async def follow() -> None:
        feed = Feed(overview_of(tmp_path))
        following = asyncio.create_task(feed.follow())
        with feed.subscribed() as first:
            assert b'"is_whole":true' in await next_message(first)
            file.put(LiveDevice(device="pi5", at_utc="", state="waiting"))
            change = await next_message(first)
            assert b'"is_whole":false' in change
            assert b"pi5" in change
            with feed.subscribed() as second:
                whole = await next_message(second)
                assert b'"is_whole":true' in whole
                assert b"pi5" in whole
        following.cancel()

    asyncio.run(follow())
    file.close()


def test_a_subscriber_that_does_not_read_is_dropped(tmp_path: Path) -> None:
    """Otherwise messages would pile up for a suspended browser."""

    async def pile_up() -> Subscriber:
        subscriber = Subscriber()
        for _ in range(MAX_WAITING + 1):
            subscriber.put(b"change")
        assert await subscriber.next(WAIT_S) is None
        return subscriber

    assert asyncio.run(pile_up()).is_over


def test_the_stream_to_a_browser_that_does_not_read_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a stalled connection would keep its stream and its subscription for ever."""
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


def test_an_unreadable_section_has_a_note_and_the_others_are_shown(tmp_path: Path) -> None:
    """Otherwise a mistake in the farm file would hide all runs."""
    (tmp_path / "farm.toml").write_text("[")
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "devices.json").write_text("{")
    overview = overview_of(tmp_path)
    overview.refresh()
    whole = overview.whole()
    assert b"farm.toml" in whole
    assert b"list of devices not readable" in whole
    assert b'"runs":{}' in whole
