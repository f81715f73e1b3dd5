"""The clocks of a device that are coarse, run at a wrong rate, stop or are set; see the C file."""

from __future__ import annotations

import math
import mmap
import struct
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.tools import need_tool

SOURCE = Path(__file__).with_name("emulated_clock.c")
LOG_BYTES = 48 * 2**20
"""Times of 2 million readings, which are allocated on the disk when they are written."""
SETTINGS = struct.Struct("=qqddqq")
CURRENT_AT, SETTINGS_AT = 0, 8
LOG_AT = SETTINGS_AT + 2 * SETTINGS.size
READS_AT = LOG_AT + 16


@dataclass(frozen=True)
class Settings:
    """State of the clocks, in the order of the C structure."""

    real_ns: int
    emulated_ns: int
    """The same moment on the monotonic clock of this machine, and on the emulated one."""
    rate: float = 1.0
    """Emulated seconds per second."""
    step_ns: float = 0.0
    set_by_ns: int = 0
    """What the wall clock was set by."""
    slept_ns: int = 0
    """Time that only the clock since boot counts."""

    def at(self, real_ns: int) -> int:
        """The emulated monotonic clock, without its step."""
        return self.emulated_ns + math.trunc((real_ns - self.real_ns) * self.rate)


class EmulatedClock:
    """Clocks of all processes with its environment; they change while the processes run."""

    def __init__(self, folder: Path) -> None:
        """Clocks like those of this machine, with their files in this folder."""
        need_tool("cc")
        file, library = folder / "clock", folder / "emulated_clock.so"
        with file.open("wb") as new:
            new.truncate(READS_AT + LOG_BYTES)
        options = ("-shared", "-fPIC", "-O2", "-Wall", "-Werror", f'-DFILE_OF_CLOCK="{file}"')
        subprocess.run(["cc", *options, str(SOURCE), "-o", str(library), "-lm", "-ldl"], check=True)
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), 0)
        self.environment = {"LD_PRELOAD": str(library)}
        now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        self._settings = Settings(now_ns, now_ns)
        self._write(self._settings)

    def set(self, *, step_ns: float = 0.0, rate: float = 1.0) -> None:
        """Change step and rate; the clock continues from the present time."""
        self._write(replace(self._now(), step_ns=step_ns, rate=rate))

    def set_wall(self, seconds: float) -> None:
        """Set the wall clock, relative to that of this machine."""
        self._write(replace(self._settings, set_by_ns=int(seconds * 1e9)))

    def sleep(self, seconds: float) -> None:
        """Sleep: the clock since boot counts this time, the monotonic clock does not."""
        slept_ns = self._settings.slept_ns + int(seconds * 1e9)
        self._write(replace(self._settings, slept_ns=slept_ns))

    def lose(self, seconds: float, *, is_suspend: bool = False) -> None:
        """The monotonic clock has stood still for this time, in which no process could run.

        Args:
            seconds: Time on the clock of this machine.
            is_suspend: The wall clock and the clock since boot have not stood still.
        """
        old, lost_ns = self._settings, int(seconds * 1e9)
        kept_ns = lost_ns if is_suspend else 0
        self._write(
            replace(
                old,
                emulated_ns=old.emulated_ns - lost_ns,
                slept_ns=old.slept_ns + kept_ns,
                set_by_ns=old.set_by_ns + kept_ns,
            )
        )

    def _now(self) -> Settings:
        now_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        return replace(self._settings, real_ns=now_ns, emulated_ns=self._settings.at(now_ns))

    def _write(self, settings: Settings) -> None:
        """Write the settings that are not in use, and use them."""
        (current,) = struct.unpack_from("=q", self._map, CURRENT_AT)
        unused = 1 - current
        values = vars(settings).values()
        SETTINGS.pack_into(self._map, SETTINGS_AT + unused * SETTINGS.size, *values)
        struct.pack_into("=q", self._map, CURRENT_AT, unused)
        self._settings = settings

    def log(self) -> None:
        """Log readings of the monotonic clock from now on."""
        struct.pack_into("=qq", self._map, LOG_AT, 1, 0)

    def real_durations_ns(self, times_ns: Sequence[tuple[int, int, int]]) -> NDArray[np.int64]:
        """Durations on the real clock, from the log, which ends.

        Args:
            times_ns: Begin and end of the invocation and end of the inference, in succession, as
                the device reports them.
        """
        _, count = struct.unpack_from("=qq", self._map, LOG_AT)
        struct.pack_into("=qq", self._map, LOG_AT, 0, 0)
        assert count * 24 <= LOG_BYTES, f"{count} readings, the log has room for {LOG_BYTES // 24}"
        log = np.frombuffer(self._map, np.int64, 3 * count, READS_AT).reshape(-1, 3)
        for thread in np.unique(log[:, 0]):
            reads = log[log[:, 0] == thread]
            found = _aligned(reads[:, 2].tolist(), times_ns)
            if found is not None:
                durations: NDArray[np.int64] = np.diff(reads[:, 1])[found]
                return durations
        raise AssertionError("no thread has read these times")


def _aligned(reads_ns: list[int], times_ns: Sequence[tuple[int, int, int]]) -> list[int] | None:
    """Position of the first reading of each inference; None if another thread read them."""
    found, position = list[int](), 0
    for begin_ns, end_ns, last_ns in times_ns:
        wanted = [begin_ns, end_ns, last_ns]
        while reads_ns[position : position + 3] != wanted:
            position += 1
            if position >= len(reads_ns):
                return None
        found.append(position)
        position += 3
    return found
