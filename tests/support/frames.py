"""Many frames in little time: conversations below any library, valid and hostile, over TLS."""

from __future__ import annotations

import random
import socket
import ssl
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgpack

from edgebench.protocol import messages as m
from edgebench.protocol.codec import encode
from edgebench.protocol.plain import to_plain
from support.wire import TIMEOUT_S, UPGRADE

FRAMES_PER_CONVERSATION = 300
STRANGER_RATIO = 0.1
"""Conversations of peers that are not paired, whose frames nobody may read."""
WRONG_VALUE_RATIO = 0.4
DIGEST = "0" * 64
CLOSE = b"\x88\x02\x03\xea"
"""The agent's last bytes: a WebSocket close frame, 1002. Source: RFC 6455, 5.5.1 and 7.4.1."""
VALID: tuple[m.Message, ...] = (
    *(4 * [m.Probe()]),
    m.Acquire(30.0),
    m.Release(),
    m.RunList(),
    m.SeatList(),
    m.RunFollow("run", 30.0),
    m.RunOpen("run"),
    m.FileRead("run", "record.json", 0),
    m.RunAcknowledge("run"),
    m.ModelChunk(DIGEST, 0),
)
"""Requests as they should be; most are about nothing that is there."""
WRONG_VALUES: tuple[m.Message, ...] = (
    m.RunOpen("../../etc/passwd"),
    m.RunOpen("x" * 60_000),
    m.RunCancel("\0\n\x1b[2J"),
    m.FileRead("run", "../../identity.pem", 0),
    m.FileRead("run", "record.json", 2**53),
    m.RunAcknowledge(""),
    m.ModelOffer("G" * 64, 5),
    m.ModelOffer(DIGEST, 2**53),
    m.ModelCommit(DIGEST),
    m.RunFollow("../../etc/passwd", 30.0),
)
"""Requests that are well formed and ask for what there must not be."""


@dataclass
class FrameCounts:
    """Frames that were sent, by kind."""

    valid: int = 0
    wrong_value: int = 0
    mutated: int = 0
    unpaired: int = 0

    @property
    def total(self) -> int:
        """Frames of every kind."""
        return self.valid + self.wrong_value + self.mutated + self.unpaired


def mutated(chance: random.Random) -> bytes:
    """A request with a value of the wrong type or size in it, with other bytes, or cut short."""
    message: Any = chance.choice((*VALID, *WRONG_VALUES, m.Hello(1, "test", "mallory", "2")))
    way = chance.randrange(3)
    data = bytearray(encode(chance.randrange(1000), message))
    if way == 0:
        body = to_plain(message)
        junk: tuple[Any, ...] = (None, -1, 2**63, "\0\n", [], {}, [[[]]], b"", float("nan"))
        if body:
            body[chance.choice(sorted(body))] = chance.choice(junk)
        header: bytes = msgpack.packb(["acquire" if body else "no_such_kind", 1, body])
        return struct.pack("<I", len(header)) + header
    if way == 1:
        return bytes(data[: chance.randrange(len(data))])
    for _ in range(chance.randrange(1, 5)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def exchange_frames(
    port: int, *, paired: ssl.SSLContext, stranger: ssl.SSLContext, seed: int
) -> Iterator[FrameCounts]:
    """Hold one conversation after another, without end; yields the counts after each.

    A conversation is sent in one piece and ends with a mutated frame, as that may end it, and an
    empty one, which does. All is read until the agent ends it, so each frame was dealt with. A
    stranger's are sent right behind the TLS handshake; nothing may come back.
    """
    chance, counts = random.Random(seed), FrameCounts()
    hello = encode(1, m.Hello(m.PROTOCOL_VERSION, "test", "ada", "frames"))
    while True:
        if chance.random() < STRANGER_RATIO:
            frames = [encode(1, chance.choice(VALID)) for _ in range(FRAMES_PER_CONVERSATION // 2)]
            frames += [mutated(chance) for _ in range(FRAMES_PER_CONVERSATION // 2)]
            answer = _answer_of_stranger(port, stranger, b"".join(map(_in_websocket, frames)))
            assert answer == b"", f"a stranger was answered: {answer[:100]!r}"
            counts.unpaired += len(frames)
        else:
            wrong = [chance.random() < WRONG_VALUE_RATIO for _ in range(FRAMES_PER_CONVERSATION)]
            frames = [
                encode(i, chance.choice(WRONG_VALUES if is_wrong else VALID))
                for i, is_wrong in enumerate(wrong)
            ]
            said = b"".join(map(_in_websocket, [hello, *frames, mutated(chance), b""]))
            answer = _answer_of_paired(port, paired, said)
            assert answer.count(b"problem") >= sum(wrong), "a request was not answered"
            counts.valid += len(frames) - sum(wrong) + 1
            counts.wrong_value += sum(wrong)
            counts.mutated += 2
        yield counts


def _in_websocket(data: bytes) -> bytes:
    """A binary WebSocket frame, masked with zeros. Source: RFC 6455, 5.2."""
    size = len(data)
    length = bytes([0x80 | size]) if size < 126 else b"\xfe" + struct.pack(">H", size)
    if size >= 2**16:
        length = b"\xff" + struct.pack(">Q", size)
    return b"\x82" + length + bytes(4) + data


def _answer_of_paired(port: int, context: ssl.SSLContext, data: bytes) -> bytes:
    """Everything that the agent says to a host until it closes, behind the upgrade."""
    with _connected(port, context) as link:
        link.sendall(UPGRADE)
        answer = link.recv(65536)
        assert answer.startswith(b"HTTP/1.1 101"), answer[:100]
        link.sendall(data)
        return _read_to_close(link)


def _answer_of_stranger(port: int, context: ssl.SSLContext, data: bytes) -> bytes:
    """What the agent says to somebody whom it does not know: it hangs up, at any moment."""
    try:
        with _connected(port, context) as link:
            link.sendall(UPGRADE + data)
            return _read_to_close(link)
    except OSError:
        return b""


def _connected(port: int, context: ssl.SSLContext) -> ssl.SSLSocket:
    plain = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
    try:
        return context.wrap_socket(plain)
    except OSError:
        plain.close()
        raise


def _read_to_close(link: ssl.SSLSocket) -> bytes:
    received = bytearray()
    try:
        while not received.endswith(CLOSE) and (piece := link.recv(65536)):
            received += piece
    except (ssl.SSLError, ConnectionError):
        pass
    return bytes(received)
