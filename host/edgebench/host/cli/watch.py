"""`edgebench devices --watch`: the live state of the devices, until Ctrl-C."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import AsyncIterator
from contextlib import suppress

from edgebench.system.exit_code import ExitCode

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.watch import Update

REDRAW_S = 1.0


def add_watch(parser: argparse.ArgumentParser) -> None:
    """Add --watch."""
    parser.add_argument(
        "--watch",
        action="store_true",
        help="show the state of paired devices until Ctrl-C; with --json, one document per line",
    )


def run_watch(*, as_json: bool) -> ExitCode:
    """Watch all paired devices, and this machine if it runs an agent, until Ctrl-C.

    Raises:
        NoSuchDevice: no device is paired, and no agent runs on this machine.
    """
    import asyncio

    from edgebench.host.lab import Lab
    from edgebench.host.show.tables import console

    updates = Lab().watch()
    if as_json:
        show = _print_documents(updates)
    elif console().is_terminal:
        show = _draw(updates)
    else:
        show = _print_changes(updates)
    with suppress(KeyboardInterrupt):
        asyncio.run(show)
    return ExitCode.DONE


async def _print_documents(updates: AsyncIterator[Update]) -> None:
    from edgebench.protocol.codec import kind_of
    from edgebench.protocol.plain import to_plain

    async for update in updates:
        plain = {"update": kind_of(type(update)), **_without_nan(to_plain(update))}
        print(json.dumps(plain), flush=True)


async def _print_changes(updates: AsyncIterator[Update]) -> None:
    from edgebench.host.show.watch import change_line
    from edgebench.host.watch import Batch
    from edgebench.protocol.text import printable

    async for update in updates:
        if not isinstance(update, Batch):
            print(printable(change_line(update)), flush=True)


async def _draw(updates: AsyncIterator[Update]) -> None:
    import asyncio

    from rich.live import Live

    from edgebench.host.show.tables import console
    from edgebench.host.show.watch import WatchTable

    shown = WatchTable()
    with Live(shown.table(), console=console(), auto_refresh=False) as live:

        async def redraw() -> None:
            while True:
                await asyncio.sleep(REDRAW_S)
                live.update(shown.table(), refresh=True)

        drawing = asyncio.create_task(redraw())
        try:
            async for update in updates:
                shown.take(update)
        finally:
            drawing.cancel()
        live.update(shown.table(), refresh=True)


def _without_nan(value: object) -> dict[str, object]:
    """The value for JSON, in which a missing reading is null instead of NaN."""

    def clean(value: object) -> object:
        if isinstance(value, float) and math.isnan(value):
            return None
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items()}
        return [clean(item) for item in value] if isinstance(value, (list, tuple)) else value

    cleaned = clean(value)
    assert isinstance(cleaned, dict)
    return cleaned
