"""Throughput of a model push, compared with paramiko's SFTP and a bare TLS copy.

    python benchmarks/push.py [--rounds 15] [--size 50000000] [--short] [--patience 0]

Each round sends new random bytes over loopback, in each of these ways:

    edgebench              acquire + push_model to a real agent, until the agent has verified the
                           SHA-256 and stored the model
    paramiko               SFTP `put` to OpenSSH's sshd, on paramiko's own socket
    paramiko, TCP_NODELAY  the same on a socket with TCP_NODELAY
    bare TLS, discarded    asyncio streams over TLS 1.3, 256 KiB writes and drain; the receiver
                           (sink.py) counts and discards the bytes
    bare TLS, to a file    the same, but the receiver writes a file

Connections are open before the clock starts. Every receiver is a separate process, and every sender
reads the same file from the page cache.

Then the same content is pushed again, on the open connection and on a new connection. The kernel
counts the bytes of the connection (TCP_INFO). Two numbers are reported: the bytes that TCP has
carried, and the bytes including headers. The headers of each segment are 40 bytes of IP and TCP
header and 12 bytes of timestamps.
"""

from __future__ import annotations

import argparse
import asyncio
import getpass
import hashlib
import os
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import paramiko
from common import (
    NAME,
    LoopbackAgent,
    add_patience,
    claim,
    claims_table,
    end,
    interleave,
    machine,
    paired_ratios,
    parse,
    report,
    seconds_of,
    spread,
)

from edgebench.host.client import Client
from edgebench.host.lab import Lab
from edgebench.protocol.identity import new_identity

SINK = Path(__file__).with_name("sink.py")
BLOCK_BYTES = 256 * 1024
TO_FILE = 1 << 63
SEGMENT_HEADER_BYTES = 52
"""IPv4 and TCP header with the timestamp option. Source: RFC 791, RFC 9293, RFC 7323."""
SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
OURS = "edgebench"
PARAMIKO, NODELAY = "paramiko", "paramiko, TCP_NODELAY"
DISCARDED, WRITTEN = "bare TLS, discarded", "bare TLS, to a file"
BARS = {PARAMIKO: 2.5, NODELAY: 2.5, DISCARDED: 0.7, WRITTEN: 0.7}
"""Maps each compared side to the bar for the ratio of edgebench's throughput to the side's
throughput."""
REPUSH_MS, REPUSH_BYTES = 20.0, 2048


@dataclass
class Payload:
    """File that every side sends; its bytes are new in every round."""

    path: Path
    size: int
    sha256: str = ""

    def renew(self) -> None:
        """Write new random bytes."""
        data = os.urandom(self.size)
        self.path.write_bytes(data)
        self.sha256 = hashlib.sha256(data).hexdigest()


class RenewedConnection(ExitStack):
    """A new connection for each round; an agent keeps offered models until the connection ends."""

    def __init__(self, lab: Lab) -> None:
        super().__init__()
        self._lab = lab
        self.client: Client

    def renew(self) -> None:
        """Connect again, and acquire the lease."""
        self.close()
        self.client = self.enter_context(self._lab.connect(NAME))
        self.client.acquire()


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    add_patience(parser)
    parser.add_argument("--size", type=int, default=50_000_000, metavar="BYTES")
    options = parse(parser, smoke={"rounds": 1, "size": 1_000_000}, rounds=5)
    began = machine()
    with tempfile.TemporaryDirectory(prefix="edgebench-") as name, ExitStack() as stack:
        folder = Path(name)
        payload = Payload(folder / "model.bin", options.size)
        # Room for two models, so that the store evicts the oldest instead of growing every round.
        quota = str(2 * options.size + 2**20)
        agent = stack.enter_context(
            LoopbackAgent(folder / "agent", "--no-advertise", "--models-quota", quota)
        )
        lab = agent.lab(folder / "host")
        connection = stack.enter_context(RenewedConnection(lab))

        def renew() -> None:
            payload.renew()
            connection.renew()

        sides = {OURS: lambda: push(connection.client, payload)}
        sides |= other_sides(folder, payload, stack)
        seconds = interleave(sides, options.rounds, before_round=renew, patience_s=options.patience)
        claims = throughput_claims(seconds, options.size)
        claims += repush_claims(lab, connection, payload)
    report(f"Push of a model of {options.size / 1e6:.0f} MB", [claims_table(claims)], began)


def push(client: Client, payload: Payload) -> float:
    """Seconds until the agent has verified and stored the model."""

    def action() -> None:
        client.acquire()
        client.push_model(payload.path, payload.sha256)

    return seconds_of(action)


def other_sides(folder: Path, payload: Payload, stack: ExitStack) -> dict[str, Callable[[], float]]:
    """Connect the sides with which edgebench is compared; returns a function per side."""
    sides: dict[str, Callable[[], float]] = {}
    if SSHD:
        port, key = stack.enter_context(sshd(folder / "sshd"))
        target = str(folder / "sshd" / "received")
        for name, is_nodelay in ((PARAMIKO, False), (NODELAY, True)):
            sftp = stack.enter_context(sftp_session(port, key, is_nodelay))
            sides[name] = partial(seconds_of, partial(sftp.put, str(payload.path), target))
    else:
        print("paramiko skipped: no sshd on this machine", file=sys.stderr)
    bare = stack.enter_context(BareSender(folder / "bare"))
    sides[DISCARDED] = lambda: bare.copy(payload, flags=0)
    sides[WRITTEN] = lambda: bare.copy(payload, flags=TO_FILE)
    return sides


@contextmanager
def sshd(folder: Path) -> Iterator[tuple[int, paramiko.PKey]]:
    """Start an OpenSSH server on loopback; yields its port, and the key that it accepts."""
    folder.mkdir(mode=0o700)
    for name in ("host_key", "user_key"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(command, check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    (folder / "config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host_key\nPidFile none\n"
        f"AuthorizedKeysFile {folder}/user_key.pub\nStrictModes no\nUsePAM no\n"
        "PermitRootLogin prohibit-password\nSubsystem sftp internal-sftp\n"
    )
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # where sshd locks its unprivileged part in
    process = subprocess.Popen(
        [str(SSHD), "-D", "-e", "-f", str(folder / "config")],
        stderr=(folder / "log").open("wb"),
    )
    try:
        wait_for_port(port)
        yield port, paramiko.Ed25519Key.from_private_key_file(str(folder / "user_key"))
    finally:
        end(process)


def wait_for_port(port: int) -> None:
    """Wait until the port accepts connections."""
    for _ in range(250):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise SystemExit(f"nobody listens on port {port}")


@contextmanager
def sftp_session(port: int, key: paramiko.PKey, is_nodelay: bool) -> Iterator[paramiko.SFTPClient]:
    """Open an SFTP client that is logged in."""
    plain = socket.create_connection(("127.0.0.1", port))
    if is_nodelay:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    transport = paramiko.Transport(plain)
    transport.connect(username=getpass.getuser(), pkey=key)
    sftp = paramiko.SFTPClient.from_transport(transport)
    assert sftp is not None
    try:
        yield sftp
    finally:
        transport.close()


class BareSender:
    """Sender of a file over asyncio's TLS streams, without any protocol of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        identity = new_identity("bare copy")
        path = folder / "identity.pem"
        path.write_text(identity.key_pem + identity.certificate_pem)
        self._loop = asyncio.new_event_loop()
        self._process = subprocess.Popen(
            [sys.executable, str(SINK), str(path), str(folder)], stdout=subprocess.PIPE
        )

    def __enter__(self) -> BareSender:
        assert self._process.stdout is not None
        port = int(self._process.stdout.readline())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        opening = asyncio.open_connection("127.0.0.1", port, ssl=context)
        self._reader, self._writer = self._run(opening)
        return self

    def __exit__(self, *_: object) -> None:
        end(self._process)
        self._writer.transport.abort()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def copy(self, payload: Payload, flags: int) -> float:
        """Seconds until the receiver has confirmed all bytes."""
        return seconds_of(lambda: self._run(self._send(payload, flags)))

    def _run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self._loop.run_until_complete(coroutine)

    async def _send(self, payload: Payload, flags: int) -> None:
        self._writer.write((payload.size | flags).to_bytes(8, "big"))
        with payload.path.open("rb", buffering=0) as file:
            while block := file.read(BLOCK_BYTES):
                self._writer.write(block)
                await self._writer.drain()
        await self._reader.readexactly(1)


def throughput_claims(seconds: dict[str, list[float]], size: int) -> list[list[str]]:
    """Claims about each side's throughput, and about the ratio of edgebench's throughput to it."""
    claims = []
    for name, values in seconds.items():
        rate = spread([size / 1e6 / value for value in values])
        claims.append(claim(f"{name}, MB/s", rate.text(0)))
        if name in BARS:
            ratio = paired_ratios(values, seconds[OURS])
            is_met = ratio.median >= BARS[name]
            claims.append(claim(f"{OURS} / {name}", ratio.text(), f"≥ {BARS[name]}", is_met))
    return claims


def repush_claims(lab: Lab, connection: RenewedConnection, payload: Payload) -> list[list[str]]:
    """Claims about the time and the bytes of a second push of the same content."""
    client = connection.client
    time_ms = spread([push(client, payload) * 1e3 for _ in range(21)])
    carried, on_wire = counted(client, lambda: push(client, payload))
    connection.close()  # it has the lease
    begin = time.perf_counter()
    with lab.connect(NAME) as fresh:
        push(fresh, payload)
        fresh_ms = (time.perf_counter() - begin) * 1e3
        fresh_carried, fresh_on_wire = tcp_bytes(fresh)
    is_fast, is_small = time_ms.median <= REPUSH_MS, on_wire <= REPUSH_BYTES
    again = "second push, open connection"
    fresh_bytes = f"{fresh_carried}, {fresh_on_wire}"
    return [
        claim(f"{again}, ms", time_ms.text(), f"≤ {REPUSH_MS:.0f}", is_fast),
        claim(f"{again}, bytes with headers", str(on_wire), f"≤ {REPUSH_BYTES}", is_small),
        claim(f"{again}, bytes in TCP", str(carried)),
        claim("second push, new connection, ms", f"{fresh_ms:.2f}"),
        claim("second push, new connection, bytes in TCP, with headers", fresh_bytes),
    ]


def counted(client: Client, action: Callable[[], object]) -> tuple[int, int]:
    """Bytes that an action moves over the client's connection, in both directions."""
    before = tcp_bytes(client)
    action()
    time.sleep(0.2)  # the last acknowledgement is delayed by up to 40 ms
    after = tcp_bytes(client)
    return after[0] - before[0], after[1] - before[1]


def tcp_bytes(client: Client) -> tuple[int, int]:
    """Bytes moved over the connection so far: as carried by TCP, and with headers.

    Source: linux/tcp.h, `struct tcp_info`: tcpi_bytes_received at 128, tcpi_segs_out and
    tcpi_segs_in at 136, tcpi_bytes_sent at 200 (with retransmissions; Linux 4.19 and later).
    """
    connection = client._link._connection.socket
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    (received,) = struct.unpack_from("=Q", info, 128)
    segments = sum(struct.unpack_from("=II", info, 136))
    (sent,) = struct.unpack_from("=Q", info, 200)
    return received + sent, received + sent + segments * SEGMENT_HEADER_BYTES


if __name__ == "__main__":
    main()
