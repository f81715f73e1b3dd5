"""What commands that measure tell those who look on: files that they append to, and who reads them.

    <store>/live/<pid>-<time>.jsonl     one file for each command: first what it is, then lines

Theory of operation. A line is how one device is now, whole; a later line of the same device takes
its place. So a reader needs nothing but the last line of each device, a line that is torn or lost
costs nothing, and a file that has become too long is written again from those last lines. Whoever
measures holds a lock on its file: one without a lock is of a command that has ended, however it
ended.

Nothing here is a result, and nothing may keep a command from measuring: lines are not synced, and
what cannot be written is left out. A reader takes files and lines for what they are, text that
anybody may have written: what it does not understand, it leaves out.
"""

from __future__ import annotations

import fcntl
import json
import math
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

from edgebench.host.store.layout import LIVE_DIRECTORY, Store
from edgebench.protocol.errors import RemoteProtocolError
from edgebench.protocol.plain import from_outside, to_plain
from edgebench.protocol.record import Phase, PhaseProgress
from edgebench.protocol.text import one_line

FILE_BYTES = 2**20
"""Size at which a file is written again from its last lines."""
LINE_BYTES = 4096
"""Longest line; a state has some 500 bytes."""
MAX_TEXT = 200
"""Characters of a name or a reason in a line."""
MAX_FILES = 256
"""Newest files that a reader looks at."""
MAX_DEVICES = 1024
"""Devices that a reader keeps, of all files together."""
MAX_WHOLE = 2**63
"""Whole numbers in a line are below it: a larger one is no count, and may be no float either."""
KEPT_S = 86400.0
"""Age at which the next command removes a file."""
_NAME = re.compile(r"[0-9]{1,10}-[0-9]{8}T[0-9]{6}-[0-9]{6}\.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCommand:
    """A command that measures: the first line of its file."""

    name: str
    """As `bench`."""
    host: str
    """Name of the machine that it runs on."""
    pid: int
    begun_utc: str
    campaign: str | None = None
    """Id of the campaign whose runs it makes."""


@dataclass(frozen=True, slots=True)
class LivePower:
    """Power of a channel of a meter on this host, over the last moment."""

    channel: str
    power_w: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveDevice:
    """How a device is, as a command that measures on it has heard; any other line of a file."""

    device: str
    at_utc: str
    state: str
    """`waiting`, `measuring`, `between_runs` or `failed`."""
    reason: str = ""
    """What is waited for, or why the last run failed, or nothing more is measured."""
    model: str = ""
    runtime: str = ""
    settings: str = ""
    number: int = 0
    """Number of the run among those of the device, from 1; 0: none has begun."""
    count: int = 0
    run_id: str | None = None
    """Run in progress, or else the last one."""
    run_begun_utc: str | None = None
    phase: Phase | None = None
    phase_begun_utc: str | None = None
    expected_s: float | None = None
    """Time that the phase should take, where that is known."""
    reached: PhaseProgress | None = None
    temp_c: float | None = None
    freq_hz: float | None = None
    power: tuple[LivePower, ...] = ()
    stored_count: int = 0
    """Runs of this command that were stored."""
    failed_count: int = 0
    runs_left_s: float | None = None
    """Time from the beginning of this run to the end of the last one; None before any has ended."""


def utc_now() -> str:
    """The time, as lines have it."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


class LiveFile:
    """The file of this process; it is made when there is something to tell."""

    def __init__(self, store: Store, name: str, campaign: str | None = None) -> None:
        """Prepare a file.

        Args:
            store: Store of the runs.
            name: Name of the command.
            campaign: Id of the campaign whose runs it makes.
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
        """Append how a device is; what cannot be written is left out."""
        line = _line(device)
        if len(line) > LINE_BYTES:
            return
        with self._lock, suppress(OSError):
            self._lines[device.device] = line
            if self._descriptor is None or self._size + len(line) > FILE_BYTES:
                self._write_anew()
            else:
                self._size += os.write(self._descriptor, line)

    def close(self) -> None:
        """End it: the lock goes with the descriptor."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _write_anew(self) -> None:
        """Write the last lines into a new file, which has the lock before it has the name."""
        self._directory.mkdir(parents=True, exist_ok=True)
        if self._descriptor is None:
            remove_old(self._directory)
        beside = self._directory / f".{self._path.name}"
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = b"".join([_line(self._command), *self._lines.values()])
            if os.write(descriptor, content) < len(content):
                raise OSError("disk full")
            beside.replace(self._path)
        except OSError:
            os.close(descriptor)
            with suppress(OSError):
                beside.unlink()
            raise
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._size = descriptor, len(content)


def remove_old(directory: Path) -> None:
    """Remove the files of commands that ended a day ago."""
    limit_s = time.time() - KEPT_S
    for name in os.listdir(directory):
        path = directory / name
        if not _NAME.fullmatch(name.removeprefix(".")):
            continue
        with suppress(OSError):
            if path.lstat().st_mtime < limit_s and not _is_held(path):
                path.unlink()


def _line(value: LiveCommand | LiveDevice) -> bytes:
    # Begins a line of its own behind one that was left half written.
    return b"\n" + json.dumps(to_plain(value)).encode() + b"\n"


def _is_held(path: Path) -> bool:
    """Whether a command still writes to it.

    Raises:
        OSError: it cannot be opened, or is no file.
    """
    descriptor = _opened(path)
    try:
        return _is_locked(descriptor)
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    """A regular file, opened: neither a link, nor a pipe that would be waited for.

    Raises:
        OSError: it is something else, or cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"not a file: {path}")
    return descriptor


def _is_locked(descriptor: int) -> bool:
    """Whether somebody has the lock; on a file system without locks, nobody knows of an end."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return False


def _finite(text: str) -> float:
    """A number as it is written in a line.

    Raises:
        ValueError: it is infinite, or none.
    """
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"not finite: {text}")
    return number


def _whole(text: str) -> int:
    """A whole number as it is written in a line.

    Raises:
        ValueError: it is out of bounds.
    """
    number = int(text)
    if abs(number) >= MAX_WHOLE:
        raise ValueError(f"too large: {text}")
    return number


@dataclass(slots=True)
class LiveSource:
    """One file, as far as it was read."""

    command: LiveCommand | None = None
    devices: dict[str, LiveDevice] = field(default_factory=dict[str, LiveDevice])
    """How each device is, by its name."""
    is_over: bool = False
    """The command has ended."""
    _inode: int = 0
    _offset: int = 0

    def read(self, path: Path, *, max_devices: int = MAX_DEVICES) -> bool:
        """Read what is new; whether anything is.

        Args:
            path: The file.
            max_devices: Devices that are kept; others are left out.

        Raises:
            OSError: the file cannot be read.
        """
        descriptor = _opened(path)
        try:
            facts = os.fstat(descriptor)
            # Before its lines: behind the end of the command nothing comes. A file without a lock
            # may also be one that was written anew just now.
            is_over = not _is_locked(descriptor) and path.lstat().st_ino == facts.st_ino
            if facts.st_ino != self._inode or facts.st_size < self._offset:
                self.command, self._inode, self._offset = None, facts.st_ino, 0
                self.devices.clear()
            content = os.pread(descriptor, 2 * FILE_BYTES, self._offset)
        finally:
            os.close(descriptor)
        whole = content[: content.rfind(b"\n") + 1]
        if len(content) == 2 * FILE_BYTES and not whole:
            whole = content  # a line that no command writes
        self._offset += len(whole)
        is_changed = is_over != self.is_over
        self.is_over = is_over
        for line in whole.split(b"\n"):
            is_changed |= 0 < len(line) <= LINE_BYTES and self._take(line, max_devices)
        return is_changed

    def _take(self, line: bytes, max_devices: int) -> bool:
        """Take a line in; whether it made sense."""
        try:
            # No browser reads NaN or Infinity in a message.
            found = json.loads(line, parse_constant=_finite, parse_float=_finite, parse_int=_whole)
            if self.command is None:
                self.command = from_outside(found, LiveCommand)
                return True
            device = from_outside(found, LiveDevice)
        except (ValueError, RecursionError, RemoteProtocolError):
            return False
        if device.device not in self.devices and len(self.devices) >= max_devices:
            return False
        self.devices[device.device] = device
        return True


class LiveReader:
    """All files of a store, read as they grow."""

    def __init__(self, store: Store) -> None:
        self._directory = store.root / LIVE_DIRECTORY
        self._sources: dict[str, LiveSource] = {}

    @property
    def sources(self) -> Mapping[str, LiveSource]:
        """The commands, by the name of their files; only those whose first line makes sense."""
        return {name: one for name, one in self._sources.items() if one.command is not None}

    def poll(self) -> bool:
        """Read what is new; whether anything is. A directory that is not there is an empty one."""
        names: list[tuple[int, str]] = []
        with suppress(OSError), os.scandir(self._directory) as entries:
            for entry in entries:
                if _NAME.fullmatch(entry.name):
                    with suppress(OSError):
                        found = entry.stat(follow_symlinks=False)
                        names.append((found.st_mtime_ns, entry.name))
        newest = [name for _, name in sorted(names, reverse=True)[:MAX_FILES]]
        gone = self._sources.keys() - set(newest)
        for name in gone:
            del self._sources[name]
        is_changed = bool(gone)
        for name in newest:
            self._sources.setdefault(name, LiveSource())
        room = MAX_DEVICES
        for name in sorted(newest, key=lambda one: self._sources[one].is_over):
            source = self._sources[name]
            if source.is_over:
                if len(source.devices) > room:
                    source.devices.clear()
            else:
                with suppress(OSError):
                    is_changed |= source.read(self._directory / name, max_devices=room)
            room = max(0, room - len(source.devices))
        return is_changed
