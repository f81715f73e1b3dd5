"""One agent that serves several devices: each is measured, held and identified separately."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host, wait_until
from support.started import SPEC, start
from support.tools import need_runtime
from support.wire import Conversation, tls_context

from edgebench.host.bench.builtin import find_model
from edgebench.host.stored_run import StoredRun
from edgebench.protocol import messages as m
from edgebench.protocol.digests import sha256_of
from edgebench.protocol.errors import LeaseHeld, NoSpace, NoSuchDevice
from edgebench.protocol.sizes import format_bytes
from edgebench.protocol.spec import SpecChanges

SEATS = ("imx8mp-evk", "raspberry-pi-5-cooled", "imx8mp-evk-2")
AGENT = "rack-simulated"
MODEL = "digits_int8.onnx"
SHORT: SpecChanges = {
    "duration_s": 1.0,
    "min_query_count": 20,
    "warmup_query_count": 1,
    "warmup_duration_s": 0.05,
    "is_checked": False,
    "cooldown_timeout_s": 0.0,
}
OVERLAP_S = 30.0
MODELS_BYTES = 100_000
QUOTA = ("--models-quota", str(MODELS_BYTES))


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent with three simulated boards, two of them alike."""
    need_runtime("onnxruntime")
    boards = ["imx8mp-evk", "raspberry-pi-5-cooled", "imx8mp-evk:7"]
    options = [word for board in boards for word in ("--simulate", board)]
    folder = tmp_path_factory.mktemp("agent")
    process = AgentProcess(folder, options=["--name", "rack", *QUOTA, *options]).start()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def host(agent: AgentProcess, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A host that is paired with the agent once, for all of its devices."""
    made = Host(tmp_path_factory.mktemp("host") / "h")
    made.lab.pair(agent.pairing_string())
    return made


def test_every_seat_is_a_line_of_the_list(agent: AgentProcess, host: Host) -> None:
    """Otherwise devices behind an agent would not be found, or one in use would look free."""
    with host.lab.connect(f"{AGENT}/{SEATS[1]}") as client:
        client.acquire()
        listed = json.loads(host.run("devices", "--json", "--timeout", "0.1s").stdout)["devices"]
        client.acquire()  # a busy machine takes longer for each than a lease lasts
        shown = host.run("devices", "--timeout", "0.1s").stdout
    seats = [one for one in listed if one["name"].startswith(AGENT)]
    assert [one["name"] for one in seats] == [f"{AGENT}/{seat}" for seat in SEATS]
    assert [one["access"] for one in seats] == 3 * ["ready"]
    names = [one["system"]["device"]["name"] for one in seats]
    assert names == [AGENT, "raspberry-pi-5-cooled-simulated", "imx8mp-evk-2-simulated"]
    assert len({one["id"] for one in seats}) == 3
    assert {one["system"]["device"]["profile"] for one in seats[::2]} == {
        seats[0]["system"]["device"]["profile"]
    }
    held = [one["seat"]["held_by"] for one in seats]
    assert (held[0], held[2]) == (None, None)
    assert held[1] is not None
    assert f"in use by {held[1]} for 0:0" in " ".join(shown.split())
    assert all(one["seat"]["temp_c"] > 20 and one["seat"]["fault"] is None for one in seats)
    [this] = [one for one in listed if one["name"] == "local"]
    assert (this["seat"]["name"], this["seat"]["held_by"]) == ("machine", None)


def test_status_lists_the_seats(agent: AgentProcess) -> None:
    """Otherwise the holder of each board would not be visible at the rack."""
    status = agent.status()
    assert tuple(seat.name for seat in status.seats) == SEATS
    assert status.device == status.seats[0].device


def test_two_devices_are_measured_at_the_same_time(agent: AgentProcess, host: Host) -> None:
    """Otherwise a run would end the other, wait for it, or be stored as one of the other device."""
    runs: dict[str, list[StoredRun]] = {}
    both = threading.Barrier(2)

    def lane(seat: str) -> None:
        both.wait(OVERLAP_S)
        changes: SpecChanges = {**SHORT, "duration_s": 3.0}
        runs[seat] = host.lab.bench(MODEL, runs=1, on=[f"{AGENT}/{seat}"], **changes)

    lanes = [threading.Thread(target=lane, args=(seat,)) for seat in SEATS[1:]]
    for thread in lanes:
        thread.start()
    wait_until(
        lambda: sum(seat.running is not None for seat in agent.status().seats) == 2,
        "both run",
    )
    assert agent.status().seats[0].running is None
    for thread in lanes:
        thread.join()
    ids = {seat.name: seat.device.id for seat in agent.status().seats}
    for seat in SEATS[1:]:
        [run] = runs[seat]
        assert run.document["device"]["id"] == ids[seat]
        assert run.document["device"]["name"] == f"{seat}-simulated"
        assert run.document["metrics"]["latency_ns"]["count"] >= 20
    assert (agent.status().spooled_count, agent.status().models_count) == (0, 1)


def test_each_seat_has_a_lease_and_a_spool_of_its_own(agent: AgentProcess, host: Host) -> None:
    """Otherwise a board in use would block the rack, or a board's runs would wait on another."""
    first, second = (f"{AGENT}/{seat}" for seat in SEATS[:2])
    with host.lab.connect(first) as held, host.lab.connect(second) as other:
        held.acquire()
        other.acquire()
        with host.lab.connect(AGENT) as late, pytest.raises(LeaseHeld):
            late.acquire()
        assert held.device.name == AGENT
        assert (held.seat, other.seat) == SEATS[:2]
    folders = [agent.state, *(agent.state / "seats" / seat for seat in SEATS[1:])]
    assert all((folder / "spool").is_dir() for folder in folders)
    assert sorted(path.name for path in (agent.state / "seats").iterdir()) == sorted(SEATS[1:])


def test_unknown_seat_is_refused_in_one_line(agent: AgentProcess, host: Host) -> None:
    """Otherwise a misspelt seat would measure on the first one."""
    with pytest.raises(NoSuchDevice, match=f"'nucleo'; available: {', '.join(SEATS)}"):
        host.lab.connect(f"{AGENT}/nucleo")
    result = host.run("bench", MODEL, "--on", f"{AGENT}/nucleo")
    assert result.returncode == 2
    assert "hint: see the list of devices: edgebench devices" in result.stderr


def test_model_that_another_host_sends_now_is_waited_for(agent: AgentProcess, host: Host) -> None:
    """Otherwise two lanes that send one model at once would both find it damaged."""
    data = bytes(range(256)) * 64
    folder = agent.folder / "model"
    folder.write_bytes(data)
    with folder.open("rb") as file:
        digest = sha256_of(file).hexdigest()
    identity = host.folder / "config" / "edgebench" / "host" / "identity.pem"
    context = tls_context(identity)
    with Conversation(agent.port, context) as one, Conversation(agent.port, context) as two:
        for number, link in enumerate((one, two)):
            hello = m.Hello(m.PROTOCOL_VERSION, "test", "ada", str(number), SEATS[number])
            assert isinstance(link.ask(hello), m.Welcome)
            assert isinstance(link.ask(m.Acquire(30.0)), m.Granted)
        half = len(data) // 2
        assert one.ask(m.ModelOffer(digest, len(data))) == m.ModelState(digest, 0, False)
        two.say(m.ModelOffer(digest, len(data)))
        one.say(m.ModelChunk(digest, 0), data[:half])
        one.say(m.ModelChunk(digest, half), data[half:])
        whole = m.ModelState(digest, len(data), is_complete=True)
        assert one.ask(m.ModelCommit(digest)) == whole
        assert two.receive() == whole


def test_model_that_was_sent_is_there_when_its_run_starts(
    agent: AgentProcess, host: Host, tmp_path: Path
) -> None:
    """Otherwise another seat could get its model in between, and the run find its own gone."""
    half = MODELS_BYTES * 2 // 3
    (other := tmp_path / "other").write_bytes(b"o" * half)
    with other.open("rb") as file:
        digest = sha256_of(file).hexdigest()
    with host.lab.connect(f"{AGENT}/{SEATS[1]}") as late:
        late.acquire()
        with host.lab.connect(AGENT) as first:
            first.acquire()
            mine = find_model("digits_fp32.onnx")
            first.push_model(mine.path, mine.sha256)
            with pytest.raises(NoSpace, match=f"{format_bytes(mine.size_bytes)} in use"):
                late.push_model(other, digest)
            run_id = start(first, replace(SPEC, duration_s=0.2))
            list(first.follow_run())
            first.acknowledge(run_id)
            assert late.push_model(other, digest) == half
    with host.lab.connect(AGENT) as next_one:
        next_one.acquire()
        next_one.push_model(mine.path, mine.sha256)  # a connection that was closed holds nothing


def test_seats_are_where_they_were_after_a_restart(tmp_path: Path) -> None:
    """Otherwise a run on the second board would not be found again, under another device id."""
    boards = ("--simulate", "imx8mp-evk", "--simulate", "rock-5b")
    agent = AgentProcess(tmp_path / "agent", options=boards).start()
    try:
        before = [seat.device for seat in agent.status().seats]
        agent.stop()
        agent.start()
        assert [seat.device for seat in agent.status().seats] == before
        assert (agent.state / "simulated").is_dir(), "where it was with one board"
    finally:
        agent.kill()
