"""Routes of the live page. The id of a stored run is the only part of a URL that names a file.

    /                   the page, with /app.js and /app.css
    /events             changes of the overview, as server-sent events
    /state.json         the overview as a JSON document
    /runs/ID            a stored run, as `edgebench show` prints it
    /runs/ID/report     its report, generated on request
    /history            stored runs of ?model= on ?device=

Source of the event stream: https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from html import escape
from io import StringIO
from pathlib import Path

from rich.console import Console
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from edgebench.host.report.page import find_reported, run_report
from edgebench.host.serve.feed import Feed, Subscriber
from edgebench.host.serve.rows import RunRow, run_or_none, run_row
from edgebench.host.show.page import run_page
from edgebench.host.store.annotations import read_annotations
from edgebench.host.store.index import list_runs
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import EdgebenchError
from edgebench.system.unforeseen import named_error

HEARTBEAT_S = 10.0
"""Interval of keep-alive comments, by which broken connections are detected."""
SEND_TIMEOUT_S = 10.0
"""Time after which a browser that does not read the stream is disconnected."""
RETRY_MS = 2000
"""Pause before a browser reconnects."""
MAX_HISTORY = 200
"""Maximum number of runs on the history page, which shows the newest runs."""
REPORT_POLICY = (
    "sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""Content security policy of a report; it keeps the report's inline script from accessing the live
page."""
_STATIC = Path(__file__).parent / "static"
PAGE_WIDTH = 120
"""Width, in characters, of a run's page, which is plain text."""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/app.css">
</head>
<body>
<header><h1>{title}</h1><nav><a href="/">all devices and runs</a></nav></header>
<main>{body}</main>
</body>
</html>
"""


class EventStream(Response):
    """Stream of server-sent events to a browser."""

    def __init__(self, feed: Feed) -> None:
        super().__init__(media_type="text/event-stream")
        self._feed = feed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send messages until the browser disconnects or is too slow."""
        del scope
        with self._feed.subscribed() as subscriber:
            disconnected = asyncio.create_task(_end_on_disconnect(receive, subscriber))
            headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            body = b"retry: %d\n\n" % RETRY_MS
            try:
                while not subscriber.is_over:
                    part = {"type": "http.response.body", "body": body, "more_body": True}
                    await asyncio.wait_for(send(part), SEND_TIMEOUT_S)
                    message = await subscriber.next(HEARTBEAT_S)
                    body = b":\n\n" if message is None else b"data: " + message + b"\n\n"
                await asyncio.wait_for(
                    send({"type": "http.response.body", "body": b""}), SEND_TIMEOUT_S
                )
            except asyncio.TimeoutError:
                return  # the server closes the connection of an incomplete response
            finally:
                disconnected.cancel()


async def _end_on_disconnect(receive: Receive, subscriber: Subscriber) -> None:
    """End a subscription when its connection ends."""
    while (await receive())["type"] != "http.disconnect":
        pass
    subscriber.end()


def new_app(store: Store, feed: Feed) -> Starlette:
    """Create the web application of the live page.

    Args:
        store: Store of the runs.
        feed: Changes of the overview.
    """
    report_lock = asyncio.Lock()  # limits CPU use: a report takes a second of a CPU

    async def front(_: Request) -> Response:
        return HTMLResponse((_STATIC / "index.html").read_text("utf-8"))

    async def script(_: Request) -> Response:
        text = (_STATIC / "app.js").read_text("utf-8")
        return Response(text, media_type="text/javascript")

    async def style(_: Request) -> Response:
        return Response((_STATIC / "app.css").read_text("utf-8"), media_type="text/css")

    async def events(_: Request) -> Response:
        if feed.is_full:
            return PlainTextResponse("too many browsers are connected\n", 503)
        return EventStream(feed)

    async def state(_: Request) -> Response:
        return Response(await feed.whole(), media_type="application/json")

    async def one_run(request: Request) -> Response:
        run_id = request.path_params["run_id"]
        return HTMLResponse(await asyncio.to_thread(_run_html, store, run_id))

    async def report(request: Request) -> Response:
        run_id = request.path_params["run_id"]

        def html() -> str:
            if not store.has(run_id):
                raise HTTPException(404, "no such run")
            return run_report(find_reported(store, [run_id]))

        async with report_lock:
            content = await asyncio.to_thread(html)
        return HTMLResponse(content, headers={"content-security-policy": REPORT_POLICY})

    async def history(request: Request) -> Response:
        device, model = (request.query_params.get(name, "") for name in ("device", "model"))
        return HTMLResponse(await asyncio.to_thread(_history_html, store, device, model))

    return Starlette(
        routes=[
            Route("/", front),
            Route("/app.js", script),
            Route("/app.css", style),
            Route("/events", events),
            Route("/state.json", state),
            Route("/runs/{run_id}", one_run),
            Route("/runs/{run_id}/report", report),
            Route("/history", history),
        ],
        exception_handlers=dict.fromkeys((EdgebenchError, MemoryError, Exception), _fault),
    )


def _fault(_: Request, exc: Exception) -> Response:
    """Response to an error or an unforeseen exception."""
    return PlainTextResponse(f"{named_error(exc)}\n", 500)


def _run_html(store: Store, run_id: str) -> str:
    """HTML page of a run, as `edgebench show` prints it."""
    if not store.has(run_id):
        raise HTTPException(404, "no such run")
    run, added = store.run(run_id), read_annotations(store.directory(run_id))
    out = StringIO()
    console = Console(file=out, width=PAGE_WIDTH, color_system=None, legacy_windows=False)
    console.print(run_page(run, added=added))
    link = f'<p><a href="/runs/{run_id}/report">report with charts</a></p>'
    return page(f"run {run_id}", f'{link}<pre tabindex="0">{escape(out.getvalue())}</pre>')


def _history_html(store: Store, device: str, model: str) -> str:
    """HTML table of the newest runs of a model on a device."""
    runs = [run for run in list_runs(store) if (run.device, run.model) == (device, model)]
    newest = runs[: -MAX_HISTORY - 1 : -1]
    rows = [run_row(run, run_or_none(store, run.run_id)) for run in newest]
    if not rows:
        raise HTTPException(404, "no such runs")
    return page(f"{model} on {device}", history_table(rows))


def page(title: str, body: str) -> str:
    """Build an HTML page with the live page's layout.

    Args:
        title: Plain text.
        body: HTML.
    """
    return _PAGE.format(title=escape(title), body=body)


def history_table(rows: Sequence[RunRow]) -> str:
    """HTML table of the runs of a model on a device, in the given order."""
    names = ("run", "time", "runtime", "scenario", "result", "energy per inference", "verdict")
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    lines = [
        "".join(
            [
                f'<td><a href="/runs/{escape(row.run_id)}">{escape(row.run_id)}</a></td>',
                *(
                    f"<td>{escape(text)}</td>"
                    for text in (
                        row.created_utc,
                        row.runtime,
                        row.scenario,
                        f"{row.number} {row.metric}",
                        row.energy,
                    )
                ),
                f'<td><span class="state">{escape(row.verdict)}</span>'
                f"{escape(f'; {row.remark}' if row.remark else '')}</td>",
            ]
        )
        for row in rows
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="wide">{table}</div>'
