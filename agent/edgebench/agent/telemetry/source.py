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
        """Names of the values of `read`, with their unit as suffix."""
        ...

    @property
    def constants(self) -> Mapping[str, float]:
        """Values that do not change during a run, named like sensors: trip points, limits."""
        ...

    @property
    def absent(self) -> Mapping[str, str]:
        """Parts that cannot be read here, with the reasons."""
        ...

    def read(self) -> Sequence[float]:
        """A value for each sensor; NaN if a sensor does not respond now."""
        ...


class TelemetrySource(Protocol):
    """A kind of file under /sys or /proc that can be sampled."""

    @property
    def name(self) -> str:
        """Stable lower-case name."""
        ...

    @property
    def rate_hz_max(self) -> float:
        """Highest rate at which it may be read; low for a sensor behind a bus or a command."""
        ...

    def open(self, root: Path, worker_pid: int) -> Reader | NoData:
        """Find and open the files, once; `root` stands for / in tests."""
        ...


FAST_HZ = math.inf
CALM_HZ = 2.5
"""Rate of files about the whole machine, which are quick to read but do not measure heat: at 10 Hz
they caused two thirds of the sampler's cost."""
SLOW_HZ = 2.0
"""Rate of sensors that take a millisecond: a chip on an I2C bus, a disk. A source of this rate or
below has its own thread."""

_CLOSED = -1


class KeptFile:
    """A file that is opened once and read repeatedly from its start.

    The kernel generates the content of /sys and /proc files for every read at offset 0; a kept
    descriptor costs a quarter of opening the file each time. When the object behind it disappears
    and returns, such as a CPU that is switched off and on, the file is opened again.
    """

    def __init__(self, path: Path, size: int = 4096) -> None:
        self._path = path
        self._size = size
        self._descriptor = self._open()

    def read(self) -> bytes:
        """The content now.

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
    """A parser of an integer, times a factor."""
    return lambda content: int(content) * factor


class FileSensors:
    """A reader of files that contain a number each."""

    def __init__(self) -> None:
        self._files: list[tuple[KeptFile, Parse]] = []
        self._names: list[str] = []
        self.constants: dict[str, float] = {}
        self.absent: dict[str, str] = {}

    @property
    def sensors(self) -> tuple[str, ...]:
        """Names, in the order of the readings."""
        return tuple(self._names)

    def add(self, sensor: str, path: Path, parse: Parse) -> bool:
        """Open a file and return whether that succeeded; if not, it is absent with a reason."""
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
        """Read a file once; no effect if it contains no number."""
        with suppress(OSError, ValueError):
            self.constants[name] = parse(path.read_bytes())

    def read(self) -> Sequence[float]:
        """All numbers; NaN for a file that has none now."""
        return [_parsed(file, parse) for file, parse in self._files]

    def or_no_data(self, reason: str, folder: Path | None = None) -> FileSensors | NoData:
        """This reader, or `NoData` if there is nothing to read.

        Args:
            reason: Why there is nothing.
            folder: Directory whose entries were read; if access is denied, that is the reason.
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
    """Why a file or directory may not be read; None if it may, or does not exist."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as exc:
        return None if exc.errno in (errno.ENOENT, errno.ENOTDIR) else f"{path}: {exc.strerror}"
    return None


def read_text(path: Path) -> str:
    """A small file as text without its line end; empty if it cannot be read."""
    try:
        return path.read_text(errors="replace").strip("\0 \n")
    except OSError:
        return ""


def numbered(folder: Path, prefix: str) -> list[Path]:
    """Entries such as `zone10`, ordered by number."""

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
    """Names that are stable across boots: a type and, among equal types, an ordinal."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def next(self, kind: str) -> str:
        """The next name of this type: `kind.0`, then `kind.1`."""
        self._seen[kind] += 1
        return f"{kind}.{self._seen[kind] - 1}"
