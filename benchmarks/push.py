"""How fast a model reaches a device, against paramiko's SFTP and a bare TLS copy.

    python benchmarks/push.py [--rounds 15] [--size 50000000] [--patience 0]

One round pushes the same random bytes, fresh in every round, over loopback in each of these ways:

    ours              acquire + push_model to a real agent; done when the agent has answered that
                      the model's SHA-256 is right and the model is in its store
    paramiko          SFTP `put` to OpenSSH's sshd, on a socket as paramiko makes it
    paramiko NODELAY  the same on a socket of ours with TCP_NODELAY
    bare, discarded   asyncio streams over TLS 1.3, 256 KiB writes and drain; the receiver (sink.py)
                      counts the bytes and throws them away
    bare, to a file   the same; the receiver writes them to a file

Connections are open before the clock starts, every receiver is a process of its own, and every
sender reads the same file from the page cache. Then the same content is pushed again: that time
is taken with the connection open, and the bytes with and without a new connection. The bytes are
the kernel's own count for the connection (TCP_INFO), once as carried by TCP and once with 40
bytes of IP and TCP header and 12 bytes of timestamps for each segment.
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
    Agent,
    add_patience,
    end,
    interleave,
    machine,
    paired_ratios,
    report,
    seconds_of,
    spread,
    table,
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
OURS = "ours"
BARS = {
    "paramiko": 2.5,
    "paramiko NODELAY": 2.5,
    "bare, discarded": 0.7,
    "bare, to a file": 0.7,
}
"""The least that the ratio of our rate to the other's may be."""
REPUSH_MS, REPUSH_BYTES = 20.0, 2048


@dataclass
class Payload:
    """The file that every side sends; its bytes are new in every round."""

    path: Path
    size: int
    sha256: str = ""

    def renew(self) -> None:
        """Write other random bytes."""
        data = os.urandom(self.size)
        self.path.write_bytes(data)
        self.sha256 = hashlib.sha256(data).hexdigest()


def main() -> None:
    """Run the comparison and print it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    add_patience(parser)
    parser.add_argument("--size", type=int, default=50_000_000, metavar="BYTES")
    options = parser.parse_args()
    began = machine()
    with tempfile.TemporaryDirectory(prefix="edgebench-") as name, ExitStack() as stack:
        folder = Path(name)
        payload = Payload(folder / "model.bin", options.size)
        # Room for two models: the oldest goes, as a file that is written again goes elsewhere.
        quota = str(2 * options.size + 2**20)
        agent = stack.enter_context(
            Agent(folder / "agent", "--no-advertise", "--models-quota", quota)
        )
        lab = agent.lab(folder / "host")
        client = stack.enter_context(lab.connect(NAME))
        client.acquire()
        sides = {OURS: lambda: push(client, payload)} | other_sides(folder, payload, stack)
        seconds = interleave(
            sides, options.rounds, before_round=payload.renew, patience_s=options.patience
        )
        lines = rate_lines(seconds, options.size)
        lines += ["", *repush_lines(lab, client, payload)]
    report("Push of a model", lines, began)


def push(client: Client, payload: Payload) -> float:
    """Our side: seconds until the agent has verified and stored the model."""

    def action() -> None:
        client.acquire()
        client.push_model(payload.path, payload.sha256)

    return seconds_of(action)


def other_sides(folder: Path, payload: Payload, stack: ExitStack) -> dict[str, Callable[[], float]]:
    """The sides that ours is compared with, ready to be run."""
    sides: dict[str, Callable[[], float]] = {}
    if SSHD:
        port, key = stack.enter_context(sshd(folder / "sshd"))
        target = str(folder / "sshd" / "received")
        for name, is_nodelay in (("paramiko", False), ("paramiko NODELAY", True)):
            sftp = stack.enter_context(sftp_session(port, key, is_nodelay))
            sides[name] = partial(seconds_of, partial(sftp.put, str(payload.path), target))
    else:
        print("paramiko skipped: no sshd on this machine", file=sys.stderr)
    bare = stack.enter_context(BareSender(folder / "bare"))
    sides["bare, discarded"] = lambda: bare.copy(payload, flags=0)
    sides["bare, to a file"] = lambda: bare.copy(payload, flags=TO_FILE)
    return sides


@contextmanager
def sshd(folder: Path) -> Iterator[tuple[int, paramiko.PKey]]:
    """An OpenSSH server on loopback with keys of its own: its port, and the key that it takes."""
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
    """Wait until somebody listens."""
    for _ in range(250):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise SystemExit(f"nobody listens on port {port}")


@contextmanager
def sftp_session(port: int, key: paramiko.PKey, is_nodelay: bool) -> Iterator[paramiko.SFTPClient]:
    """An SFTP session, logged in."""
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
    """Sends a file over asyncio's TLS streams, and nothing more."""

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
        """Seconds until the receiver has said that it has all bytes."""
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


def rate_lines(seconds: dict[str, list[float]], size: int) -> list[str]:
    """The table of rates and ratios."""
    rows = []
    for name, values in seconds.items():
        rate = spread([size / 1e6 / value for value in values])
        cells = [name, rate.text(0)]
        if name in BARS:
            ratio = paired_ratios(values, seconds[OURS])
            verdict = "met" if ratio.median >= BARS[name] else "missed"
            cells += [ratio.text(), f"≥ {BARS[name]}", verdict]
        rows.append(cells + ["", "", ""] * (name not in BARS))
    count = len(seconds[OURS])
    head = ["side", "MB/s", "ours / this", "bar", ""]
    return [table(head, rows), f"\n{size / 1e6:.0f} MB, {count} rounds; {NOTATION}"]


NOTATION = "median (quartiles; extremes)."


def repush_lines(lab: Lab, client: Client, payload: Payload) -> list[str]:
    """The table of the second push of the same content."""
    times = [push(client, payload) for _ in range(21)]
    carried, on_wire = counted(client, lambda: push(client, payload))
    begin = time.perf_counter()
    with lab.connect(NAME) as fresh:
        push(fresh, payload)
        fresh_s = time.perf_counter() - begin
        fresh_carried, fresh_on_wire = tcp_bytes(fresh)
    time_ms = spread([value * 1e3 for value in times])
    is_met = time_ms.median <= REPUSH_MS and on_wire <= REPUSH_BYTES
    rows = [
        ["connection open", time_ms.text(), str(carried), str(on_wire),
         f"≤ {REPUSH_MS:.0f} ms, ≤ {REPUSH_BYTES}", "met" if is_met else "missed"],
        ["new connection", f"{fresh_s * 1e3:.2f}", str(fresh_carried), str(fresh_on_wire), "", ""],
    ]  # fmt: skip
    head = ["second push", "ms", "bytes in TCP", "bytes with headers", "bar", ""]
    return [table(head, rows)]


def counted(client: Client, action: Callable[[], object]) -> tuple[int, int]:
    """Bytes that an action moves over the client's connection, both ways."""
    before = tcp_bytes(client)
    action()
    time.sleep(0.2)  # the last acknowledgement is delayed by up to 40 ms
    after = tcp_bytes(client)
    return after[0] - before[0], after[1] - before[1]


def tcp_bytes(client: Client) -> tuple[int, int]:
    """Bytes moved over the connection so far, as TCP carried them, and with headers.

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
