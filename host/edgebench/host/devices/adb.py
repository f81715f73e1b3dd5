"""A shell on a phone through adb: commands with exit codes, files, and the phone's model.

adb's shell runs as user 2000, with the home directory `/`. This user may write and execute files
only in /data/local/tmp. Therefore all files are in a directory below /data/local/tmp. Each command
gets environment variables for its home directory, the XDG directories and the directory of
temporary files.

Source: Android Open Source Project, system/sepolicy, private/shell.te; and packages/modules/adb,
shell_protocol.h and SYNC.TXT.
"""

from __future__ import annotations

import re
import selectors
import shlex
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgebench.host.adb.phones import AdbState, Phone, target_of
from edgebench.host.adb.server import AdbServer, ServiceRefused, receive_exactly
from edgebench.host.devices.shell import MAX_OUTPUT_BYTES, CommandOutput
from edgebench.host.kit.kit import PLACE as KITS
from edgebench.host.transports.adb import AdbTransport
from edgebench.protocol.errors import (
    EdgebenchError,
    LinkLost,
    LinkTimeout,
    PhoneUnavailable,
    TargetError,
    Unreachable,
    UsageError,
    unknown_name,
)
from edgebench.protocol.text import one_line, printable

ALL_PHONES = target_of("all")
"""Text by which a user selects all phones that are ready."""
PLACE = "/data/local/tmp"
"""The directory in which adb's shell may write files and run them."""
HOME = f"{PLACE}/edgebench"
"""Home directory of everything that is deployed."""
VARIABLES = {
    "HOME": HOME,
    "XDG_DATA_HOME": f"{HOME}/data",
    "XDG_CONFIG_HOME": f"{HOME}/config",
    "XDG_STATE_HOME": f"{HOME}/state",
    "XDG_CACHE_HOME": f"{HOME}/cache",
    "TMPDIR": f"{HOME}/tmp",
}
"""Environment variables of every command. No variable configures the dynamic loader, because this
would also affect Android's own programs."""
SEND_TIMEOUT_S = 60.0
"""Time without progress after which sending a file has failed."""
MODEL_TIMEOUT_S = 20.0
SYNC_CHUNK_BYTES = 64 * 1024
"""Maximum number of data bytes in one message of adb's sync protocol. Source: adb's SYNC.TXT,
SYNC_DATA_MAX."""
MAX_REASON_BYTES = 4096
FILE_MODE = 0o100644
_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN = range(5)
"""Kinds of packets of adb's shell protocol. Source: shell_protocol.h."""
_HEADER = struct.Struct("<BI")
_SYNC = struct.Struct("<4sI")
_MAX_NAME = 40


@dataclass(frozen=True, slots=True)
class AdbTarget:
    """A phone that is reached through the adb server of this machine."""

    serial: str

    def __str__(self) -> str:
        return target_of(self.serial)

    def connect(self, identity_file: Path | None = None, via: str | None = None) -> AdbShell:
        """Check that the phone is ready; each command opens a separate stream.

        Raises:
            UsageError: another transport or an identity file is requested.
            PhoneUnavailable: the phone is not ready.
            Unreachable: the adb server cannot be reached.
        """
        if via not in (None, AdbTransport.name):
            raise unknown_name("transport", via, (AdbTransport.name,))
        if identity_file is not None:
            raise UsageError(f"{self} takes no identity file: adb has its own key")
        server = AdbServer()
        server.require_ready(self.serial)
        return AdbShell(server, self.serial)


def parse_target(text: str) -> AdbTarget | None:
    """Parse adb:SERIAL (over Wi-Fi, adb:HOST:PORT); return None for any other text.

    >>> parse_target("adb:R58M12ABCDE"), str(parse_target("adb:192.168.1.7:5555"))
    (AdbTarget(serial='R58M12ABCDE'), 'adb:192.168.1.7:5555')
    """
    if text == ALL_PHONES:
        raise UsageError(f"{text} names several phones: expected adb:SERIAL of one phone")
    match = re.fullmatch(r"adb:(?P<serial>[\w\[(][\w.:%@()\[\]-]{0,255})", text, re.ASCII)
    return AdbTarget(match["serial"]) if match else None


def ready_phones() -> tuple[Phone, ...]:
    """The phones ready for a deploy; a phone reachable by cable and Wi-Fi is listed once, by cable.

    Raises:
        PhoneUnavailable: no phone is ready.
        Unreachable: the adb server cannot be reached.
    """
    server = AdbServer()
    listed = server.phones()
    if ready := [phone for phone in listed if phone.state is AdbState.READY]:
        # Over Wi-Fi the serial is HOST:PORT, or a service name of multicast DNS.
        by_cable_first = sorted(
            ready, key=lambda phone: ":" in phone.serial or "._adb" in phone.serial
        )
        names = {phone: _name_of_boot(server, phone) for phone in by_cable_first}
        chosen: dict[tuple[str, str] | None, Phone] = {}
        for phone in by_cable_first:
            chosen.setdefault(names[phone], phone)
        return tuple(phone for phone in ready if names[phone] is None or phone in chosen.values())
    first = listed[0] if listed else Phone("", AdbState.ABSENT)
    states = ", ".join(f"{phone.target} is {phone.meaning}" for phone in listed)
    raise PhoneUnavailable(
        f"no phone is ready: {states or first.meaning}", first.meaning, first.next_step
    )


def _name_of_boot(server: AdbServer, phone: Phone) -> tuple[str, str] | None:
    """Serial number and boot id, to identify a phone; several phones may have equal serial numbers.

    None if the phone does not report both; such a phone counts as a separate phone.
    """
    script = "getprop ro.serialno; cat /proc/sys/kernel/random/boot_id"
    try:
        shell = AdbShell(server, phone.serial)
        answer = shell.run(["sh", "-c", script], what="reading its id", timeout_s=MODEL_TIMEOUT_S)
    except EdgebenchError:  # the deploy will report the error
        return None
    words = answer.text.split()
    return (words[0], words[1]) if answer.code == 0 and len(words) == 2 else None


class AdbShell:
    """Adb's shell on a phone that is ready."""

    via = AdbTransport.name
    listen = "127.0.0.1"
    kits = KITS
    restart_note = (
        "the agent ends if USB debugging is switched off or the phone restarts; then deploy "
        "again: the runs on the phone are kept"
    )

    def __init__(self, server: AdbServer, serial: str) -> None:
        self._server = server
        self.address = serial
        self.target = target_of(serial)
        what = "reading the model"
        answer = self.run(["getprop", "ro.product.model"], what=what, timeout_s=MODEL_TIMEOUT_S)
        words = re.sub("[^a-z0-9]+", "-", answer.text.lower()) if answer.code == 0 else ""
        self.default_name = words.strip("-")[:_MAX_NAME] or "phone"

    def run(
        self, words: Sequence[str], *, what: str, timeout_s: float, stdin: bytes = b""
    ) -> CommandOutput:
        """Run a command to its end."""
        deadline_s = time.monotonic() + timeout_s
        exports = " ".join(f"{name}={value}" for name, value in VARIABLES.items())
        command = f"export {exports}; {shlex.join(words)}"
        with (
            self._translated(what, timeout_s),
            closing(self._open(f"shell,v2,raw:{command}", timeout_s)) as stream,
        ):
            code, kept = _communicate(stream, stdin, deadline_s)
            return CommandOutput(code, printable(kept.decode("utf-8", "replace"), keep_lines=True))

    def put(self, files: Sequence[Path], directory: str) -> None:
        """Copy files into a directory of the phone."""
        with (
            self._translated("sending files", SEND_TIMEOUT_S),
            closing(self._open("sync:", SEND_TIMEOUT_S)) as stream,
        ):
            for file in files:
                path = f"{directory}/{file.name}"
                if (reason := _send(stream, file, path)) is not None:
                    raise TargetError(f"not written on {self.target}: {path}: {reason}")
            stream.sendall(_SYNC.pack(b"QUIT", 0))

    def close(self) -> None:
        """Do nothing: no stream is open between two commands."""

    def _open(self, service: str, timeout_s: float) -> socket.socket:
        return self._server.open_service(self.address, service, timeout_s)

    @contextmanager
    def _translated(self, what: str, timeout_s: float) -> Iterator[None]:
        try:
            yield
        except TimeoutError as exc:
            raise LinkTimeout(
                f"{what} on {self.target} did not end within {timeout_s:.0f} s"
            ) from exc
        except ServiceRefused as exc:
            raise LinkLost(f"{exc} while {what}") from exc
        except EdgebenchError:
            raise
        except (OSError, EOFError, ValueError) as exc:
            reason = getattr(exc, "strerror", None) or one_line(exc)
            try:
                self._server.require_ready(self.address)
            except Unreachable as state:  # more specific than the error of the stream
                reason = state.reason
            lost = f"connection to {self.target} was lost while {what}"
            raise LinkLost(f"{lost}: {reason}") from exc


def _communicate(stream: socket.socket, stdin: bytes, deadline_s: float) -> tuple[int, bytes]:
    """Write a command's input and read its output; return exit code and last part of the output.

    Input and output are transferred at the same time, because a command that prints before it has
    read all of its input would block otherwise.

    Raises:
        EOFError: the stream ended before the command ended.
        ValueError: the stream does not follow the protocol.
        TimeoutError: the command did not end in time.
    """
    chunks = (stdin[at : at + SYNC_CHUNK_BYTES] for at in range(0, len(stdin), SYNC_CHUNK_BYTES))
    packets = (_HEADER.pack(_STDIN, len(chunk)) + chunk for chunk in chunks)
    to_send = memoryview(b"".join((*packets, _HEADER.pack(_CLOSE_STDIN, 0))))
    received, kept = bytearray(), bytearray()
    stream.setblocking(False)
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while (left_s := deadline_s - time.monotonic()) > 0:
            for _, events in selector.select(left_s):
                if events & selectors.EVENT_WRITE:
                    try:
                        to_send = to_send[stream.send(to_send[: 2**18]) :]
                    except (BrokenPipeError, ConnectionResetError):
                        to_send = to_send[:0]  # the command has ended; its output is still read
                    if not to_send:
                        selector.modify(stream, selectors.EVENT_READ)
                if events & selectors.EVENT_READ:
                    if not (chunk := stream.recv(2**16)):
                        raise EOFError("the stream ended")
                    received += chunk
            for kind, data in _packets(received):
                if kind == _EXIT and len(data) == 1:
                    return data[0], bytes(kept)
                if kind in (_STDOUT, _STDERR):
                    kept += data
                    del kept[:-MAX_OUTPUT_BYTES]
    raise TimeoutError


def _packets(received: bytearray) -> Iterator[tuple[int, bytes]]:
    """Remove and yield the complete packets at the beginning of the received bytes."""
    while len(received) >= _HEADER.size:
        kind, length = _HEADER.unpack_from(received)
        if length > MAX_OUTPUT_BYTES:
            raise ValueError(f"packet of {length} bytes, limit {MAX_OUTPUT_BYTES}")
        end = _HEADER.size + length
        if len(received) < end:
            return
        data = bytes(received[_HEADER.size : end])
        del received[:end]
        yield kind, data


def _send(stream: socket.socket, file: Path, path: str) -> str | None:
    """Send a file; return the reason if the phone rejects the file, or None."""
    name = f"{path},{FILE_MODE}".encode()
    stream.sendall(_SYNC.pack(b"SEND", len(name)) + name)
    with file.open("rb") as source:
        while data := source.read(SYNC_CHUNK_BYTES):
            stream.sendall(_SYNC.pack(b"DATA", len(data)) + data)
    stream.sendall(_SYNC.pack(b"DONE", int(time.time())))
    status, length = _SYNC.unpack(receive_exactly(stream, _SYNC.size))
    if status == b"OKAY":
        return None
    if status != b"FAIL" or length > MAX_REASON_BYTES:
        raise ValueError(f"invalid reply of the phone's file service: {status!r}, {length} bytes")
    return one_line(receive_exactly(stream, length).decode("utf-8", "replace"))
