"""A PPK2 that is made up, down to the bytes on its port; faults are asked for.

What it says, and how, is checked with two other people's clients in the tests.
"""

from __future__ import annotations

import os
import threading
import time
import tty
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.ppk2.metadata import RANGES, Calibration
from edgebench.meters.ppk2.words import RATE_HZ, calibration_table

Floats = NDArray[np.float64]
CALIBRATION = Calibration(
    r=(1003.35, 101.55, 10.31, 0.9575, 0.0522),
    o=(162.5, 77.5, 75.6, 65.2, 90.1),
    gs=(0.0031, 0.1, 0.5, 1.1, 6.5),
    gi=(0.9998, 0.999, 1.0002, 0.998, 0.9987),
    s=(4.8e-08, 5e-07, 5e-06, 7e-05, 0.0003),
    i=(-3e-08, -2.5e-07, -2.4e-06, -2.2e-05, -0.0009),
    ug=(1.0, 1.0, 1.0, 1.0, 1.0),
)
UP_TO_A = (50e-6, 500e-6, 5e-3, 60e-3)
"""Where a range ends and the next begins."""
_TICK_S = 0.005

Waveform = Callable[[Floats], tuple[Floats, NDArray[np.uint8]]]
"""Ampere and digital inputs at these seconds of the meter's clock."""


def constant(current_a: float) -> Waveform:
    """The same current, and no input high."""
    return lambda time_s: (np.full(len(time_s), current_a), np.zeros(len(time_s), np.uint8))


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong."""

    lost_words: tuple[tuple[int, int], ...] = ()
    """Index of the first, and how many."""
    lost_bytes: tuple[tuple[int, int], ...] = ()
    """Index of the word in which they are lost, and how many, 1 to 3."""
    rate_error_ppm: float = 0.0
    delay_s: float = 0.0
    """Every sample comes so much later than it was taken."""
    stall_at_s: float | None = None
    stall_s: float = 0.2
    """Nothing comes for so long, and then all of it at once."""
    gone_after_s: float | None = None
    metadata_pieces: int = 1
    stale: bytes = b""
    """Before the first answer."""
    not_a_number: tuple[str, ...] = ()
    """Constants that are `-nan`."""
    left_out: tuple[str, ...] = ()
    mute_count: int = 0
    """So many questions for metadata get no answer."""


def words_for(
    current_a: Floats,
    digital: NDArray[np.uint8],
    *,
    first_index: int = 0,
    calibration: Calibration = CALIBRATION,
    supply_v: float = 3.3,
) -> NDArray[np.uint32]:
    """What the unit would send of this current, range by range."""
    table = calibration_table(calibration, supply_v)
    ranges = np.searchsorted(UP_TO_A, current_a, side="right")
    adc = np.zeros(len(current_a), np.uint32)
    steps = np.arange(1 << 14)
    for r in range(RANGES):
        mine = ranges == r
        if mine.any():
            levels = table[r << 14 : (r + 1) << 14]
            adc[mine] = np.rint(np.interp(current_a[mine], levels, steps)).astype(np.uint32)
    counter = (first_index + np.arange(len(current_a))) % 64
    return (
        adc
        | ranges.astype(np.uint32) << 14
        | counter.astype(np.uint32) << 18
        | digital.astype(np.uint32) << 24
    ).astype("<u4")


def damaged(words: NDArray[np.uint32], faults: Faults, first_index: int = 0) -> bytes:
    """The bytes of these words that arrive."""
    keep = np.ones(len(words) * 4, np.bool_)
    for index, count in faults.lost_words:
        _lose(keep, (index - first_index) * 4, count * 4)
    for index, count in faults.lost_bytes:
        _lose(keep, (index - first_index) * 4 + 1, count)
    return words.view(np.uint8)[keep].tobytes()


def _lose(keep: NDArray[np.bool_], first: int, count: int) -> None:
    keep[max(0, first) : max(0, first + count)] = False


def metadata_text(calibration: Calibration, faults: Faults) -> bytes:
    """The answer to command 0x19."""
    keys = {"R": "r", "GS": "gs", "GI": "gi", "O": "o", "S": "s", "I": "i", "UG": "ug"}
    lines = ["Calibrated: 0"]
    for key, field_name in keys.items():
        for r, value in enumerate(getattr(calibration, field_name)):
            name = f"{key}{r}"
            shown = "-nan" if name in faults.not_a_number else f"{value:.20f}"
            if name not in faults.left_out:
                lines.append(f"{name}: {shown}")
    lines += ["VDD: 3300", "HW: 9173", "mode: 2", "IA: 56", "END"]
    return ("\n".join(lines) + "\n").encode()


@dataclass(slots=True)
class Ppk2Emulator:
    """One unit on a pseudo-terminal."""

    waveform: Waveform = field(default_factory=lambda: constant(1e-3))
    faults: Faults = field(default_factory=Faults)
    calibration: Calibration = CALIBRATION
    supply_v: float = 3.3
    path: str = ""
    """Of the port, while it is there."""
    emitted: int = 0
    """Samples since the last start, the lost ones too."""
    commands: list[bytes] = field(default_factory=list[bytes])
    started_s: float | None = None
    """By the host's monotonic clock."""
    _master: int = -1
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _is_streaming: bool = False
    _asked: int = 0

    def __enter__(self) -> Ppk2Emulator:
        self._master, slave = os.openpty()
        tty.setraw(slave)
        os.set_blocking(self._master, False)
        self.path = os.ttyname(slave)
        self._slave_fd = slave
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._thread:
            self._thread.join()
        self.unplug()

    def unplug(self) -> None:
        """The cable is pulled out."""
        for name in ("_master", "_slave_fd"):
            descriptor = getattr(self, name)
            if descriptor >= 0:
                os.close(descriptor)
                setattr(self, name, -1)

    _slave_fd: int = -1

    def _run(self) -> None:
        while not self._over.wait(_TICK_S):
            try:
                self._hear()
                self._stream()
            except OSError:
                return
            if self._is_gone():
                self.unplug()
                return

    def _is_gone(self) -> bool:
        after_s = self.faults.gone_after_s
        return (
            after_s is not None
            and self.started_s is not None
            and time.monotonic() - self.started_s > after_s
        )

    def _hear(self) -> None:
        try:
            data = os.read(self._master, 4096)
        except BlockingIOError:
            return
        while data:
            length = {0x0D: 3, 0x0C: 2, 0x11: 2, 0x25: 6}.get(data[0], 1)
            command, data = data[:length], data[length:]
            self.commands.append(command)
            self._obey(command)

    def _obey(self, command: bytes) -> None:
        if command[0] == 0x06:
            self._is_streaming, self.emitted = True, 0
            self.started_s = time.monotonic()
        elif command[0] == 0x07:
            self._is_streaming = False
        elif command[0] == 0x0D:
            self.supply_v = int.from_bytes(command[1:3], "big") / 1000
        elif command[0] == 0x19:
            self._answer()

    def _answer(self) -> None:
        self._asked += 1
        if self._asked <= self.faults.mute_count:
            return
        text = (self.faults.stale if self._asked == 1 else b"") + metadata_text(
            self.calibration, self.faults
        )
        pieces = np.array_split(np.frombuffer(text, np.uint8), self.faults.metadata_pieces)
        for piece in pieces:
            self._send(piece.tobytes())
            if len(pieces) > 1:
                time.sleep(0.02)

    def _stream(self) -> None:
        if not self._is_streaming or self.started_s is None:
            return
        passed_s = time.monotonic() - self.started_s
        stall = self.faults.stall_at_s
        if stall is not None and stall <= passed_s < stall + self.faults.stall_s:
            return
        taken_s = passed_s - self.faults.delay_s
        due = int(taken_s * RATE_HZ * (1 + self.faults.rate_error_ppm * 1e-6))
        if due <= self.emitted:
            return
        index = np.arange(self.emitted, due)
        current_a, digital = self.waveform(index / RATE_HZ)
        words = words_for(
            current_a,
            digital,
            first_index=self.emitted,
            calibration=self.calibration,
            supply_v=self.supply_v,
        )
        self.emitted, first = due, self.emitted
        self._send(damaged(words, self.faults, first))

    def _send(self, data: bytes) -> None:
        while data and not self._over.is_set():
            try:
                data = data[os.write(self._master, data) :]
            except BlockingIOError:  # the host does not read; a real unit would lose words
                time.sleep(0.001)
