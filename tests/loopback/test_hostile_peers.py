"""Strangers receive nothing; paired hosts that misbehave get a Problem and harm only themselves."""

from __future__ import annotations

import asyncio
import hashlib
import random
import ssl
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgpack
import pytest
from support.agents import AgentProcess, Host, wait_until
from support.frames import exchange_frames
from support.wire import (
    UPGRADE,
    Conversation,
    answer_to,
    is_closed_by_peer,
    reconnecting_silence,
    silent_connections,
    tls_context,
)

from edgebench.agent.admission import COLLECT_EVERY, MAX_PARKED_PER_NETWORK
from edgebench.agent.control import send_request
from edgebench.host.bench.builtin import find_model
from edgebench.host.bench.run import new_run_id
from edgebench.host.devices.files import HostFiles
from edgebench.protocol import messages as m
from edgebench.protocol.codec import MAX_FRAME_BYTES, MAX_HEADER_BYTES, encode
from edgebench.protocol.errors import ErrorCode, LeaseHeld, NotPaired, TransportError, WrongAgent
from edgebench.protocol.identity import new_identity, pairing_identity, parse_pairing_string
from edgebench.protocol.pem import Pem
from edgebench.protocol.plain import to_plain
from edgebench.protocol.spec import RunSpec
from edgebench.system.control_address import ControlAddress

GROWTH_LIMIT_BYTES = 8 * 2**20
MEMORY_NOISE_BYTES = 5_000_000
CONNECTION_BYTES = 400 * 1024
"""Memory of one TLS connection, with some room."""
FUZZ_COUNT = 400
SPEC = RunSpec(
    "onnx", duration_s=0.1, min_query_count=10, warmup_query_count=1, warmup_duration_s=0
)
MODEL = find_model("digits_int8.onnx")
TLS_ALERT = 0x15
"""First byte of a TLS record that only ends the connection. Source: RFC 8446, 5.1."""


@dataclass
class Bench:
    """One agent, and two hosts that are paired with it."""

    agent: AgentProcess
    ada: Host
    bob: Host
    folder: Path

    def context(self, host: Host) -> ssl.SSLContext:
        """TLS with the identity of a host."""
        return tls_context(host.folder / "config" / "edgebench" / "host" / "identity.pem")

    def talk(self, host: Host | None = None, *, session: str = "1") -> Conversation:
        """A conversation that has begun correctly."""
        host = host or self.ada
        link = Conversation(self.agent.port, self.context(host))
        assert isinstance(link.hello(host.folder.name, session), m.Welcome)
        return link

    def identity(self, name: str, key_and_certificate: str) -> Path:
        """An identity as a file."""
        path = self.folder / f"{name}.pem"
        path.write_text(key_and_certificate)
        return path

    def assert_serves(self) -> None:
        """The agent is alive and serves a paired host."""
        with self.talk(self.bob) as link:
            assert isinstance(link.ask(m.Probe()), m.ProbeReply)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """An agent that survives all of this."""
    folder = tmp_path_factory.mktemp("hostile")
    agent = AgentProcess(folder / "agent", options=["--name", "board"]).start()
    made = Bench(agent, Host(folder / "ada"), Host(folder / "bob"), folder)
    try:
        for host in (made.ada, made.bob):
            host.lab.pair(agent.pairing_string())
        made.assert_serves()
        yield made
    finally:
        agent.kill()


@pytest.fixture(autouse=True)
def _serves_afterwards(bench: Bench) -> Iterator[None]:
    """Check after each test that the agent is the same process, and serves its hosts."""
    pid = bench.agent.status().pid
    yield
    assert bench.agent.status().pid == pid == bench.agent.pid
    bench.assert_serves()


# Strangers.


def stranger(bench: Bench) -> ssl.SSLContext:
    """A peer with an identity of its own."""
    identity = new_identity("stranger")
    return tls_context(bench.identity("stranger", identity.key_pem + identity.certificate_pem))


def nobody(_: Bench) -> ssl.SSLContext:
    """A peer without a certificate."""
    return tls_context(None)


def old_tls(bench: Bench) -> ssl.SSLContext:
    """A paired host with an outdated library."""
    identity = bench.ada.folder / "config" / "edgebench" / "host" / "identity.pem"
    return tls_context(identity, highest=ssl.TLSVersion.TLSv1_2)


def used_secret(bench: Bench) -> ssl.SSLContext:
    """A peer with a pairing string that was already used."""
    text = bench.agent.pairing_string()
    bench.bob.lab.pair(text)
    once = pairing_identity(parse_pairing_string(text).secret)
    return tls_context(bench.identity("used", once.key_pem + once.certificate_pem))


def expired_secret(bench: Bench) -> ssl.SSLContext:
    """A peer with a pairing string that has expired."""
    once = pairing_identity(random.Random(5).randbytes(16))
    context = tls_context(bench.identity("expired", once.key_pem + once.certificate_pem))
    opening, began_s = m.PairingOpen(once.certificate_pem, 3.0), time.monotonic()
    asyncio.run(send_request(ControlAddress(bench.agent.state), opening, m.PairingReady))
    is_open = answer_to(bench.agent.port, UPGRADE, context).startswith(b"HTTP/1.1 101")
    assert is_open or time.monotonic() > began_s + opening.valid_s, "it was never open"
    wait_until(lambda: not answer_to(bench.agent.port, UPGRADE, context), "the pairing has expired")
    return context


STRANGERS: list[Callable[[Bench], ssl.SSLContext]] = [
    stranger, nobody, old_tls, used_secret, expired_secret,
]  # fmt: skip


@pytest.mark.parametrize("who", STRANGERS, ids=lambda who: who.__name__)
def test_stranger_receives_not_a_single_byte(
    bench: Bench, who: Callable[[Bench], ssl.SSLContext]
) -> None:
    """Otherwise a network peer could learn what runs here, or measure on it."""
    context = who(bench)
    for data in (UPGRADE, b"GET / HTTP/1.1\r\n\r\n", encode(1, m.Probe()), b"\0" * 70_000):
        assert answer_to(bench.agent.port, data, context) == b""


def test_paired_host_receives_bytes(bench: Bench) -> None:
    """Otherwise the test above could pass because no peer ever receives anything."""
    answer = answer_to(bench.agent.port, UPGRADE, bench.context(bench.ada))
    assert answer.startswith(b"HTTP/1.1 101")


@pytest.mark.parametrize("seed", range(4))
def test_plain_text_receives_at_most_a_tls_alert(bench: Bench, seed: int) -> None:
    """Otherwise the port would reply in plain text."""
    garbage = random.Random(seed).randbytes(5000)
    for data in (UPGRADE, b"GET / HTTP/1.0\r\n\r\n", b"SSH-2.0-x\r\n", garbage, b"\x16\x03" * 400):
        answer = answer_to(bench.agent.port, data, None)
        assert answer == b"" or answer[0] == TLS_ALERT


@pytest.mark.parametrize(
    ("who", "source"),
    [(used_secret, "127.0.1.1"), (expired_secret, "127.0.1.2")],
    ids=["used_secret", "expired_secret"],
)
def test_refused_pairing_is_in_the_log(
    bench: Bench, who: Callable[[Bench], ssl.SSLContext], source: str
) -> None:
    """Otherwise pairing strings could be tried without the device's owner learning of it.

    Repeated tries from one address are counted, so each comes from an address of its own.
    """
    answer_to(bench.agent.port, UPGRADE, who(bench), source=source)
    line = f"refused an unpaired peer from {source}"
    wait_until(lambda: line in bench.agent.errors(), "it was written down")


def test_used_pairing_string_is_refused_with_the_reason(bench: Bench) -> None:
    """Otherwise a second host could pair with a used string, or not learn why it cannot."""
    text = bench.agent.pairing_string()
    bench.bob.lab.pair(text)
    thief = Host(bench.folder / "thief")
    with pytest.raises(NotPaired, match="used already, or is older than ten minutes"):
        thief.lab.pair(text)
    string = parse_pairing_string(text)
    mistyped = str(replace(string, fingerprint=string.fingerprint[::-1]))
    with pytest.raises(WrongAgent, match="PIN is mistyped, or another agent printed the string"):
        thief.lab.pair(mistyped)
    assert HostFiles(thief.folder / "config" / "edgebench" / "host").devices() == ()


def test_secret_is_good_for_pairing_only(bench: Bench) -> None:
    """Otherwise a pairing string that was seen by others would permit measuring without pairing."""
    once = pairing_identity(parse_pairing_string(bench.agent.pairing_string()).secret)
    context = tls_context(bench.identity("once", once.key_pem + once.certificate_pem))
    for message in (m.Describe(), m.Acquire(5.0), m.RunList(), m.StatusAsk(), m.Probe()):
        with Conversation(bench.agent.port, context) as link:
            assert isinstance(link.hello(), m.Welcome)
            problem = link.ask(message)
            assert isinstance(problem, m.Problem)
            assert "not allowed on this connection" in problem.text
            assert link.receive() is None


def is_served(host: Host) -> bool:
    """Whether a paired host can communicate with its device."""
    with suppress(TransportError), host.lab.connect("board") as client:
        return len(client.probe_clock(1)) == 1
    return False


def test_silent_connections_do_not_take_the_agent_away(agent: AgentProcess, paired: Host) -> None:
    """Otherwise silent connections could lock out all hosts, or use up the memory."""
    before = agent.resident_bytes()
    with silent_connections(agent.port, 200) as links:
        wait_until(
            lambda: sum(map(is_closed_by_peer, links)) >= 200 - MAX_PARKED_PER_NETWORK,
            "the connections over the limit are closed",
        )
        grown = agent.resident_bytes() - before
        assert grown < COLLECT_EVERY * CONNECTION_BYTES
        assert is_served(paired)
    assert "too many unidentified connections" in agent.errors()


def test_silent_connections_that_come_again_refuse_no_host(
    agent: AgentProcess, paired: Host
) -> None:
    """Otherwise seventy silent sockets would lock the paired hosts out: 118 of 121 refused."""
    words = ("bench", MODEL.name, "--on", "board", "--quick", "--runs=1", "--duration", "1s")
    with reconnecting_silence(agent.port, 70) as made:
        bench = paired.popen(*words, "--runtime", "onnx", "--no-check")
        began_s, served = time.monotonic(), 0
        while (
            time.monotonic() < began_s + 4.0
            or served < 20
            or made() <= 200  # silent ones, of which most came again
            or bench.poll() is None
        ):
            assert is_served(paired)
            served += 1
    _, errors = bench.communicate(timeout=60)
    assert bench.returncode in (0, 3), errors


def test_failed_handshakes_do_not_take_the_agent_away(agent: AgentProcess, paired: Host) -> None:
    """Otherwise a nightly port scanner would lock all hosts out after two months."""
    for _ in range(2 * COLLECT_EVERY):
        answer_to(agent.port, b"not TLS", None)
    assert is_served(paired)


# Paired hosts that misbehave.


def test_status_shows_hostile_names_on_their_lines(bench: Bench) -> None:
    """Otherwise a host's name could clear the screen that shows the status, and forge its lines."""
    evil = "ada\x1b[2J\r\nlease    free\u202e\x07"
    text = bench.agent.pairing_string()
    once = pairing_identity(parse_pairing_string(text).secret)
    context = tls_context(bench.identity("evil", once.key_pem + once.certificate_pem))
    with Conversation(bench.agent.port, context) as link:
        assert isinstance(link.hello(evil), m.Welcome)
        certificate = new_identity("evil").certificate_pem
        assert not isinstance(link.ask(m.PairHost(certificate, evil)), m.Problem)
    with Conversation(bench.agent.port, bench.context(bench.ada)) as link:
        assert isinstance(link.hello(evil), m.Welcome)
        assert isinstance(link.ask(m.Acquire(30.0)), m.Granted)
        command = bench.agent.command("status")
        status = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        assert isinstance(link.ask(m.Release()), m.Done)
    lines = status.stdout.split("\n")[:-1]
    assert all(line.isprintable() for line in lines), lines
    assert [line for line in lines if line.startswith("lease ")] == [
        next(line for line in lines if "held by ada?[2J" in line)
    ]
    assert any(line.startswith("hosts ") and "ada?[2J" in line for line in lines)


def frame_of(header: bytes, payload: bytes = b"") -> bytes:
    """A frame around unchecked header bytes."""
    return struct.pack("<I", len(header)) + header + payload


def frame_with(kind: object, body: object, number: object = 1) -> bytes:
    """A frame around unchecked values."""
    return frame_of(msgpack.packb([kind, number, body]))


HOSTILE_FRAMES: dict[str, bytes | str] = {
    "oversized": bytes(MAX_FRAME_BYTES + 1),
    "header over the bound": frame_of(bytes(MAX_HEADER_BYTES + 1)),
    "empty": b"",
    "truncated size": b"\x01\x02",
    "truncated header": encode(1, m.Probe())[:-3],
    "header larger than the frame": struct.pack("<I", 2**32 - 1) + b"\x93",
    "text": "hello",
    "deep arrays": frame_of(b"\x93\xa5probe\x01\x81\xa1x" + b"\x91" * 60_000 + b"\xc0"),
    "deep maps": frame_of(b"\x93\xa5probe\x01\x81\xa1x" + b"\x81\xa1k" * 20_000 + b"\xc0"),
    "unknown kind": frame_with("no_such_message", {}),
    "long unknown kind": frame_with("x" * 60_000, {}),
    "kind with line breaks": frame_with("probe\r\nX: \x1b[31m", {}),
    "kind that only an agent sends": encode(1, m.Done()),
    "kind that is local": encode(1, m.StatusAsk()),
    "pairing without a secret": encode(1, m.PairHost(Pem("certificate"), "mallory")),
    "opening a pairing from outside": encode(1, m.PairingOpen(Pem("certificate"), 60.0)),
    "number out of range": frame_with("probe", {}, 2**63),
    "negative number": frame_with("probe", {}, -1),
    "time that is no number": encode(1, m.Acquire(float("nan"))),
    "time without an end": encode(1, m.RunFollow("run", float("inf"))),
    "negative time": encode(1, m.Acquire(-1.0)),
    "negative offset": encode(1, m.FileRead("run", "record.json", -1)),
    "negative size": encode(1, m.ModelOffer("0" * 64, -1)),
    "size beyond any disk": encode(1, m.ModelOffer("0" * 64, 2**63)),
    "wrong types": frame_with("acquire", {"ttl_s": {"a": []}}),
    "random": random.Random(7).randbytes(5000),
}
"""Frames after which the agent must close the connection."""


def assert_is_problem(message: m.Message | None) -> m.Problem:
    """A Problem whose text is one short line."""
    assert isinstance(message, m.Problem), message
    assert message.text.isprintable(), repr(message.text)
    assert 5 < len(message.text) < 1000
    return message


@pytest.mark.parametrize("what", HOSTILE_FRAMES)
def test_broken_frame_gets_a_problem_or_the_end_and_nothing_else(bench: Bench, what: str) -> None:
    """Otherwise a wrong frame could be accepted, or end the agent."""
    with bench.talk() as link:
        link.send(HOSTILE_FRAMES[what])
        message = link.receive()
        if message is not None:
            assert assert_is_problem(message).code == ErrorCode.PROTOCOL
            assert link.receive() is None, "the conversation must be over"


@pytest.mark.parametrize(
    "message", [m.Probe(), m.Describe(), m.Acquire(5.0), m.RunList(), m.ModelOffer("0" * 64, 1)]
)
def test_nothing_is_answered_before_hello(bench: Bench, message: m.Message) -> None:
    """Otherwise a host of an unknown version would be served."""
    with Conversation(bench.agent.port, bench.context(bench.ada)) as link:
        assert "before hello" in assert_is_problem(link.ask(message)).text
        assert link.receive() is None


@pytest.mark.parametrize("protocol", [-1, 0, 2, 3, 4, 5, 6, 2**63 - 1])
def test_hosts_one_version_apart_are_served_and_others_told_to_update(
    bench: Bench, protocol: int
) -> None:
    """Otherwise a version mismatch would end in nonsense, or lock out the neighbouring version."""
    with Conversation(bench.agent.port, bench.context(bench.ada)) as link:
        answer = link.ask(m.Hello(protocol, "test", "ada", "1"))
        if abs(protocol - m.PROTOCOL_VERSION) <= 1:
            assert isinstance(answer, m.Welcome)
        else:
            assert "update the older program" in assert_is_problem(answer).text


EVIL_IDS = ("../x", "..", "", "/etc/passwd", "a/b", "a\0b", "a\nb", "x" * 65, "x" * 60_000)


@pytest.mark.parametrize("run_id", EVIL_IDS, ids=lambda run_id: repr(run_id[:12]))
def test_run_ids_cannot_be_paths(bench: Bench, run_id: str) -> None:
    """Otherwise a paired host could read or remove what is not a run."""
    outside = bench.agent.folder / "state" / "x"
    outside.write_text("not a run")
    digest = "0" * 64
    with bench.talk() as link:
        assert isinstance(link.ask(m.Acquire(30.0)), m.Granted)
        for message in (
            m.RunOpen(run_id),
            m.RunAcknowledge(run_id),
            m.RunCancel(run_id),
            m.RunFollow(run_id, 30.0),
            m.RunStart(run_id, SPEC, digest, "model"),
            m.FileRead(run_id, "record.json", 0),
            m.FileRead("run", f"../{run_id}", 0),
        ):
            assert assert_is_problem(link.ask(message)).code != ErrorCode.INTERNAL
        assert isinstance(link.ask(m.Release()), m.Done)
    assert outside.read_text() == "not a run"
    assert list((bench.agent.state / "work").iterdir()) == []


def test_model_transfer_out_of_order_is_refused_and_harms_no_model(bench: Bench) -> None:
    """Otherwise chunks that overlap, skip or belong elsewhere could form a model."""
    data = b"model" * 1000
    digest = hashlib.sha256(data).hexdigest()
    with bench.talk() as link:
        lease = assert_is_problem(link.ask(m.ModelOffer(digest, len(data))))
        assert lease.code == ErrorCode.LEASE_HELD
        assert isinstance(link.ask(m.Acquire(30.0)), m.Granted)
        not_offered = assert_is_problem(link.ask(m.ModelChunk(digest, 0), data))
        assert "not offered" in not_offered.text
        for offset, chunk in ((5, data), (2**53, b"x"), (0, data + b"x")):
            assert link.ask(m.ModelOffer(digest, len(data))) == m.ModelState(digest, 0, False)
            assert_is_problem(link.ask(m.ModelChunk(digest, offset), chunk))
            assert_is_problem(link.ask(m.ModelCommit(digest)))
        for size in (0, 2**53):
            answer = link.ask(m.ModelOffer(digest, size))
            assert isinstance(answer, (m.Problem, m.ModelState))
        for name in ("../x", "0" * 63, "G" * 64, "0" * 64 + "\n"):
            assert "sha256" in assert_is_problem(link.ask(m.ModelOffer(name, 5))).text
        assert link.ask(m.ModelOffer(digest, len(data))) == m.ModelState(digest, 0, False)
        link.say(m.ModelChunk(digest, 0), data)
        assert link.ask(m.ModelCommit(digest)) == m.ModelState(digest, len(data), True)
        assert isinstance(link.ask(m.Release()), m.Done)


def test_damaged_model_is_refused_when_it_is_complete(bench: Bench) -> None:
    """Otherwise other bytes would be measured under the name of this model."""
    digest = hashlib.sha256(b"something else").hexdigest()
    with bench.talk() as link:
        assert isinstance(link.ask(m.Acquire(30.0)), m.Granted)
        assert isinstance(link.ask(m.ModelOffer(digest, 4)), m.ModelState)
        link.say(m.ModelChunk(digest, 0), b"evil")
        problem = assert_is_problem(link.ask(m.ModelCommit(digest)))
        assert problem.code == ErrorCode.MODEL_REFUSED
        assert link.ask(m.ModelOffer(digest, 4)) == m.ModelState(digest, 0, False)
        assert isinstance(link.ask(m.Release()), m.Done)


def test_run_of_a_model_that_is_not_there_leaves_nothing(bench: Bench) -> None:
    """Otherwise a refused run would leave its lease, a directory or a worker."""
    with bench.talk() as link:
        assert_is_problem(link.ask(m.RunStart("run-1", SPEC, "0" * 64, "model")))
        assert isinstance(link.ask(m.Acquire(30.0)), m.Granted)
        problem = assert_is_problem(link.ask(m.RunStart("run-1", SPEC, "0" * 64, "model")))
        assert problem.code == ErrorCode.MODEL_REFUSED
        unknown = replace(SPEC, runtime="x\n" * 20_000)
        problem = assert_is_problem(link.ask(m.RunStart("run-1", unknown, "0" * 64, "model")))
        assert problem.code == ErrorCode.RUNTIME_UNAVAILABLE
        assert isinstance(link.ask(m.Release()), m.Done)
    assert bench.agent.status().lease_holder is None
    assert list((bench.agent.state / "work").iterdir()) == []


def test_hundreds_of_hostile_frames_cost_no_memory_and_disturb_nobody(bench: Bench) -> None:
    """Otherwise a faulty or infected paired host could take the device away from the others."""
    chance = random.Random(99)
    with bench.talk(bench.bob, session="other") as other:
        assert isinstance(other.ask(m.Acquire(120.0)), m.Granted)
        for _ in range(FUZZ_COUNT // 4):  # all one-time allocations are made by now
            hostile_exchange(bench, chance)
        before = bench.agent.resident_bytes()
        for _ in range(FUZZ_COUNT):
            hostile_exchange(bench, chance)
            assert isinstance(other.ask(m.Probe()), m.ProbeReply)
        assert bench.agent.resident_bytes() - before < GROWTH_LIMIT_BYTES
        status = bench.agent.status()
        assert (status.lease_holder, status.running) == (bench.bob.folder.name, None)
        assert isinstance(other.ask(m.Release()), m.Done)


def test_thousands_of_frames_leave_neither_memory_nor_descriptors(bench: Bench) -> None:
    """Otherwise each conversation, or each stranger, would cost the agent something for good.

    The long form, with a million frames, is tests/system/frames.py.
    """
    conversations = exchange_frames(
        bench.agent.port, paired=bench.context(bench.ada), stranger=stranger(bench), seed=13
    )
    memory, frame_counts = [], []
    for conversation_count in (6, 5):
        for _ in range(conversation_count):
            counts = next(conversations)
        wait_until(lambda: bench.agent.status().lease_holder is None, "the last host has left")
        memory.append(bench.agent.resident_bytes())
        frame_counts.append(counts.total)
    assert counts.unpaired > 0
    assert frame_counts[1] - frame_counts[0] > 1000
    assert memory[1] - memory[0] < MEMORY_NOISE_BYTES


def hostile_exchange(bench: Bench, chance: random.Random) -> None:
    """Send a message that is nearly right, and wait until the agent has handled it."""
    with bench.talk() as link:
        for _ in range(chance.randrange(1, 4)):
            link.send(nearly_right(chance))
        link.say(m.Probe())
        while (answer := link.receive()) is not None:
            if isinstance(answer, m.ProbeReply):
                return


def nearly_right(chance: random.Random) -> bytes:
    """A request with a wrong value or wrong bytes in it, or only bytes."""
    message: Any = chance.choice(
        [
            m.Acquire(30.0),
            m.ModelOffer("0" * 64, 5),
            m.ModelChunk("0" * 64, 0),
            m.ModelCommit("0" * 64),
            m.RunStart("run", SPEC, "0" * 64, "model"),
            m.RunOpen("run"),
            m.FileRead("run", "record.json", 0),
            m.RunAcknowledge("run"),
            m.RunFollow("run", 30.0),
            m.SeatList(),
            m.Hello(1, "test", "mallory", "2"),
        ]
    )
    if chance.random() < 0.5:
        body = to_plain(message)
        junk: list[Any] = [
            None,
            -1,
            2**63,
            "x" * 60_000,
            "\0\n",
            [],
            {},
            [[[]]],
            b"",
            1e308,
            float("nan"),
        ]
        body[chance.choice(sorted(body) or ["seat"])] = chance.choice(junk)
        kind = "".join("_" + c.lower() if c.isupper() else c for c in type(message).__name__)[1:]
        header = msgpack.packb([kind, chance.randrange(1000), body])
        return frame_of(header[:MAX_HEADER_BYTES], chance.randbytes(chance.choice((0, 0, 9))))
    data = bytearray(encode(chance.randrange(1000), message))
    for _ in range(chance.randrange(1, 5)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def test_flood_of_requests_without_reading_hurts_only_its_sender(bench: Bench) -> None:
    """Otherwise unread responses would pile up in the agent."""
    before = bench.agent.resident_bytes()
    with bench.talk() as flood, bench.talk(bench.bob) as other:
        for _ in range(20_000):
            flood.say(m.Probe())
            # The socket's buffers take some; then the sender must wait, not the agent.
        assert isinstance(other.ask(m.Probe()), m.ProbeReply)
        assert bench.agent.resident_bytes() - before < GROWTH_LIMIT_BYTES


# Hosts among themselves.


def spool_a_run(bench: Bench, host: Host) -> str:
    """Start a run that its host does not collect, and return the run's id."""
    run_id = new_run_id()
    with host.lab.connect("board") as client:
        client.acquire()
        client.push_model(MODEL.path, MODEL.sha256)
        client.start_run(
            run_id,
            SPEC,
            sha256=MODEL.sha256,
            model_name=MODEL.name,
            size_bytes=MODEL.size_bytes,
        )
    listing = m.RunListing((run_id,), None)
    with bench.talk(host) as link:
        wait_until(
            lambda: link.ask(m.RunList()) == listing,
            "the run ends and is spooled although its host is gone",
            60,
        )
    return run_id


def test_host_neither_sees_nor_touches_the_runs_of_another(bench: Bench) -> None:
    """Otherwise a host could read, collect or remove another host's results."""
    run_id = spool_a_run(bench, bench.ada)
    with bench.talk(bench.bob) as link:
        assert link.ask(m.RunList()) == m.RunListing((), None)
        for message in (
            m.RunOpen(run_id),
            m.FileRead(run_id, "record.json", 0),
            m.RunAcknowledge(run_id),
            m.RunCancel(run_id),
        ):
            problem = assert_is_problem(link.ask(message))
            assert problem.code == ErrorCode.USAGE
    with bench.talk(bench.ada) as link:
        assert link.ask(m.RunList()) == m.RunListing((run_id,), None)
        far = 2**40
        assert link.ask(m.FileRead(run_id, "record.json", far)) == m.FileData(far)
        assert link.ask(m.RunAcknowledge(run_id)) == m.Done()
        assert link.ask(m.RunList()) == m.RunListing((), None)


def test_second_host_hears_who_measures_and_is_served_afterwards(bench: Bench) -> None:
    """Otherwise two hosts would measure at once, or the second would not learn who measures."""
    with bench.talk(bench.ada) as ada, bench.talk(bench.bob) as bob:
        assert isinstance(ada.ask(m.Acquire(60.0)), m.Granted)
        for message in (m.Acquire(60.0), m.ModelOffer("0" * 64, 5)):
            problem = assert_is_problem(bob.ask(message))
            assert problem.code == ErrorCode.LEASE_HELD
            assert "in use by ada, until it releases the device or is silent for" in problem.text
        assert isinstance(bob.ask(m.Release()), m.Done)
        assert isinstance(assert_is_problem(bob.ask(m.Acquire(60.0))), m.Problem)
        assert isinstance(ada.ask(m.Release()), m.Done)
        assert isinstance(bob.ask(m.Acquire(60.0)), m.Granted)


def test_two_processes_of_one_host_do_not_share_a_lease(bench: Bench) -> None:
    """Otherwise two terminals of one user would measure at once and disturb each other."""
    with bench.talk(session="one") as one, bench.talk(session="two") as two:
        assert isinstance(one.ask(m.Acquire(60.0)), m.Granted)
        assert assert_is_problem(two.ask(m.Acquire(60.0))).code == ErrorCode.LEASE_HELD


def test_lease_of_a_host_that_falls_silent_expires(bench: Bench) -> None:
    """Otherwise a host that hangs, with its connection open, would hold the device for ever."""
    with bench.talk(bench.ada) as silent, bench.talk(bench.bob) as link:
        assert silent.ask(m.Acquire(2.0)) == m.Granted(2.0)
        assert assert_is_problem(link.ask(m.Acquire(5.0))).code == ErrorCode.LEASE_HELD
        wait_until(lambda: isinstance(link.ask(m.Acquire(5.0)), m.Granted), "the lease is free")


def test_lease_of_a_host_that_is_gone_is_free_at_once(bench: Bench) -> None:
    """Otherwise a killed host would block the device for the rest of its two minutes."""
    with bench.talk(bench.ada) as gone:
        assert isinstance(gone.ask(m.Acquire(120.0)), m.Granted)
    with bench.talk(bench.bob) as link:
        wait_until(lambda: isinstance(link.ask(m.Acquire(5.0)), m.Granted), "the lease is free")


def test_python_interface_says_who_holds_the_device(bench: Bench) -> None:
    """Otherwise a script that meets a busy device would get another error than a held lease."""
    with bench.talk(bench.bob) as bob:
        assert isinstance(bob.ask(m.Acquire(60.0)), m.Granted)
        with pytest.raises(LeaseHeld, match="in use by bob"):
            bench.ada.lab.bench(
                MODEL.path, runs=1, on=["board"], duration_s=0.1, warmup_duration_s=0.05
            )
