"""Delay from an event of a farm to the pages of `edgebench serve`, and the load of the server.

    python benchmarks/serve_pages.py [--pages 5] [--streams 45] [--devices 20] [--events 40] ...

The farm is a live file, to which the temperature of each device is written once a second, as a
measuring command does. Some events contain a mark, a unique text. Half of the marks are in the
status of a device; each of the other marks is the model name of a stored run. The delay of a mark
is the time from the call that writes it until the mark is in the document of a page, or has been
parsed by a client that reads the same event stream.

The viewers are pages of Chromium and plain event streams. Each page has its own browser context,
and so its own cache and connections. Fifty pages on the server's machine would cause most of the
machine's load, because each page is a process that draws. A stream loads the server as a page does,
and its client parses each message, but draws nothing. The delays of pages and streams are reported
separately. For comparison, a page without other viewers is measured with the same server; the two
cases take turns in random order.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from common import (
    Spread,
    add_patience,
    claim,
    claims_table,
    end,
    interleave,
    machine,
    parse,
    report,
    spread,
)
from store_scale import fill

from edgebench.host.result.document import RUN_ID_TIME
from edgebench.host.store.index import as_created_utc
from edgebench.host.store.layout import RUN_FILE, Store
from edgebench.host.store.live import LiveDevice, LiveFile, utc_now
from edgebench.protocol.record import Phase

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DELAY_LIMIT_S = 1.0
"""Limit of the delay of a mark, with 50 viewers."""
RUN_COUNT = 100
"""Runs in the store before the first round."""
MARK = re.compile(r"mark-\d+")
WAIT_S = 30.0
"""Longest time to wait for the last mark."""
CHROMIUM_OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")
MARK_OBSERVER = """
window.marks = {};
new MutationObserver((changes) => {
  const now = Date.now() / 1000;
  for (const change of changes) for (const node of change.addedNodes) {
    for (const [mark] of node.textContent.matchAll(/mark-\\d+/g)) window.marks[mark] ??= now;
  }
}).observe(document.body, { childList: true, subtree: true });
"""
"""Script that records when each mark appears in a page."""


@dataclass(frozen=True, slots=True)
class ViewedRound:
    """Delays of the marks of one round, and the load of the server."""

    page_s: list[float]
    """Delay of each mark on each page."""
    stream_s: list[float]
    """Delay of each mark in each stream."""
    cpu_ratio: float
    """CPU time of the server divided by the elapsed time."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=int, default=5, help="pages of Chromium")
    parser.add_argument("--streams", type=int, default=45, help="event streams without a page")
    parser.add_argument("--devices", type=int, default=20)
    parser.add_argument("--events", type=int, default=40, help="marks per round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--read", type=int, metavar="PORT", help=argparse.SUPPRESS)
    add_patience(parser)
    options = parse(
        parser,
        smoke={"pages": 1, "streams": 2, "devices": 2, "events": 2, "rounds": 1},
        events=12,
        rounds=2,
    )
    if options.read:
        asyncio.run(read_streams(options.read, options.streams))
        return
    began = machine()
    with (
        tempfile.TemporaryDirectory(prefix="edgebench-serve-") as folder,
        ServedStore(Store(Path(folder)), options.devices) as served,
        started_chromium() as browser,
    ):
        idle_ratio = served.cpu_ratio(lambda: time.sleep(5.0))
        sides = interleave(
            {
                "one": lambda: served.viewed(browser, 1, 0, options.events),
                "all": lambda: served.viewed(
                    browser, options.pages, options.streams, options.events
                ),
            },
            options.rounds,
            patience_s=options.patience,
        )
        peak_mb = served.peak_mb()
    single, many = sides["one"], sides["all"]
    count = options.pages + options.streams
    rows = [
        *delays("a page alone", [delay_s for each in single for delay_s in each.page_s]),
        *delays(f"{count} viewers, pages", [delay_s for each in many for delay_s in each.page_s]),
        *delays(
            f"{count} viewers, streams",
            [delay_s for each in many for delay_s in each.stream_s],
        ),
        claim("CPU of the server without viewers, % of a core", f"{idle_ratio:.2%}"[:-1]),
        claim("CPU with one page, % of a core", cpu(single).text(1, 100)),
        claim(f"CPU with {count} viewers, % of a core", cpu(many).text(1, 100)),
        claim("peak memory of the server, MB", f"{peak_mb:.0f}"),
    ]
    title = f"The live page of {options.devices} devices, {options.events} marks per round"
    report(title, [claims_table(rows)], began)


def delays(viewers: str, delays_s: Sequence[float]) -> list[list[str]]:
    """Rows about delays; the limit applies to the 99th percentile and to the maximum."""
    if not delays_s:
        return []
    rows = [claim(f"delay of a mark, {viewers}, s", spread(delays_s).text())]
    for name, value in (
        ("p99", statistics.quantiles(delays_s, n=100, method="inclusive")[98]),
        ("max", max(delays_s)),
    ):
        is_met = value <= DELAY_LIMIT_S
        rows.append(claim(f"{name} of it, s", f"{value:.2f}", f"≤ {DELAY_LIMIT_S:g}", is_met))
    return rows


def cpu(rounds: Sequence[ViewedRound]) -> Spread:
    """CPU time of the server divided by the elapsed time, over the rounds."""
    return spread([each.cpu_ratio for each in rounds])


@dataclass
class ServedStore:
    """A store with runs and the live file of a farm, which `edgebench serve` serves."""

    store: Store
    device_count: int
    port: int = 0
    _process: subprocess.Popen[bytes] = field(init=False)
    _file: LiveFile = field(init=False)
    _devices: list[LiveDevice] = field(init=False)
    _reports: threading.Thread = field(init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_over: threading.Event = field(default_factory=threading.Event)
    _marked: dict[str, float] = field(default_factory=dict)
    """Time of each mark, as `time.time()`."""
    _document: dict[str, object] = field(init=False)

    def __enter__(self) -> ServedStore:
        ids = fill(self.store, RUN_COUNT)
        self._document = json.loads((self.store.directory(ids[0]) / RUN_FILE).read_text())
        self._file = LiveFile(self.store, "campaign run")
        self._devices = [
            LiveDevice(
                device=f"board-{number}",
                at_utc=utc_now(),
                state="measuring",
                model="model.tflite",
                runtime="litert",
                number=1,
                count=100,
                phase=Phase.MEASURING,
                phase_begun_utc=utc_now(),
                expected_s=60.0,
                freq_hz=1.8e9,
            )
            for number in range(self.device_count)
        ]
        words = ["serve", "--port", "0", "--json", "--store", str(self.store.root)]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "edgebench.host.cli", *words], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self.port = json.loads(self._process.stdout.readline())["port"]
        self._reports = threading.Thread(target=self._report_temperatures)
        self._reports.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._reports.join()
        self._file.close()
        end(self._process)

    def cpu_ratio(self, action: Callable[[], object]) -> float:
        """CPU time of the server during an action, divided by the action's duration."""
        before_s, begin_s = self._cpu_s(), time.monotonic()
        action()
        return (self._cpu_s() - before_s) / (time.monotonic() - begin_s)

    def peak_mb(self) -> float:
        """Peak resident memory of the server. Source: proc(5), VmHWM."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        match = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        assert match is not None
        return int(match[1]) * 1024 / 1e6

    def viewed(self, browser: Browser, pages: int, streams: int, events: int) -> ViewedRound:
        """Open pages and streams, make `events` marks, and measure their delays."""
        with ExitStack() as viewers:
            reader = viewers.enter_context(self._reader(streams)) if streams else None
            open_pages = [viewers.enter_context(self._page(browser)) for _ in range(pages)]
            first = len(self._marked)
            ratio = self.cpu_ratio(lambda: self._mark(events))
            marks = dict(list(self._marked.items())[first:])
            for page in open_pages:
                page.wait_for_function(f"Object.keys(marks).length >= {events}")
            page_s = [
                seen_s - marks[mark]
                for page in open_pages
                for mark, seen_s in page.evaluate("window.marks").items()
                if mark in marks
            ]
            stream_marks = (
                [] if reader is None else json.loads(reader.communicate(timeout=WAIT_S)[0])
            )
        stream_s = [seen_s - marks[mark] for mark, seen_s in stream_marks if mark in marks]
        assert len(page_s) == pages * events
        assert len(stream_s) == streams * events
        return ViewedRound(page_s, stream_s, ratio)

    def _mark(self, events: int) -> None:
        """Make `events` marks, at times that are random relative to the server's periodic reads."""
        draw = random.Random(len(self._marked))
        for number in range(events):
            time.sleep(draw.uniform(0.3, 0.8))
            mark = f"mark-{len(self._marked)}"
            place = draw.randrange(self.device_count)
            with self._lock:
                status = self._devices[place]
                if number % 2:
                    self._store_run(mark)
                    status = replace(status, stored_count=status.stored_count + 1)
                else:
                    status = replace(status, settings=mark)
                self._marked[mark] = time.time()
                self._put(place, status)
        time.sleep(1.0)  # the CPU time for the last mark belongs to this round

    def _report_temperatures(self) -> None:
        """Report the temperature of each device once a second, one device after another."""
        draw = random.Random(1)
        while not self._is_over.is_set():
            for place in range(self.device_count):
                with self._lock:
                    status = replace(self._devices[place], temp_c=draw.uniform(40.0, 80.0))
                    self._put(place, status)
                if self._is_over.wait(1.0 / self.device_count):
                    return

    def _put(self, place: int, status: LiveDevice) -> None:
        self._devices[place] = replace(status, at_utc=utc_now())
        self._file.put(self._devices[place])

    def _store_run(self, mark: str) -> None:
        """Store a complete run under its final name at once; the name of its model is the mark."""
        now = datetime.now(timezone.utc)
        run_id = f"{now.strftime(RUN_ID_TIME)}-{len(self._marked):08x}"
        model = {**self._model(), "name": mark}
        changes = {"run_id": run_id, "created_utc": as_created_utc(now), "model": model}
        part = self.store.root / f".{run_id}"
        part.mkdir()
        (part / RUN_FILE).write_text(json.dumps({**self._document, **changes}))
        part.rename(self.store.directory(run_id))

    def _model(self) -> dict[str, object]:
        model = self._document["model"]
        assert isinstance(model, dict)
        return model

    def _cpu_s(self) -> float:
        """CPU time of the server so far. Source: proc(5), /proc/pid/stat, utime and stime."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @contextmanager
    def _page(self, browser: Browser) -> Iterator[Page]:
        """Open a page; yields the page once everything is loaded and marks are recorded."""
        with browser.new_context() as context:
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{self.port}/")
            page.locator("#runs tr").first.wait_for()
            page.evaluate(MARK_OBSERVER)
            yield page

    @contextmanager
    def _reader(self, streams: int) -> Iterator[subprocess.Popen[bytes]]:
        """Start a process that reads streams until its input ends, and then prints the marks."""
        words = ["--read", str(self.port), "--streams", str(streams)]
        process = subprocess.Popen(
            [sys.executable, __file__, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            end(process)


async def read_streams(port: int, count: int) -> None:
    """Read streams until standard input ends; print each mark of each stream with its time."""
    seen: list[tuple[str, float]] = []
    joined = asyncio.Semaphore(0)

    async def read_stream() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
        writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        known: set[str] = set()
        while True:
            line = await reader.readline()
            if not line.startswith(b"data: "):
                continue
            message = json.loads(line[6:])
            marks = set(MARK.findall(json.dumps(message["sections"])))
            if message["is_whole"]:
                joined.release()
            else:
                seen.extend((mark, time.time()) for mark in marks - known)
            known |= marks

    tasks = [asyncio.create_task(read_stream()) for _ in range(count)]
    for _ in tasks:
        await joined.acquire()
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    print(json.dumps(seen))


@contextmanager
def started_chromium() -> Iterator[Browser]:
    """Start Chromium without a window."""
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium")
    if path is None:
        raise SystemExit("no chromium on this machine")
    with sync_playwright() as playwright:
        options = [*CHROMIUM_OPTIONS]
        with playwright.chromium.launch(executable_path=path, args=options) as browser:
            yield browser


if __name__ == "__main__":
    main()
