"""The page of `edgebench serve` over a simulated farm: its content and its access control."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host
from support.browser import opened_page, serious_violations, started_browser
from support.netns import Namespace, two_machines
from support.records import RUN_ID, store_run
from support.served import EventReader, ServedPage, served
from support.tools import need_root, need_runtime, need_tool

from edgebench.host.serve.feed import MAX_SUBSCRIBERS
from edgebench.host.serve.guard import REQUEST_TIMEOUT_S
from edgebench.host.serve.server import MAX_CONNECTIONS
from edgebench.host.store.live import LiveDevice, LiveFile
from edgebench.protocol.record import Phase

RACK = "rack-simulated"
SEATS = ("imx8mp-evk", "imx8mp-evk-2")
DEVICES = {f"{RACK}/{seat}" for seat in SEATS}
CAMPAIGN = f"""\
schema = 1
name = "night"
repeats = 2
[axes]
model = ["digits_int8.tflite"]
runtime = ["litert"]
device = ["{RACK}/{SEATS[0]}", "{RACK}/{SEATS[1]}"]
scenario = ["server"]           # a run waits more than it computes
[settings]
preset = "quick"
target_qps = 20
duration_s = 3
min_query_count = 5
is_checked = false
"""
TOKEN = "a-token-of-this-test"
EVIL = "<img src=x onerror=\"document.title='broken'\">"
ASK = """
import sys, urllib.error, urllib.request
headers = {"Authorization": word for word in sys.argv[2:]}
try:
    request = urllib.request.Request(sys.argv[1], headers=headers)
    answer = urllib.request.urlopen(request, timeout=20)
    print(answer.status)
except urllib.error.HTTPError as exc:
    print(exc.code)
except urllib.error.URLError as exc:
    print(type(exc.reason).__name__)
"""
"""Script that prints the status of a response, or the kind of error."""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """A rack of two simulated boards."""
    options = ["--name", "rack", "--simulate", SEATS[0], "--simulate", f"{SEATS[0]}:7"]
    made = AgentProcess(tmp_path_factory.mktemp("rack"), options=options).start()
    yield made
    made.kill()


@pytest.fixture(scope="module")
def host(agent: AgentProcess, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A host that is paired with the rack."""
    made = Host(tmp_path_factory.mktemp("host") / "h")
    made.lab.pair(agent.pairing_string())
    return made


@pytest.fixture(scope="module")
def page(host: Host) -> Iterator[ServedPage]:
    """The host's page."""
    with served(host) as made:
        yield made


def test_page_follows_a_campaign(host: Host, page: ServedPage, tmp_path: Path) -> None:
    """Otherwise the page would not follow a campaign, or show numbers without their uncertainty."""
    need_runtime("ai-edge-litert")
    file = tmp_path / "night.toml"
    file.write_text(CAMPAIGN)
    lab = host.lab
    campaign = lab.begin_campaign(file)
    phases: set[tuple[str, str]] = set()
    readings: set[str] = set()

    def is_over(reader: EventReader) -> bool:
        for row in reader.rows("lanes"):
            phases.add((row["device"], row["phase"]))
            readings.add(row["temperature"])
        counts = [row["measured_count"] for row in reader.rows("campaigns")]
        return counts == [4] and not reader.rows("lanes")

    with EventReader(page) as reader:
        reader.until(lambda own: "runs" in own.sections)
        assert [row["device"] for row in reader.rows("devices")] == [RACK]
        work = threading.Thread(target=lab.resume_campaign, args=(campaign.plan.id,))
        work.start()
        reader.until(is_over)
        work.join()
        assert {(device, "measuring") for device in DEVICES} <= phases
        assert any(one.endswith("°C") for one in readings)
        [shown] = reader.rows("campaigns")
        assert (shown["name"], shown["is_running"], shown["left_count"]) == ("night", False, 0)
        runs = reader.rows("runs")
    assert {run["run_id"] for run in runs} == set(lab.runs()["run_id"])
    for run in runs:
        stored = lab.run(run["run_id"]).result
        assert run["verdict"] == stored.verdict.state.value
        assert "simulated" in run["remark"]
        assert bool(re.search(r"±|/\+|no interval", run["number"])) is not (
            stored.verdict.is_refused
        )
    shown_run = page.get(f"/runs/{runs[0]['run_id']}")
    assert shown_run.status == 200
    assert "SIMULATED device" in shown_run.text
    report = page.get(f"/runs/{runs[0]['run_id']}/report")
    assert report.status == 200
    assert "sandbox allow-scripts" in report.headers["content-security-policy"]


def test_a_device_is_shown_as_in_use_until_the_command_ends(host: Host, page: ServedPage) -> None:
    """Otherwise a device in use would look free, or stay in use after its command was killed."""
    file = LiveFile(host.lab.store, "bench")
    with EventReader(page) as reader:
        file.put(LiveDevice(device=RACK, at_utc="", state="measuring", phase=Phase.LOADING))
        reader.until(lambda own: any(row["device"] == RACK for row in own.rows("lanes")))
        reader.until(lambda own: own.sections["devices"][RACK]["used_by"].startswith("bench on "))
        file.close()
        reader.until(lambda own: not own.rows("lanes"))
        reader.until(lambda own: not own.sections["devices"][RACK]["used_by"])


def test_subscribers_up_to_the_limit_all_get_the_same(host: Host, page: ServedPage) -> None:
    """Otherwise only one browser would be served, or unlimited subscribers fill the memory."""
    file = LiveFile(host.lab.store, "bench")

    async def receive(word: bytes, joined: asyncio.Semaphore) -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", page.port, limit=2**24)
        try:
            writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            is_taken = b" 200 " in await reader.readline()
            if is_taken:
                await reader.readuntil(b'"is_whole":true')
            joined.release()
            if is_taken:
                await reader.readuntil(word)
            return is_taken
        finally:
            writer.close()

    async def all_receive(count: int, word: str) -> list[bool]:
        joined = asyncio.Semaphore(0)
        tasks = [asyncio.create_task(receive(word.encode(), joined)) for _ in range(count)]
        for _ in tasks:
            await joined.acquire()
        file.put(LiveDevice(device=RACK, at_utc="", state="measuring", model=word))
        return await asyncio.wait_for(asyncio.gather(*tasks), 60)

    assert sum(asyncio.run(all_receive(MAX_SUBSCRIBERS + 10, "a-model"))) == MAX_SUBSCRIBERS
    file.close()


def test_whoever_only_connects_keeps_nobody_out(page: ServedPage) -> None:
    """Otherwise connections with no data, or half a request, would hold every place for ever."""
    address = ("127.0.0.1", page.port)
    with ExitStack() as opened:

        def connected(timeout_s: float) -> socket.socket:
            return opened.enter_context(socket.create_connection(address, timeout=timeout_s))

        silent = [connected(REQUEST_TIMEOUT_S * 6) for _ in range(MAX_CONNECTIONS - 10)]
        for one in silent[: MAX_CONNECTIONS // 2]:
            one.sendall(b"GET / HTTP/1.1\r\nHost: local")
        assert page.get("/app.css").status == 200
        for one in silent:
            with suppress(ConnectionResetError):  # of those whose place was needed
                assert one.recv(1) == b""


def test_connections_that_are_renewed_keep_no_browser_out(host: Host, page: ServedPage) -> None:
    """Otherwise a client that reconnects before each timeout would be the only one served."""
    address = ("127.0.0.1", page.port)
    is_over = threading.Event()
    renewed = 0

    def renew() -> None:
        nonlocal renewed
        silent = deque[socket.socket]()
        while not is_over.is_set():
            silent.append(socket.create_connection(address, timeout=REQUEST_TIMEOUT_S))
            renewed += 1
            if len(silent) > MAX_CONNECTIONS:
                silent.popleft().close()
        for one in silent:
            one.close()

    file = LiveFile(host.lab.store, "bench")
    with ExitStack() as opened:
        readers = [opened.enter_context(EventReader(page)) for _ in range(50)]
        crowd = threading.Thread(target=renew)
        crowd.start()
        try:
            while renewed < 2 * MAX_CONNECTIONS:
                time.sleep(0.01)
            statuses = [page.get(path).status for path in ("/", "/app.css", "/state.json") * 10]
            late = opened.enter_context(EventReader(page))
            file.put(LiveDevice(device=RACK, at_utc="", state="measuring", model="a-late-model"))
            for reader in (*readers, late):
                reader.until(lambda own: "a-late-model" in str(own.rows("lanes")))
        finally:
            is_over.set()
            crowd.join()
            file.close()
    assert statuses == [200] * 30


def test_a_request_that_has_no_end_is_given_up(page: ServedPage) -> None:
    """Otherwise a body that arrives byte by byte would keep its connection for ever."""
    with socket.create_connection(("127.0.0.1", page.port), timeout=1.0) as slow:
        slow.sendall(b"GET /app.css HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n")
        limit_s = time.monotonic() + REQUEST_TIMEOUT_S * 6
        with suppress(ConnectionError):
            while time.monotonic() < limit_s:
                slow.sendall(b"x")
                with suppress(TimeoutError, socket.timeout):
                    if not slow.recv(65536):
                        return
        assert time.monotonic() < limit_s


@pytest.mark.parametrize("port", ["-1", "65536", "99999"])
def test_port_that_there_is_not_is_refused(host: Host, port: str) -> None:
    """Otherwise the page would be at another port than the requested one."""
    result = host.run("serve", f"--port={port}")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"error: port must be from 0 to 65535; got {port}\nhint: ")


def test_the_page_serves_no_other_file_and_no_other_site(host: Host, page: ServedPage) -> None:
    """Otherwise a path could reach a file of the host, or another site read or embed the page."""
    host.lab.store.root.mkdir(parents=True, exist_ok=True)  # no other test may have run
    (host.lab.store.root / "secret.txt").write_text("secret")
    for path in ("/runs/..", "/runs/%2e%2e%2fsecret.txt", "/secret.txt", "/live", "/static/app.js"):
        assert page.get(path).status == 404, path
    for name in ("evil.example", "localhost.evil.example", "10.0.0.1", ""):
        assert page.get("/state.json", headers={"Host": name}).status == 421, name
    assert page.get("/", headers={"Host": "[::1]:80"}).status == 200
    assert page.get("/state.json", headers={"Sec-Fetch-Site": "cross-site"}).status == 403
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert page.get("/", method).status == 405
    for path in ("/", "/app.js", "/events", "/runs/none"):
        headers = page.get(path).headers
        assert "script-src 'self';" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


def test_requests_without_the_token_are_refused(host: Host) -> None:
    """Otherwise any client that reaches the port could read the page."""
    with served(host, "--token", TOKEN) as page:
        assert page.url.endswith(f"?token={TOKEN}")
        wrong: tuple[dict[str, str], ...] = (
            {},
            {"Authorization": f"Bearer {TOKEN}x"},
            {"Cookie": f"edgebench_{page.port}=x"},
            {"Cookie": "\x80=;"},
        )
        for path in ("/", "/app.js", "/events", "/state.json", "/runs/x", "/none", "/?token=x"):
            for headers in wrong:
                assert page.get(path, headers=headers).status == 401, (path, headers)
        entered = page.get(f"/?token={TOKEN}")
        assert (entered.status, entered.headers["location"]) == (303, "/")
        cookie = entered.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        for given in (
            {"Cookie": cookie.partition(";")[0]},
            {"Authorization": f"Bearer {TOKEN}"},
        ):
            assert page.get("/state.json", headers=given).status == 200


def test_page_in_a_browser_shows_names_as_text(host: Host, page: ServedPage) -> None:
    """Otherwise a model's name could run a script in the browser, or the page's own script fail."""
    store = host.lab.store
    path = store_run(store, RUN_ID) / "run.json"
    document = json.loads(path.read_text())
    document["model"]["name"] = document["device"]["name"] = EVIL
    path.write_text(json.dumps(document))
    file = LiveFile(store, "bench")
    file.put(LiveDevice(device=EVIL, at_utc="", state="waiting", model=EVIL, reason=EVIL))
    file.put(
        LiveDevice(
            device="__proto__", at_utc="", state="measuring", phase=Phase.LOADING,
            phase_begun_utc="no date", expected_s=1.0, run_begun_utc="none", runs_left_s=1.0,
        )
    )  # fmt: skip
    with started_browser() as browser, opened_page(browser, page.url) as seen:
        cards = seen.page.locator("#lanes .card")
        cards.get_by_role("heading", name=EVIL).wait_for()
        file.put(LiveDevice(device=EVIL, at_utc="", state="measuring", temp_c=71.5))
        cards.get_by_text("71.5 °C").wait_for()
        assert serious_violations(seen.page) == []
        file.close()
        seen.page.get_by_text("nothing is being measured").wait_for()
        run = seen.page.locator("#runs tr", has_text=RUN_ID)
        assert EVIL in run.inner_text()
        run.get_by_role("link", name="history").click()
        seen.page.get_by_role("heading", name=EVIL).wait_for()
        assert serious_violations(seen.page) == []
        seen.page.get_by_role("link", name=RUN_ID).click()
        assert EVIL in seen.page.locator("pre").inner_text()
        assert serious_violations(seen.page) == []
        assert seen.page.locator("img").count() == 0
        assert seen.complaints == []
        assert all(address.startswith((page.url, "data:,")) for address in seen.requests)


def test_page_on_a_network_needs_its_token(host: Host) -> None:
    """Otherwise another machine could read the page without its token, or a page on loopback."""
    need_root()
    need_tool("ip")

    def ask(machine: Namespace, url: str, *words: str) -> str:
        result = subprocess.run(
            [*machine.prefix, sys.executable, "-c", ASK, url, *words],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        return result.stdout.strip()

    with two_machines() as (here, there):
        with served(host, "--host", here.address, prefix=here.prefix) as page:
            assert page.token is not None
            base = f"http://{here.address}:{page.port}"
            assert page.url == f"{base}/?token={page.token}"
            for path in ("/", "/events", "/state.json", "/runs/x", "/app.js"):
                assert ask(there, base + path) == "401"
            assert ask(there, f"{base}/state.json", f"Bearer {page.token}") == "200"
        with served(host, prefix=here.prefix) as page:
            assert page.token is None
            assert ask(there, f"http://{here.address}:{page.port}/") == "ConnectionRefusedError"
