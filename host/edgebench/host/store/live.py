"""Live status of measuring commands; each appends to its own file, which other processes read.

    <store>/live/<pid>-<time>.jsonl     a header line that names the command, then status lines

Theory of operation. A status line is the complete current status of a device. A later line for the
same device replaces the earlier line. Therefore a reader needs only the last line of each device,
and an incomplete or lost line is harmless. If a file has grown too long, it is rewritten from the
last line of each device. A command holds a lock on its file while the command measures. An unlocked
file belongs to a command that has ended, normally or not.

Live status is never a result, and must never prevent a measurement: lines are not synced to disk,
and a failed write is ignored. A reader treats files and lines as untrusted text, and skips
malformed lines.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import stat
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from edgebench.host.store.finite_json import load_finite
from edgebench.host.store.layout import LIVE_DIRECTORY, Store
from edgebench.protocol.errors import RemoteProtocolError
from edgebench.protocol.plain import from_outside, to_plain
from edgebench.protocol.record import Phase, PhaseProgress
from edgebench.protocol.text import one_line
from edgebench.system.whole_files import make_directory

FILE_BYTES = 2**20
"""Size at which a file is rewritten from the last line of each device."""
LINE_BYTES = 4096
"""Maximum length of a line, bytes; a status line has about 500 bytes."""
MAX_TEXT = 200
"""Maximum number of characters of a name or a reason in a line."""
MAX_FILES = 256
"""Maximum number of files that a reader follows; it follows the newest files."""
MAX_DEVICES = 1024
"""Maximum number of devices whose status a reader keeps, over all files."""
MAX_WHOLE = 2**63
"""Upper limit on integers in a line, because larger values cannot be counts and may overflow."""
KEPT_S = 86400.0
"""Age from which the file of an ended command is removed by the next command."""
_NAME = re.compile(r"[0-9]{1,10}-[0-9]{8}T[0-9]{6}-[0-9]{6}\.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCommand:
    """A command that measures, as described in the first line of its live file."""

    name: str
    """Command name, such as `bench`."""
    host: str
    """Name of the machine that the command runs on."""
    pid: int
    begun_utc: str
    campaign: str | None = None
    """Id of the campaign that the runs belong to."""


@dataclass(frozen=True, slots=True)
class LivePower:
    """Recent mean power of a channel of a meter on this host."""

    channel: str
    power_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDevice:
    """Status of a device, as described in each line of a live file except the first line."""

    device: str
    at_utc: str
    state: str
    """`waiting`, `measuring`, `between_runs` or `failed`."""
    reason: str = ""
    """Reason for waiting, for the failure of the last run, or for giving up the device."""
    model: str = ""
    runtime: str = ""
    settings: str = ""
    number: int = 0
    """Number of the run among the device's runs, from 1; 0 before the first run."""
    count: int = 0
    run_id: str | None = None
    """Id of the run in progress or, between runs, of the last run."""
    run_begun_utc: str | None = None
    phase: Phase | None = None
    phase_begun_utc: str | None = None
    expected_s: float | None = None
    """Expected duration of the phase; None if unknown."""
    reached: PhaseProgress | None = None
    temp_c: float | None = None
    freq_hz: float | None = None
    power: tuple[LivePower, ...] = ()
    stored_count: int = 0
    """Number of runs of this command that were stored."""
    failed_count: int = 0
    runs_left_s: float | None = None
    """Estimated time from the start of this run to the end of the last run; None before the first
    run."""


def utc_now() -> str:
    """Current time in the format of live files."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


class LiveFile:
    """Live file of this process, created by the first status line."""

    def __init__(self, store: Store, name: str, campaign: str | None = None) -> None:
        """Prepare the file without creating it.

        Args:
            store: Store of the runs.
            name: Name of the command.
            campaign: Id of the campaign that the runs belong to.
        """
        self._directory = store.root / LIVE_DIRECTORY
        self._command = LiveCommand(
            name=name,
            host=one_line(socket.gethostname(), MAX_TEXT),
            pid=os.getpid(),
            begun_utc=utc_now(),
            campaign=campaign,
        )
        stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%S-%f")
        self._path = self._directory / f"{os.getpid()}-{stamp}.jsonl"
        self._lines: dict[str, bytes] = {}
        """Last line of each device."""
        self._descriptor: int | None = None
        self._size = 0
        self._lock = threading.Lock()

    def put(self, device: LiveDevice) -> None:
        """Append the status of a device; a failed write is ignored."""
        line = _line(device)
        if len(line) > LINE_BYTES:
            return
        with self._lock, suppress(OSError):
            self._lines[device.device] = line
            if self._descriptor is None or self._size + len(line) > FILE_BYTES:
                self._rewrite()
            else:
                self._size += os.write(self._descriptor, line)

    def close(self) -> None:
        """Close the file, which also releases the lock."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _rewrite(self) -> None:
        """Write the last line of each device into a new file, and lock it; then rename the file."""
        make_directory(self._directory)  # the store may be new; live files are never synced
        if self._descriptor is None:
            remove_old(self._directory)
        part = self._directory / f".{self._path.name}"
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = b"".join([_line(self._command), *self._lines.values()])
            if os.write(descriptor, content) < len(content):
                raise OSError("disk full")
            part.replace(self._path)
        except OSError:
            os.close(descriptor)
            with suppress(OSError):
                part.unlink()
            raise
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._size = descriptor, len(content)


def remove_old(directory: Path) -> None:
    """Remove the files of commands that ended more than a day ago."""
    limit_s = time.time() - KEPT_S
    for name in os.listdir(directory):
        path = directory / name
        if not _NAME.fullmatch(name.removeprefix(".")):
            continue
        with suppress(OSError):
            if path.lstat().st_mtime >= limit_s:
                continue
            descriptor = _open_regular(path)
            try:
                if not _is_locked(descriptor):  # a locked file is still being written
                    path.unlink()
            finally:
                os.close(descriptor)


def _line(value: LiveCommand | LiveDevice) -> bytes:
    # The leading line feed ends a line that a failed write left incomplete.
    return b"\n" + json.dumps(to_plain(value)).encode() + b"\n"


def _open_regular(path: Path) -> int:
    """Open a regular file for reading; links are refused, and pipes do not block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"not a file: {path}")
    return descriptor


def _is_locked(descriptor: int) -> bool:
    """Whether another process holds the lock; always True on a file system without locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def _whole(text: str) -> int:
    number = int(text)
    if abs(number) >= MAX_WHOLE:
        raise ValueError(f"too large: {text}")
    return number


@dataclass(slots=True)
class LiveSource:
    """Content read so far from a live file."""

    command: LiveCommand | None = None
    devices: dict[str, LiveDevice] = field(default_factory=dict[str, LiveDevice])
    """Maps the name of each device to its status."""
    is_over: bool = False
    """True once the command has ended."""
    _inode: int = 0
    _offset: int = 0

    def read(self, path: Path, *, max_devices: int = MAX_DEVICES) -> bool:
        """Read the lines appended since the last call; return whether anything changed.

        Args:
            path: The file.
            max_devices: Maximum number of devices to keep; further devices are left out.

        Raises:
            OSError: the file cannot be read.
        """
        descriptor = _open_regular(path)
        try:
            facts = os.fstat(descriptor)
            # The lock is tested before the lines are read: an ended command appends no more. An
            # unlocked file may also have been replaced by a rewrite in the meantime.
            is_over = not _is_locked(descriptor) and path.lstat().st_ino == facts.st_ino
            if facts.st_ino != self._inode or facts.st_size < self._offset:
                self.command, self._inode, self._offset = None, facts.st_ino, 0
                self.devices.clear()
            content = os.pread(descriptor, 2 * FILE_BYTES, self._offset)
        finally:
            os.close(descriptor)
        whole = content[: content.rfind(b"\n") + 1]
        if len(content) == 2 * FILE_BYTES and not whole:
            whole = content  # skip a line that is longer than commands write
        self._offset += len(whole)
        is_changed = is_over != self.is_over
        self.is_over = is_over
        for line in whole.split(b"\n"):
            is_changed |= 0 < len(line) <= LINE_BYTES and self._apply(line, max_devices)
        return is_changed

    def _apply(self, line: bytes, max_devices: int) -> bool:
        """Parse a line and apply it; return False for a malformed line."""
        try:
            # Browsers do not accept NaN or Infinity in JSON.
            document = load_finite(line, parse_int=_whole)
            if self.command is None:
                self.command = from_outside(document, LiveCommand)
                return True
            device = from_outside(document, LiveDevice)
        except (ValueError, RecursionError, RemoteProtocolError):
            return False
        if device.device not in self.devices and len(self.devices) >= max_devices:
            return False
        self.devices[device.device] = device
        return True


class LiveReader:
    """Reads all live files of a store as they grow."""

    def __init__(self, store: Store) -> None:
        self._directory = store.root / LIVE_DIRECTORY
        self._sources: dict[str, LiveSource] = {}

    @property
    def sources(self) -> Mapping[str, LiveSource]:
        """Live files with a readable header, sorted by file name."""
        return {
            name: source for name, source in self._sources.items() if source.command is not None
        }

    def poll(self) -> bool:
        """Read the lines appended to files since the last call; return whether anything changed.

        A missing directory counts as empty.
        """
        names: list[tuple[int, str]] = []
        with suppress(OSError), os.scandir(self._directory) as entries:
            for entry in entries:
                if _NAME.fullmatch(entry.name):
                    with suppress(OSError):
                        facts = entry.stat(follow_symlinks=False)
                        names.append((facts.st_mtime_ns, entry.name))
        newest = [name for _, name in sorted(names, reverse=True)[:MAX_FILES]]
        gone = self._sources.keys() - set(newest)
        for name in gone:
            del self._sources[name]
        is_changed = bool(gone)
        for name in newest:
            self._sources.setdefault(name, LiveSource())
        room = MAX_DEVICES
        for name in sorted(newest, key=lambda name: self._sources[name].is_over):
            source = self._sources[name]
            if source.is_over:
                if len(source.devices) > room:
                    source.devices.clear()
            else:
                with suppress(OSError):
                    is_changed |= source.read(self._directory / name, max_devices=room)
            room = max(0, room - len(source.devices))
        return is_changed
