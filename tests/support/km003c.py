"""A KM003C that is made up, down to its transfers on the bus; faults are asked for.

What it sends is read by somebody else's library in the tests.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from support.usb_bus import UsbDevice

RATES_HZ = (2, 10, 50, 1000)
QUEUE_SIZE = 1000
"""Samples that it keeps; older ones are lost."""
ANSWER_SAMPLES = 48
"""In an answer at most."""

Waveform = Callable[[float], tuple[float, float]]
"""Volt and ampere at a second of the tester's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong."""

    rate_error_ppm: float = 0.0
    is_locked: bool = False
    """It keeps its queue to itself."""
    is_mute: bool = False
    mute_after: int | None = None
    """It answers so many questions, and no more."""
    late: tuple[int, ...] = ()
    """Numbers of questions, counted from 0, whose answer comes with the next one's."""
    damaged: tuple[int, ...] = ()
    """Numbers of questions whose answer is cut off."""
    lost: tuple[tuple[int, int], ...] = ()
    """Samples of the queue: the first, and how many."""
    first_sequence: int = 65_000
    """So that it wraps around soon."""
    stale: tuple[bytes, ...] = ()
    """Transfers that are there before anybody asks."""
    gone_after: int | None = None
    """It is unplugged after so many questions."""


def put_data(number: int, attribute: int, count: int, size: int, payload: bytes) -> bytes:
    """An answer with one part."""
    words = max(0, (8 + len(payload)) // 4 - 3)
    head = struct.pack("<BBH", 0x41, number, words << 6)
    return head + struct.pack("<I", attribute | count << 16 | size << 22) + payload


def reading(number: int, voltage_v: float, current_a: float) -> bytes:
    """An answer to GET_DATA ADC."""
    microvolts, microamperes = round(voltage_v * 1e6), round(current_a * 1e6)
    values = (microvolts, microamperes) * 3
    rest = (int(25.3 * 128), 5000, 200, 6000, 6100, 33000, 3, 0, 20, 600, 610)
    return put_data(number, 1, 0, 44, struct.pack("<6ihHHHHHBBHHH", *values, *rest))


def queue(number: int, samples: Sequence[tuple[int, float, float]]) -> bytes:
    """An answer to GET_DATA ADC_QUEUE: sequence, volt and ampere of each."""
    if not samples:
        return struct.pack("<BBH", 0x41, number, 0)
    payload = b"".join(
        (sequence % 65536).to_bytes(2, "little") + _reading(volt, ampere)
        for sequence, volt, ampere in samples
    )
    return put_data(number, 2, len(samples), 20, payload)


@lru_cache(maxsize=64)
def _reading(volt: float, ampere: float) -> bytes:
    return struct.pack("<Hii4H", 0x3C, round(volt * 1e6), round(ampere * 1e6), 10, 20, 6, 6)


@dataclass(slots=True, kw_only=True)
class Km003cEmulator(UsbDevice):
    """One tester."""

    vendor: int = 0x5FC9
    product: int = 0x0063
    product_name: str = "POWER-Z KM003C"
    serial: str = "007965"
    endpoints: tuple[tuple[int, int], ...] = ((0, 0x01), (0, 0x81), (3, 0x05), (3, 0x85))
    waveform: Waveform = lambda time_s: (5.0, 0.5)
    faults: Faults = field(default_factory=Faults)
    asked: list[bytes] = field(default_factory=list[bytes])
    emitted: int = 0
    """Samples that were put into the queue since it was started, the lost ones too."""
    _graph_rate_hz: int = 0
    _started_s: float = 0.0
    _fetched: int = 0
    _held_back: list[bytes] = field(default_factory=list[bytes])

    def __post_init__(self) -> None:
        self.answers.extend(self.faults.stale)

    def hear(self, data: bytes) -> None:
        """One question is one transfer."""
        place = len(self.asked)
        self.asked.append(data)
        faults = self.faults
        if faults.gone_after is not None and place >= faults.gone_after:
            self.is_gone = True
            return
        if faults.is_mute or (faults.mute_after is not None and place >= faults.mute_after):
            return
        answer = self._answer(data)
        if place in faults.damaged:
            answer = answer[: len(answer) // 2]
        if place in faults.late:
            self._held_back.append(answer)
            return
        self.answers.extend(self._held_back)
        self._held_back.clear()
        self.answers.append(answer)

    def _answer(self, data: bytes) -> bytes:
        kind, number, attribute = data[0], data[1], int.from_bytes(data[2:4], "little") >> 1
        accepted = bytes([0x05, number, 0, 0])
        if kind == 0x0C and attribute == 1:
            return reading(number, *self.waveform(time.monotonic() - self._started_s))
        if kind == 0x0C and attribute == 2:
            return queue(number, [] if self.faults.is_locked else self._fetch())
        if kind == 0x0E:
            self._graph_rate_hz, self._started_s = RATES_HZ[attribute], time.monotonic()
            self.emitted = self._fetched = 0
            return accepted
        if kind == 0x0F:
            self._graph_rate_hz = 0
            return accepted
        return accepted if kind in (0x02, 0x03) else bytes([0x06, number, 0, 0])

    def _fetch(self) -> list[tuple[int, float, float]]:
        if self._graph_rate_hz:
            passed_s = (time.monotonic() - self._started_s) * (
                1 + self.faults.rate_error_ppm * 1e-6
            )
            self.emitted = int(passed_s * self._graph_rate_hz)
        first = max(self._fetched, self.emitted - QUEUE_SIZE)
        last = min(self.emitted, first + ANSWER_SAMPLES)
        self._fetched = last
        step = 1000 // (self._graph_rate_hz or 1000)
        return [
            (self.faults.first_sequence + i * step, *self.waveform(i * step / 1000))
            for i in range(first, last)
            if not any(begin <= i < begin + count for begin, count in self.faults.lost)
        ]


def sawtooth(time_s: float) -> tuple[float, float]:
    """Another current at each millisecond."""
    return 5.0, 0.1 + 1e-4 * float(np.floor(time_s * 1000 + 1e-6) % 1000)
