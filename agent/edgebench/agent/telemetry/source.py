"""The interface of a telemetry source."""

from __future__ import annotations

import errno
import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class NoData:
    """The reason why a source has no data here; this is not an error."""

    reason: str


class Reader(Protocol):
    """An opened source."""

    @property
    def sensors(self) -> tuple[str, ...]:
        """Names of the values that `read` returns, each with its unit as suffix."""
        ...

    @property
    def constants(self) -> Mapping[str, float]:
        """Values that do not change during a run, such as trip points, by name."""
        ...

    @property
    def absent(self) -> Mapping[str, str]:
        """Sensors, or groups of sensors, that cannot be read here, with the reasons."""
        ...

    def read(self) -> Sequence[float]:
        """A value for each sensor; NaN if a sensor does not respond now."""
        ...


class TelemetrySource(Protocol):
    """A kind of file under /sys or /proc that can be sampled."""

    @property
    def name(self) -> str:
        """Lower-case name of the source, which must not change between versions."""
        ...

    @property
    def rate_hz_max(self) -> float:
        """Highest rate at which the source may be read; low if it uses a bus or a command."""
        ...

    def open(self, root: Path, worker_pid: int) -> Reader | NoData:
        """Find and open the files, once per run; the directory `root` replaces / in tests."""
        ...


FAST_HZ = math.inf
CALM_HZ = 2.5
"""Rate for files about the whole machine, such as CPU load and memory. Each is quick to read, but
at 10 Hz these files caused two thirds of the sampler's CPU time."""
SLOW_HZ = 2.0
"""Rate for sensors that take a millisecond to read, such as a chip on an I2C bus, or a disk. A
source with this rate or a lower rate has its own thread."""

_CLOSED = -1


class KeptFile:
    """A file that is opened once and read repeatedly from its start.

    The kernel generates the content of a file in /sys or /proc for every read at offset 0. Reading
    through an open descriptor takes a quarter of the time of opening the file for each read. If the
    described object disappears and returns, as a CPU does when it is switched off and on, the file
    is opened again.
    """

    def __init__(self, path: Path, size: int = 4096) -> None:
        self._path = path
        self._size = size
        self._descriptor = self._open()

    def read(self) -> bytes:
        """Read the current content.

        Raises:
            OSError: the sensor does not respond.
        """
        if self._descriptor == _CLOSED:
            self._descriptor = self._open()
        try:
            return os.pread(self._descriptor, self._size, 0)
        except OSError as exc:
            if exc.errno not in (errno.ENODEV, errno.ESTALE):
                raise
            # Closed before it is reopened: an object that is away now is looked up at the next
            # read.
            gone, self._descriptor = self._descriptor, _CLOSED
            os.close(gone)
            self._descriptor = self._open()
            return os.pread(self._descriptor, self._size, 0)

    def _open(self) -> int:
        return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)


Parse = Callable[[bytes], float]


def scaled(factor: float = 1.0) -> Parse:
    """A parser that reads an integer and multiplies it by a factor."""
    return lambda content: int(content) * factor


class FileSensors:
    """A reader of files, each of which contains a number."""

    def __init__(self) -> None:
        self._files: list[tuple[KeptFile, Parse]] = []
        self._names: list[str] = []
        self.constants: dict[str, float] = {}
        self.absent: dict[str, str] = {}

    @property
    def sensors(self) -> tuple[str, ...]:
        """Names of the sensors, in the order of the values of `read`."""
        return tuple(self._names)

    def add(self, sensor: str, path: Path, parse: Parse) -> bool:
        """Open the file of a sensor; returns whether this succeeded.

        If the file exists but cannot be opened, the reason is added to `absent`.
        """
        try:
            file = KeptFile(path)
        except OSError as exc:
            if exc.errno != errno.ENOENT:
                self.absent[sensor] = f"{path}: {exc.strerror}"
            return False
        self._names.append(sensor)
        self._files.append((file, parse))
        return True

    def add_constant(self, name: str, path: Path, parse: Parse) -> None:
        """Read a constant from a file; no effect if the file cannot be read or parsed."""
        with suppress(OSError, ValueError):
            self.constants[name] = parse(path.read_bytes())

    def read(self) -> Sequence[float]:
        """Current value of each sensor; NaN if its file cannot be read or parsed now."""
        return [_parsed(file, parse) for file, parse in self._files]

    def or_no_data(self, reason: str, folder: Path | None = None) -> FileSensors | NoData:
        """This reader, or `NoData` with a reason if the reader has no sensors.

        Args:
            reason: Reason to report if no more specific reason is found.
            folder: Directory that contains the files. If access to this directory is denied, the
                denial is reported.
        """
        if self._names:
            return self
        denied = denial(folder) if folder is not None else None
        reasons = [f"{name}: {why}" for name, why in self.absent.items()]
        reasons += [denied] if denied else []
        return NoData("; ".join(reasons) or reason)


def _parsed(file: KeptFile, parse: Parse) -> float:
    try:
        return parse(file.read())
    except (OSError, ValueError, LookupError):  # a sensor that is powered off returns EAGAIN
        return math.nan


def denial(path: Path) -> str | None:
    """Why a file or directory cannot be opened; None if it can, or if it does not exist."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as exc:
        return None if exc.errno in (errno.ENOENT, errno.ENOTDIR) else f"{path}: {exc.strerror}"
    return None


def read_text(path: Path) -> str:
    """Text of a small file, stripped of blanks, NULs and line ends; empty if unreadable."""
    try:
        return path.read_text(errors="replace").strip("\0 \n")
    except OSError:
        return ""


def numbered(folder: Path, prefix: str) -> list[Path]:
    """Entries of a directory that consist of the prefix and a number, ordered by number."""

    def number(path: Path) -> int:
        digits = path.name.removeprefix(prefix)
        return int(digits) if digits.isdecimal() else -1

    return sorted((p for p in folder.glob(f"{prefix}*") if number(p) >= 0), key=number)


def found_sensors(sensors: Sequence[str], prefix: str, suffix: str) -> list[tuple[int, str]]:
    """Index and name of each sensor with this prefix and suffix."""
    return [
        (index, name)
        for index, name in enumerate(sensors)
        if name.startswith(prefix) and name.endswith(suffix)
    ]


class Names:
    """Makes names that stay equal between boots, from a type and an ordinal within this type."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def next(self, kind: str) -> str:
        """The next name of this type: `kind.0`, then `kind.1`."""
        self._seen[kind] += 1
        return f"{kind}.{self._seen[kind] - 1}"
