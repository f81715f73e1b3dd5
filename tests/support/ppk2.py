"""A PPK2 that is made up, down to the bytes on its port; faults are asked for.

What it says, and how, is checked with two other people's clients in the tests.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.ppk2.metadata import RANGES, Calibration
from edgebench.meters.ppk2.words import RATE_HZ, calibration_table
from support.pty_device import PortFaults, PtyDevice

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

Waveform = Callable[[Floats], tuple[Floats, NDArray[np.uint8]]]
"""Ampere and digital inputs at these seconds of the meter's clock."""


def constant(current_a: float) -> Waveform:
    """The same current, and no input high."""
    return lambda time_s: (np.full(len(time_s), current_a), np.zeros(len(time_s), np.uint8))


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults(PortFaults):
    """What goes wrong."""

    lost_words: tuple[tuple[int, int], ...] = ()
    """Index of the first, and how many."""
    lost_bytes: tuple[tuple[int, int], ...] = ()
    """Index of the word in which they are lost, and how many, 1 to 3."""
    metadata_pieces: int = 1
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
class Ppk2Emulator(PtyDevice):
    """One unit on a pseudo-terminal."""

    waveform: Waveform = field(default_factory=lambda: constant(1e-3))
    faults: Faults = field(default_factory=Faults)
    calibration: Calibration = CALIBRATION
    supply_v: float = 3.3
    commands: list[bytes] = field(default_factory=list[bytes])
    _asked: int = 0

    @property
    def port_faults(self) -> PortFaults:
        """What goes wrong on the way."""
        return self.faults

    def hear(self, data: bytes) -> None:
        """Commands have the length that their first byte says."""
        while data:
            length = {0x0D: 3, 0x0C: 2, 0x11: 2, 0x25: 6}.get(data[0], 1)
            command, data = data[:length], data[length:]
            self.commands.append(command)
            self._obey(command)

    def stream(self) -> None:
        """Words up to now."""
        due = self.due(RATE_HZ)
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
        self.send(damaged(words, self.faults, first))

    def _obey(self, command: bytes) -> None:
        if command[0] == 0x06:
            self.start()
        elif command[0] == 0x07:
            self.is_streaming = False
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
            self.send(piece.tobytes())
            if len(pieces) > 1:
                time.sleep(0.02)
