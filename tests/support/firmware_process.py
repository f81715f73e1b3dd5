"""The firmware as a process on this machine or in QEMU, and a plain host for it.

The host here is written from docs/firmware-protocol.md, not from the bridge: two readings of one
page.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import tty
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.tools import skip_or_fail

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build/firmware"
BUILD_SCRIPT = ROOT / "devtools/build_firmware.py"
SOURCES = ROOT / "firmware_bridge"
"""What the script reads: the C sources, and the generator of models."""
DATA_BYTES = 1024
INPUT_BEGIN, INPUT_DATA, MODEL_BEGIN, MODEL_DATA, MODEL_COMMIT, LEAVE = 1, 2, 3, 4, 5, 15
ACK, NAK = 0x80, 0x81
MODEL_ADDRESS = {"mps3-an547": 0x11000000, "riscv32-virt": 0x80100000}
"""Where QEMU's loader puts a blob; 0x100000 on the other boards."""
QEMU = {"riscv32-virt": ("qemu-system-riscv32", "-M", "virt", "-bios", "none")}
"""Command that emulates a board; the others are machines of `qemu-system-arm`."""


def compiler_of(board: str) -> str:
    """The compiler of a board's firmware."""
    return "riscv64-unknown-elf-gcc" if board.startswith("riscv") else "arm-none-eabi-gcc"


def built(name: str, compiler: str, *options: str) -> Path:
    """The firmware of a board, built from these sources; once, for all tests of all processes."""
    path = shutil.which(compiler)
    if path is None:
        skip_or_fail(f"system tool missing: {compiler}")
    folder = BUILD / _digest_of_build(name, str(path), options)
    folder.mkdir(parents=True, exist_ok=True)
    output = folder / "output.txt"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not output.exists():
            words = [str(BUILD_SCRIPT), name, *options, "--output", str(folder)]
            result = subprocess.run(
                [sys.executable, *words], capture_output=True, text=True, check=False
            )
            assert result.returncode == 0, result.stderr
            output.write_text(result.stdout)
    return Path(output.read_text().splitlines()[-1].partition(": ")[0])


def _digest_of_build(name: str, compiler: str, options: Sequence[str]) -> str:
    files = sorted(path for path in SOURCES.rglob("*") if path.is_file())
    sources = [path for path in files if path.suffix != ".pyc"]
    models = [Path(word) for word in options if Path(word).is_file()]
    digest = hashlib.sha256(repr((name, options, Path(compiler).stat().st_mtime_ns)).encode())
    for path in (BUILD_SCRIPT, *sources, *models):
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def cobs(data: bytes) -> bytes:
    """A frame on the wire, with its delimiter."""
    out = bytearray()
    rest = data
    while True:
        run = rest[:254].partition(b"\0")[0]
        out += bytes([len(run) + 1]) + run
        rest_after = rest[len(run) :]
        if len(run) == 254:
            if not rest_after:
                break
            rest = rest_after
            continue
        if not rest_after:
            break
        rest = rest_after[1:]
    return bytes(out) + b"\0"


def uncobs(wire: bytes) -> bytes:
    """The frame of bytes without their delimiter."""
    out = bytearray()
    at = 0
    while at < len(wire):
        run = wire[at]
        out += wire[at + 1 : at + run]
        at += run
        if run < 255 and at < len(wire):
            out.append(0)
    return bytes(out)


def frame(kind: int, sequence: int, payload: bytes = b"") -> bytes:
    """A frame on the wire."""
    body = bytes([kind, sequence]) + payload
    return cobs(body + struct.pack("<I", zlib.crc32(body)))


@dataclass(frozen=True)
class Reply:
    """What the device says to a frame."""

    kind: int
    sequence: int
    error: int
    detail: int
    received: int


class Line:
    """A serial line with the firmware at its other end."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._waiting = b""
        self.timeout_s = 120.0

    def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        while data:
            data = data[os.write(self._file, data) :]

    def until(self, end: bytes) -> bytes:
        """What comes until these bytes, which are left out."""
        deadline = time.monotonic() + self.timeout_s
        while end not in self._waiting:
            ready = select.select([self._file], [], [], max(0.0, deadline - time.monotonic()))[0]
            assert ready, f"nothing more after {self._waiting!r}"
            data = os.read(self._file, 65536)
            assert data, f"the line ended after {self._waiting!r}"
            self._waiting += data
        text, _, self._waiting = self._waiting.partition(end)
        return text

    def command(self, text: str) -> list[str]:
        """Lines that the device replies, without the last one, `m-ready`."""
        self.send(text.encode() + b"%")
        return self.lines()

    def lines(self) -> list[str]:
        """Lines up to `m-ready`."""
        lines: list[str] = []
        while (line := self.until(b"\r\n").decode()) != "m-ready":
            lines.append(line)
        return lines

    def info(self) -> dict[str, str]:
        """What `x-info` says, by key."""
        found = (re.fullmatch(r"m-info-(\w+)-\[(.*)\]", line) for line in self.command("x-info"))
        return {match[1]: match[2] for match in found if match}

    def exchange(self, kind: int, sequence: int = 0, payload: bytes = b"") -> Reply:
        """Send a frame, and read the reply to it."""
        self.send(frame(kind, sequence, payload))
        return self.reply()

    def reply(self) -> Reply:
        """The next frame of the device."""
        body = uncobs(self.until(b"\0"))
        assert zlib.crc32(body[:-4]) == struct.unpack("<I", body[-4:])[0]
        is_refused = body[0] == NAK
        error, detail = (body[2], body[3]) if is_refused else (0, 0)
        (received,) = struct.unpack("<I", body[4:8] if is_refused else body[2:6])
        return Reply(body[0], body[1], error, detail, received)

    def _send_all(self, begin: int, head: bytes, kind: int, data: bytes) -> None:
        assert self.exchange(begin, 1, head).kind == ACK
        for offset in range(0, len(data), DATA_BYTES):
            part = struct.pack("<I", offset) + data[offset : offset + DATA_BYTES]
            assert self.exchange(kind, offset // DATA_BYTES % 256, part).kind == ACK

    def load_model(self, blob: bytes) -> None:
        """Upload a model in frames."""
        self.command("x-frames")
        head = struct.pack("<II", len(blob), zlib.crc32(blob))
        self._send_all(MODEL_BEGIN, head, MODEL_DATA, blob)
        commit = self.exchange(MODEL_COMMIT, 7)
        assert (commit.kind, commit.received) == (ACK, len(blob)), commit
        self.leave()

    def load_input(self, data: bytes) -> None:
        """Upload an input in frames."""
        self.command("x-frames")
        self._send_all(INPUT_BEGIN, struct.pack("<I", len(data)), INPUT_DATA, data)
        self.leave()

    def leave(self) -> None:
        """Back to lines."""
        assert self.exchange(LEAVE, 9).kind == ACK
        assert self.lines() == []

    def outputs(self) -> bytes:
        """Outputs of the last inference, as they are."""
        return bytes.fromhex("".join(line[7:-1] for line in self.command("x-out")))

    def durations(self) -> list[int]:
        """Duration of each inference of the last command, in ticks."""
        lines = self.command("x-cycles")[1:]
        return [int(text) for line in lines for text in line[9:-1].split(",")]


@contextmanager
def running(binary: Path, *options: str) -> Iterator[Line]:
    """The firmware on a pseudo-terminal."""
    process = subprocess.Popen([str(binary), *options], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    file = os.open(process.stdout.readline().strip(), os.O_RDWR | os.O_NOCTTY)
    tty.setraw(file)
    try:
        line = Line(file)
        line.send(b"name%")
        line.until(b"m-name-dut-[")
        line.lines()
        yield line
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        os.close(file)


@contextmanager
def emulated(board: str, elf: Path, *options: str, blob: Path | None = None) -> Iterator[Line]:
    """The firmware on a board of QEMU's, from its reset on; its line is a socket."""
    ours, theirs = socket.socketpair()
    machine = QEMU.get(board, ("qemu-system-arm", "-M", board))
    command = [*machine, "-nographic", "-monitor", "none", "-kernel", str(elf)]
    command += ["-chardev", f"socket,id=line,fd={theirs.fileno()}", "-serial", "chardev:line"]
    if blob is not None:
        address = MODEL_ADDRESS.get(board, 0x100000)
        command += ["-device", f"loader,file={blob},addr={address:#x},force-raw=on"]
    process = subprocess.Popen(
        [*command, *options], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
    )
    theirs.close()
    try:
        yield Line(ours.fileno())
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        ours.close()


def run_inference(line: Line, data: bytes) -> bytes:
    """Outputs for one input."""
    line.load_input(data)
    replies = line.command("infer 1 0")
    assert replies[-1].startswith("m-results-["), replies
    return line.outputs()


def last_values(replies: Sequence[str]) -> list[float]:
    """Numbers of a line of results."""
    match = re.fullmatch(r"m-results-\[(.*)\]", replies[-1])
    assert match is not None
    return [float(text) for text in match[1].split(",")]
