"""Requests to the adb server: the list of phones, and streams to their services."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edgebench.host.adb.phones import AdbState, Phone, parse_phones, target_of
from edgebench.protocol.errors import (
    AdbMissing,
    PhoneUnavailable,
    TargetError,
    Unreachable,
    UsageError,
)
from edgebench.protocol.text import one_line

DEFAULT_PORT = 5037
"""Port of the adb server. Source: AOSP, packages/modules/adb, adb.h: DEFAULT_ADB_PORT."""
REQUEST_TIMEOUT_S = 10.0
"""Time limit of each step of a request. The server responds at once, and a connected phone responds
within a second."""
START_TIMEOUT_S = 30.0
"""Time limit of `adb start-server`, which takes a second or two."""
MAX_REQUEST_BYTES = 0xFFFF
"""Maximum length of a request, because a request states its length in four hexadecimal digits. An
old server accepts only 1024 bytes."""
SHELL_V2 = "shell_v2"
"""Name of the feature by which a phone's shell reports exit codes and separates its output
streams."""
_PROGRAM_FOLDERS = ("ANDROID_HOME", "ANDROID_SDK_ROOT")
"""Variables that name the directory of Android's SDK. Source: developer.android.com, "Environment
variables"."""


class ServiceRefused(TargetError):
    """A phone does not open a service, such as a port without a listening process."""

    def __init__(self, serial: str, service: str, reason: str) -> None:
        super().__init__(f"{target_of(serial)} does not open {service}: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Address of the adb server: a TCP port, or a socket file."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    path: str = ""
    """Path of the socket file; if empty, the server listens at `host` and `port`."""

    def __str__(self) -> str:
        return self.path or f"{self.host}:{self.port}"


def server_address(environment: Mapping[str, str]) -> ServerAddress:
    """Address of the adb server, from the variables that `adb` itself reads.

    Raises:
        UsageError: a variable does not contain a valid address.
    """
    if text := environment.get("ADB_SERVER_SOCKET", ""):
        kind, _, rest = text.partition(":")
        if kind == "localfilesystem" and rest:
            return ServerAddress(path=rest)
        host, _, port = rest.rpartition(":")
        if kind != "tcp" or not _is_port(port):
            raise UsageError(
                "ADB_SERVER_SOCKET must be tcp:PORT, tcp:HOST:PORT or localfilesystem:PATH, "
                f"got {text!r}"
            )
        return ServerAddress(host.strip("[]") or "127.0.0.1", int(port))
    port = environment.get("ANDROID_ADB_SERVER_PORT", "") or str(DEFAULT_PORT)
    if not _is_port(port):
        raise UsageError(f"ANDROID_ADB_SERVER_PORT must be 1..65535, got {port!r}")
    host = environment.get("ANDROID_ADB_SERVER_ADDRESS", "") or "127.0.0.1"
    return ServerAddress(host, int(port))


def _is_port(text: str) -> bool:
    return re.fullmatch(r"\d{1,5}", text, re.ASCII) is not None and 0 < int(text) < 65536


def adb_program(environment: Mapping[str, str]) -> str | None:
    """Path of the program `adb`; None if it is not installed."""
    if program := shutil.which("adb", path=environment.get("PATH", os.defpath)):
        return program
    folders = [environment[name] for name in _PROGRAM_FOLDERS if environment.get(name)]
    places = [str(Path(folder) / "platform-tools") for folder in folders]
    return shutil.which("adb", path=os.pathsep.join(places)) if places else None


class AdbServer:
    """The adb server that environment variables name; each method opens a separate connection."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        """Set the server's address, without connecting.

        Raises:
            UsageError: an environment variable does not contain a valid address.
        """
        self._environment = dict(os.environ if environment is None else environment)
        self.address = server_address(self._environment)

    def is_running(self) -> bool:
        """Whether a server accepts connections at the address."""
        try:
            self._dial().close()
        except OSError:
            return False
        return True

    def phones(self) -> tuple[Phone, ...]:
        """Every phone that the server lists, with its state; the server is started if necessary.

        Raises:
            AdbMissing: the server does not run, and the program adb is not installed.
            Unreachable: the server does not start, or does not respond.
        """
        listed = parse_phones(self._ask("host:devices-l"))
        return tuple(self._with_features(phone) for phone in listed)

    def phone(self, serial: str) -> Phone:
        """The phone with this serial number; its state is `ABSENT` if the server does not list it.

        Raises:
            Unreachable: the server cannot be reached or started, as for `phones`.
        """
        listed = parse_phones(self._ask("host:devices-l"))
        matching = (phone for phone in listed if phone.serial == serial)
        return self._with_features(next(matching, Phone(serial, AdbState.ABSENT)))

    def require_ready(self, serial: str) -> Phone:
        """The phone with this serial number, if it is ready for use.

        Raises:
            PhoneUnavailable: the phone is in any state other than `READY`.
            Unreachable: the server cannot be reached or started, as for `phones`.
        """
        phone = self.phone(serial)
        if phone.state is AdbState.READY:
            return phone
        next_step = phone.next_step
        address, colon, _ = serial.rpartition(":")
        if phone.state is AdbState.ABSENT and colon:  # the port over Wi-Fi changes at each start
            for listed in parse_phones(self._ask("host:devices-l")):
                if listed.serial.startswith(f"{address}:"):
                    other = listed.target
                    next_step = f"use the phone's new port: edgebench deploy {other}"
                    break
        raise PhoneUnavailable(f"{phone.target} is {phone.meaning}", phone.meaning, next_step)

    def open_service(
        self, serial: str, service: str, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> socket.socket:
        """Open a stream to a service on a phone; `timeout_s` remains the timeout of the socket.

        Args:
            serial: Serial number of the phone.
            service: Name of the service, such as `tcp:7747`, `sync:` or `shell,v2,raw:COMMAND`.
            timeout_s: Time limit of each step.

        Raises:
            PhoneUnavailable: the phone is not ready.
            ServiceRefused: the phone does not open the service.
            Unreachable: the server cannot be reached or started, as for `phones`.
        """
        stream = self._connected()
        try:
            try:
                with self._translated():
                    stream.settimeout(timeout_s)
                    refusal = _request(stream, f"host:transport:{serial}")
                    if refusal is None:
                        reason = _request(stream, service)
                        if reason is None:
                            return stream
                        # The command line of a shell is too long for an error message.
                        name = "a shell" if service.startswith("shell") else service
                        raise ServiceRefused(serial, name, reason)
                raise Unreachable(f"{target_of(serial)}: {refusal}", reason=refusal)
            except Unreachable:
                self.require_ready(serial)  # the phone's state is more specific than this error
                raise
        except BaseException:  # Ctrl-C as well
            stream.close()
            raise

    def _with_features(self, phone: Phone) -> Phone:
        if phone.state is not AdbState.READY:
            return phone
        try:
            features = self._ask(f"host-serial:{phone.serial}:features").split(",")
        except Unreachable:  # disconnected in the meantime
            return Phone(phone.serial, AdbState.OFFLINE, phone.model)
        is_usable = SHELL_V2 in features
        return phone if is_usable else Phone(phone.serial, AdbState.NO_SHELL_V2, phone.model)

    def _ask(self, request: str) -> str:
        """Send a request to the server itself, not to a phone, and return the reply."""
        with self._connected() as stream, self._translated():
            if (reason := _request(stream, request)) is not None:
                raise Unreachable(f"adb server refuses {request}: {reason}", reason=reason)
            return _text(stream)

    def _connected(self) -> socket.socket:
        """Connect to the server, which is started if it is not running.

        Raises:
            AdbMissing: the server is not running, and the program adb is not installed.
            Unreachable: the server does not start.
        """
        with self._translated():
            try:
                return self._dial()
            except (ConnectionRefusedError, FileNotFoundError):
                pass
        self._start()
        with self._translated():
            return self._dial()

    def _dial(self) -> socket.socket:
        if not self.address.path:
            address = (self.address.host, self.address.port)
            stream = socket.create_connection(address, REQUEST_TIMEOUT_S)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return stream
        stream = socket.socket(socket.AF_UNIX)
        try:
            stream.settimeout(REQUEST_TIMEOUT_S)
            stream.connect(self.address.path)
        except BaseException:
            stream.close()
            raise
        return stream

    def _start(self) -> None:
        program = adb_program(self._environment)
        if program is None:
            raise AdbMissing(f"no adb server at {self.address}, and adb is not installed")
        # Output goes to a file, because the server keeps the descriptors that it is started with.
        with tempfile.TemporaryFile() as output:
            try:
                result = subprocess.run(
                    [program, "start-server"],
                    env=self._environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    timeout=START_TIMEOUT_S,
                    check=False,
                )
            except subprocess.TimeoutExpired as exc:
                limit = f"within {START_TIMEOUT_S:.0f} s"
                raise Unreachable(f"adb server did not start {limit}: {program}") from exc
            except OSError as exc:
                raise Unreachable(f"adb did not start: {exc.strerror}: {program}") from exc
            if result.returncode:
                output.seek(0)
                lines = output.read(65536).decode("utf-8", "replace").split("\n")
                last = next((one_line(line) for line in reversed(lines) if line.strip()), "")
                reason = last or f"exit code {result.returncode}"
                raise Unreachable(f"adb server did not start: {reason}: {program}")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except TimeoutError as exc:
            raise Unreachable(f"adb server at {self.address} does not answer") from exc
        except EOFError as exc:
            raise Unreachable(f"adb server at {self.address} closed the connection") from exc
        except (OSError, ValueError) as exc:
            reason = getattr(exc, "strerror", None) or one_line(exc)
            raise Unreachable(f"adb server at {self.address}: {reason}") from exc


def receive_exactly(stream: socket.socket, size: int) -> bytes:
    """Read exactly `size` bytes.

    Raises:
        EOFError: the stream ends before `size` bytes.
        TimeoutError: no data arrived within the socket's timeout.
    """
    received = bytearray()
    while len(received) < size:
        chunk = stream.recv(min(size - len(received), 65536))
        if not chunk:
            raise EOFError
        received += chunk
    return bytes(received)


def _request(stream: socket.socket, request: str) -> str | None:
    """Send a request; return the reason if it is refused, or None if it is accepted."""
    data = request.encode()
    if len(data) > MAX_REQUEST_BYTES:
        raise ValueError(f"request of {len(data)} bytes, limit {MAX_REQUEST_BYTES}")
    stream.sendall(b"%04x" % len(data) + data)
    status = receive_exactly(stream, 4)
    if status == b"OKAY":
        return None
    if status == b"FAIL":
        return one_line(_text(stream))
    raise ValueError(f"not an adb server: replied {status!r}")


def _text(stream: socket.socket) -> str:
    length = receive_exactly(stream, 4)
    if not re.fullmatch(rb"[0-9a-fA-F]{4}", length):
        raise ValueError(f"not an adb server: text length is {length!r}, not 4 hex digits")
    return receive_exactly(stream, int(length, 16)).decode("utf-8", "replace")
