"""The daemon of a phone's debug bridge, emulated: what the real adb server is connected to.

    adb server ── TCP ── Cable (adb_phones.py) ── unix socket ── this program ── files, ports, …

Run as a program, it is the first process of a phone that `support.adb_phones` makes: it serves one
unix socket. As on a phone, whatever was started through it ends with it.

Source: Android Open Source Project, packages/modules/adb: protocol.txt, SYNC.TXT,
shell_protocol.h, daemon/services.cpp.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import queue
import signal
import socket
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from support.denials import deny_as_android

VERSION, MAX_DATA = 0x01000001, 256 * 1024
SHELL_UID = 2000
"""User of adb's shell. Source: android_filesystem_config.h, AID_SHELL."""
TOKEN, SIGNATURE, PUBLIC_KEY = 1, 2, 3
STDIN, STDOUT, STDERR, EXIT, CLOSE_STDIN = range(5)
SYNC_CHUNK = 64 * 1024
FEATURES = ("shell_v2", "cmd", "stat_v2", "ls_v2")


@dataclass(frozen=True)
class AdbdSettings:
    """A phone, as its daemon presents it."""

    path: str
    """Unix socket that is served."""
    root: str = "/"
    """Root directory of commands and files."""
    uid: int | None = None
    """User of commands and files; None: the daemon's own."""
    environment: dict[str, str] = field(default_factory=dict)
    shell: str = "/bin/sh"
    features: tuple[str, ...] = FEATURES
    model: str = "Emulated"
    is_authorised: bool = True
    is_silent: bool = False
    """Whether it never answers, as a phone whose daemon hangs."""
    has_denials: bool = False
    """Whether commands may make no socket file, FIFO or hard link, as SELinux denies them."""

    def dump(self) -> str:
        """As an argument of the program."""
        return json.dumps(asdict(self))


class Stream:
    """A stream of a connection."""

    def __init__(self, connection: Connection, own: int, peer: int) -> None:
        self._connection, self._own, self._peer = connection, own, peer
        self.incoming: queue.Queue[bytes | None] = queue.Queue()
        self.acknowledged = threading.Semaphore(0)
        self.is_closed = False
        self.on_close: Callable[[], None] = lambda: None

    def accept(self) -> None:
        """Report to the host that the service is open."""
        self._connection.send(b"OKAY", self._own, self._peer)

    def read(self) -> bytes:
        """The next data; empty at the end."""
        data = self.incoming.get()
        if data is None:
            return b""
        self._connection.send(b"OKAY", self._own, self._peer)
        return data

    def write(self, data: bytes) -> None:
        """Send, and wait until the host has it."""
        limit = self._connection.max_data
        for begin in range(0, len(data), limit):
            if self.is_closed:
                raise BrokenPipeError
            self._connection.send(b"WRTE", self._own, self._peer, data[begin : begin + limit])
            self.acknowledged.acquire()
        if self.is_closed:
            raise BrokenPipeError

    def close(self) -> None:
        """End it from this side."""
        if not self.is_closed:
            self.is_closed = True
            with suppress(OSError):
                self._connection.send(b"CLSE", self._own, self._peer)

    def ended(self) -> None:
        """The host has closed it, or has disconnected."""
        self.is_closed = True
        self.incoming.put(None)
        self.acknowledged.release()
        self.on_close()


class Reader:
    """Exact reads from a stream."""

    def __init__(self, stream: Stream) -> None:
        self._stream, self._left = stream, b""

    def exactly(self, size: int) -> bytes:
        """This many bytes; EOFError at the end."""
        while len(self._left) < size:
            data = self._stream.read()
            if not data:
                raise EOFError
            self._left += data
        taken, self._left = self._left[:size], self._left[size:]
        return taken


class Connection:
    """A connection of the adb server's."""

    def __init__(self, link: socket.socket, settings: AdbdSettings) -> None:
        self._link, self._settings = link, settings
        self._lock = threading.Lock()
        self._streams: dict[int, Stream] = {}
        # No number is reused: the server may close a stream again when it is closed already.
        self._numbers = itertools.count(1)
        self.max_data = 4096

    def send(self, command: bytes, first: int, second: int, data: bytes = b"") -> None:
        """Send one message."""
        number = int.from_bytes(command, "little")
        check = sum(data) & 0xFFFFFFFF
        header = struct.pack("<6I", number, first, second, len(data), check, number ^ 0xFFFFFFFF)
        with self._lock:
            self._link.sendall(header + data)

    def serve(self) -> None:
        """Serve until it ends."""
        try:
            for command, first, second, data in self._messages():
                self._handle(command, first, second, data)
        except OSError:
            pass
        finally:
            for stream in list(self._streams.values()):
                stream.ended()
            self._link.close()

    def _messages(self) -> Iterator[tuple[bytes, int, int, bytes]]:
        with self._link.makefile("rb") as file:
            while len(header := file.read(24)) == 24:
                number, first, second, length, _, magic = struct.unpack("<6I", header)
                assert magic == number ^ 0xFFFFFFFF
                yield number.to_bytes(4, "little"), first, second, file.read(length)

    def _handle(self, command: bytes, first: int, second: int, data: bytes) -> None:
        if self._settings.is_silent:
            return
        if command == b"CNXN":
            self.max_data = min(second, MAX_DATA)
            if self._settings.is_authorised:
                self._show()
            else:
                self.send(b"AUTH", TOKEN, 0, os.urandom(20))
        elif command == b"AUTH":
            if first == SIGNATURE:  # of a key that the phone does not know
                self.send(b"AUTH", TOKEN, 0, os.urandom(20))
            # A public key waits for confirmation, which never comes.
        elif command == b"OPEN":
            self._open(first, data.rstrip(b"\0").decode())
        elif (stream := self._streams.get(second)) is not None:
            if command == b"WRTE":
                stream.incoming.put(data)
            elif command == b"OKAY":
                stream.acknowledged.release()
            elif command == b"CLSE":
                del self._streams[second]
                stream.ended()

    def _show(self) -> None:
        about = {"name": "emulated", "model": self._settings.model, "device": "emulated"}
        fields = [f"ro.product.{key}={value}" for key, value in about.items()]
        fields.append(f"features={','.join(self._settings.features)}")
        self.send(b"CNXN", VERSION, MAX_DATA, f"device::{';'.join(fields)}".encode())

    def _open(self, peer: int, service: str) -> None:
        own = next(self._numbers)
        stream = self._streams[own] = Stream(self, own, peer)

        def serve() -> None:
            try:
                if not _serve(stream, service, self._settings):
                    self.send(b"CLSE", 0, peer)
                    return
            except (OSError, EOFError):
                pass
            stream.close()

        threading.Thread(target=serve, daemon=True).start()


def _serve(stream: Stream, service: str, settings: AdbdSettings) -> bool:
    """Serve a stream to its end; whether there is such a service."""
    kind, _, argument = service.partition(":")
    kind, *options = kind.split(",")
    if kind in ("shell", "exec") and argument:
        stream.accept()
        if "v2" in options and "shell_v2" in settings.features:
            _run_v2(stream, argument, settings)
        elif "v2" not in options:
            _run_v1(stream, argument, settings)
        return True
    if kind == "sync":
        stream.accept()
        Sync(stream, settings).serve()
        return True
    if kind in ("tcp", "localabstract"):
        return _relay(stream, kind, argument)
    return False


def _process(command: str, settings: AdbdSettings, errors: int) -> subprocess.Popen[bytes]:
    def become_shell() -> None:
        os.chroot(settings.root) if settings.root != "/" else None
        os.chdir("/")
        if settings.uid is not None:
            os.setgroups([])
            os.setresgid(settings.uid, settings.uid, settings.uid)
            os.setresuid(settings.uid, settings.uid, settings.uid)
        if settings.has_denials:
            deny_as_android()

    return subprocess.Popen(
        [settings.shell, "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        env=settings.environment or None,
        start_new_session=True,
        preexec_fn=become_shell,
    )


def _hang_up(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.kill(process.pid, signal.SIGHUP)


def _run_v2(stream: Stream, command: str, settings: AdbdSettings) -> None:
    with _process(command, settings, subprocess.PIPE) as process:
        assert process.stdin is not None
        stream.on_close = lambda: _hang_up(process)
        stdin = process.stdin

        def feed() -> None:
            reader = Reader(stream)
            with suppress(OSError, EOFError, ValueError):
                while True:
                    kind, length = struct.unpack("<BI", reader.exactly(5))
                    data = reader.exactly(length)
                    if kind == STDIN:
                        stdin.write(data)
                        stdin.flush()
                    elif kind == CLOSE_STDIN:
                        stdin.close()

        def forward(number: int, fd: int) -> None:
            with suppress(OSError):
                while data := os.read(fd, 32768):
                    stream.write(struct.pack("<BI", number, len(data)) + data)

        threading.Thread(target=feed, daemon=True).start()
        assert process.stdout is not None
        assert process.stderr is not None
        sides = [
            threading.Thread(target=forward, args=side, daemon=True)
            for side in ((STDOUT, process.stdout.fileno()), (STDERR, process.stderr.fileno()))
        ]
        for side in sides:
            side.start()
        for side in sides:
            side.join()
        code = process.wait()
        stream.write(struct.pack("<BIB", EXIT, 1, code if code >= 0 else 128 - code))


def _run_v1(stream: Stream, command: str, settings: AdbdSettings) -> None:
    with _process(command, settings, subprocess.STDOUT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stream.on_close = lambda: _hang_up(process)
        stdin = process.stdin

        def feed() -> None:
            with suppress(OSError, ValueError):
                while data := stream.read():
                    stdin.write(data)
                    stdin.flush()

        threading.Thread(target=feed, daemon=True).start()
        while data := os.read(process.stdout.fileno(), 32768):
            stream.write(data)


def _relay(stream: Stream, kind: str, argument: str) -> bool:
    try:
        if kind == "tcp":
            link = socket.create_connection(("127.0.0.1", int(argument)), 5.0)
        else:
            link = socket.socket(socket.AF_UNIX)
            link.connect(f"\0{argument}")
    except (OSError, ValueError):
        return False
    link.settimeout(None)
    stream.accept()

    def send() -> None:
        with suppress(OSError):
            while data := stream.read():
                link.sendall(data)
            link.shutdown(socket.SHUT_RDWR)

    threading.Thread(target=send, daemon=True).start()
    with link:
        while data := link.recv(65536):
            stream.write(data)
    return True


class Sync:
    """The file service."""

    def __init__(self, stream: Stream, settings: AdbdSettings) -> None:
        self._stream, self._settings = stream, settings
        self._reader = Reader(stream)

    def serve(self) -> None:
        """Serve requests until the host quits."""
        if self._settings.uid is not None:
            # Of this thread alone, and with it the rights over files. Source: setfsuid(2).
            ctypes.CDLL(None).setfsuid(self._settings.uid)
            ctypes.CDLL(None).setfsgid(self._settings.uid)
        verbs: dict[bytes, Callable[[Path], None]] = {
            b"STAT": self._stat,
            b"STA2": self._stat_v2,
            b"LST2": self._stat_v2,
            b"LIST": self._list,
            b"RECV": self._receive,
        }
        while True:
            verb, length = struct.unpack("<4sI", self._reader.exactly(8))
            text = self._reader.exactly(length).decode()
            if verb == b"QUIT":
                return
            if verb == b"SEND":
                path, _, mode = text.rpartition(",")
                self._send(self._path(path), int(mode))
            elif verb in verbs:
                verbs[verb](self._path(text))
            else:
                self._fail(f"unknown command {verb!r}")
                return

    def _path(self, text: str) -> Path:
        return Path(self._settings.root) / text.lstrip("/")

    def _fail(self, reason: str) -> None:
        self._stream.write(struct.pack("<4sI", b"FAIL", len(reason)) + reason.encode())

    def _send(self, path: Path, mode: int) -> None:
        # A phone, too, reads all of a file that it cannot write.
        chunks: list[bytes] = []
        while (message := self._reader.exactly(8))[:4] == b"DATA":
            length = int.from_bytes(message[4:], "little")
            assert length <= SYNC_CHUNK
            chunks.append(self._reader.exactly(length))
        assert message[:4] == b"DONE"
        mtime = int.from_bytes(message[4:], "little")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.write_bytes(b"".join(chunks))
            path.chmod(stat.S_IMODE(mode))
            os.utime(path, (mtime, mtime))
        except OSError as exc:
            self._fail(f"couldn't create file: {exc.strerror}")
            return
        self._stream.write(struct.pack("<4sI", b"OKAY", 0))

    def _receive(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                while data := file.read(SYNC_CHUNK):
                    self._stream.write(struct.pack("<4sI", b"DATA", len(data)) + data)
        except OSError as exc:
            self._fail(f"open failed: {exc.strerror}")
            return
        self._stream.write(struct.pack("<4sI", b"DONE", 0))

    def _stat(self, path: Path) -> None:
        try:
            found = path.lstat()
            fields = (found.st_mode, found.st_size & 0xFFFFFFFF, int(found.st_mtime))
        except OSError:
            fields = (0, 0, 0)
        self._stream.write(struct.pack("<4s3I", b"STAT", *fields))

    def _stat_v2(self, path: Path) -> None:
        try:
            found = path.lstat()
            times = (int(found.st_atime), int(found.st_mtime), int(found.st_ctime))
            about = (found.st_mode, found.st_nlink, found.st_uid, found.st_gid, found.st_size)
            fields = (0, found.st_dev, found.st_ino, *about, *times)
        except OSError as exc:
            fields = (exc.errno or 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        self._stream.write(struct.pack("<4sIQQIIIIQqqq", b"STA2", *fields))

    def _list(self, path: Path) -> None:
        with suppress(OSError):
            for entry in sorted(path.iterdir()):
                found, name = entry.lstat(), entry.name.encode()
                about = (found.st_mode, found.st_size & 0xFFFFFFFF, int(found.st_mtime))
                self._stream.write(struct.pack("<4s4I", b"DENT", *about, len(name)) + name)
        self._stream.write(struct.pack("<4s4I", b"DONE", 0, 0, 0, 0))


def serve(settings: AdbdSettings, listener: socket.socket) -> None:
    """Serve connections until the listener is closed."""
    while True:
        try:
            link, _ = listener.accept()
        except OSError:
            return
        connection = Connection(link, settings)
        threading.Thread(target=connection.serve, daemon=True).start()


def main(arguments: Sequence[str]) -> None:
    """Serve as the first process of a phone."""
    plain = json.loads(arguments[0])
    settings = AdbdSettings(**plain | {"features": tuple(plain["features"])})
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(settings.path)
        listener.listen()
        print("ready", flush=True)
        serve(settings, listener)


if __name__ == "__main__":
    main(sys.argv[1:])
