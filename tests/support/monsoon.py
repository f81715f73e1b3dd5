"""A Monsoon HVPM that is made up, down to its transfers on the bus; faults are asked for.

What it sends is read by Monsoon's own client in the tests.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from support.usb_bus import UsbDevice

Floats = NDArray[np.float64]
Waveform = Callable[[Floats], tuple[Floats, Floats]]
"""Volt and ampere at these seconds of the unit's clock."""
RATE_HZ = 5000
FULL = 65_535
MEASUREMENT, ZERO, INVALID, REFERENCE = 0x00, 0x10, 0x20, 0x30
FINE_SCALE, COARSE_SCALE = 36_500, 6_400
"""As the unit leaves the factory (Monsoon's client, setDefaultScaleValues)."""
_ERROR = 0xFFFFFFFE


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong."""

    dropped: tuple[int, ...] = ()
    """Numbers of packets that the unit has no room for; its count says so."""
    first_dropped: int = FULL
    """Count of dropped packets in the first packets."""
    short: tuple[int, ...] = ()
    """Numbers of packets that are cut off."""
    is_not_calibrated: bool = False
    stall_at: int | None = None
    """Nothing comes for 0.2 s from this packet on, and then all of it."""
    gone_at: int | None = None
    """It is unplugged at this packet."""
    invalid: range = range(0)
    """Observations that are none."""
    rate_error_ppm: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Adc:
    """A converter, whose zero and reference are read every now and then."""

    scale: int
    """Full scale; mA, or µA of the fine one."""
    offset: int
    zero: int
    reference: int

    def raw(self, current: Floats) -> Floats:
        """Raw value of a current in the unit of its scale."""
        zero = self.zero + self.offset
        steps = np.rint(zero + current * (self.reference - zero) / self.scale)
        clipped: Floats = np.clip(steps, 0, FULL)
        return clipped


FINE = Adc(scale=FINE_SCALE, offset=15, zero=2_400, reference=40_000)
COARSE = Adc(scale=COARSE_SCALE, offset=-20, zero=3_100, reference=38_000)


def observation(kind: int, coarse: int, fine: int, volt: float) -> bytes:
    """An observation of the main output; those of USB and of the auxiliary input are like it."""
    raw_v = min(FULL, round(volt / 62.5e-6 / 4))
    values = (coarse, fine, coarse, fine, coarse, fine, raw_v, raw_v)
    return struct.pack(">8H2B", *values, 0x21, kind | 0x03)


def packet(dropped: int, observations: list[bytes]) -> bytes:
    """A transfer."""
    return struct.pack("<HBB", dropped, 0x05, len(observations)) + b"".join(observations)


@dataclass(slots=True, kw_only=True)
class MonsoonEmulator(UsbDevice):
    """One unit."""

    vendor: int = 0x2AB9
    product: int = 0x0001
    product_name: str = "Mobile Device Power Monitor"
    serial: str = "23171"
    endpoints: tuple[tuple[int, int], ...] = ((0, 0x01), (0, 0x81))
    waveform: Waveform = lambda time_s: (np.full(len(time_s), 3.7), np.full(len(time_s), 0.02))
    faults: Faults = field(default_factory=Faults)
    fine: Adc = FINE
    coarse: Adc = COARSE
    calibration_s: float = 0.02
    """Time between two calibrations; a real unit's is what START says, and makes a test long."""
    registers: dict[int, int] = field(default_factory=dict[int, int])
    told: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Registers that were set, with their values."""
    started: list[int] = field(default_factory=list[int])
    """Times between calibrations that were asked for, ms."""
    is_sampling: bool = False
    emitted: int = 0
    """Observations since the last start, the lost ones too."""
    packet_number: int = 0
    dropped_count: int = 0
    sent: list[bytes] = field(default_factory=list[bytes])
    """Transfers that were on the bus."""
    _started_s: float = 0.0

    def __post_init__(self) -> None:
        self.registers = {
            0x1A: self.fine.scale,
            0x1B: self.coarse.scale,
            0x23: 0,
            0x25: self.fine.offset & FULL,
            0x26: self.coarse.offset & FULL,
            0x41: round(3.7 * 2**20),
            0x42: int(self.serial),
            0x45: 2,
            0x88: 0xE000,
            0x89: 0xC800,
            0xC0: 32,
            0xC1: 1,
        } | self.registers

    def hear(self, data: bytes) -> None:
        """Nothing is sent to its bulk endpoint."""

    def ask(self, request: int, index: int) -> bytes | None:
        """A register; those that nobody set are 0. While it samples, few are told."""
        if request != 0x01:
            return None
        if index == 0xC4:
            return struct.pack("<I", 0x80 if self.is_sampling else 0)
        if self.is_sampling and index != 0xC0:
            return struct.pack("<I", _ERROR)
        return struct.pack("<I", self.registers.get(index, 0))

    def tell(self, request: int, value: int, index: int, data: bytes) -> bool:
        """SET, START, STOP."""
        if request == 0x01 and not self.is_sampling:
            wanted = int.from_bytes(data, "little")
            assert (value, index >> 8) == (wanted & FULL, wanted >> 16 & 0xFF)
            self.registers[index & 0xFF] = wanted
            self.told.append((index & 0xFF, wanted))
        elif request == 0x02:
            self.started.append(value)
            self.is_sampling, self._started_s = True, time.monotonic()
            self.emitted = self.packet_number = self.dropped_count = 0
        elif request == 0x03:
            self.is_sampling = False
        else:
            return False
        return True

    def poll(self) -> None:
        """Packets up to now."""
        if not self.is_sampling:
            return
        passed_s = time.monotonic() - self._started_s
        due = int(passed_s * RATE_HZ * (1 + self.faults.rate_error_ppm * 1e-6))
        if self.packet_number == self.faults.stall_at and due < self.emitted + 0.2 * RATE_HZ:
            return
        transfers = self.packets((due - self.emitted) // 3)
        self.answers.extend(transfers)
        self.sent.extend(transfers)
        gone_at = self.faults.gone_at
        self.is_gone = gone_at is not None and self.packet_number > gone_at and not self.answers

    def packets(self, count: int) -> list[bytes]:
        """The next packets, each with three observations; without those that are dropped."""
        observations = self._observations(3 * count)
        found, faults = [], self.faults
        for place in range(count):
            number, self.packet_number = self.packet_number, self.packet_number + 1
            if faults.gone_at is not None and number >= faults.gone_at:
                continue
            if number in faults.dropped:
                self.dropped_count += 1
                continue
            dropped = faults.first_dropped if number < 2 else self.dropped_count
            content = packet(dropped, observations[3 * place : 3 * place + 3])
            found.append(content[:30] if number in faults.short else content)
        return found

    def _observations(self, count: int) -> list[bytes]:
        index = np.arange(self.emitted, self.emitted + count)
        self.emitted += count
        volt, ampere = self.waveform(index / RATE_HZ)
        fine = self.fine.raw(ampere * 1e6).astype(int)
        coarse = self.coarse.raw(ampere * 1e3).astype(int)
        step = round(self.calibration_s * RATE_HZ)
        found = []
        for place, number in enumerate(index.tolist()):
            kind, raw = MEASUREMENT, (int(coarse[place]), int(fine[place]))
            if number in self.faults.invalid:
                kind, raw = INVALID, (FULL, FULL)
            elif number % step == 7 and not self.faults.is_not_calibrated:
                kind, raw = ZERO, (self.coarse.zero, self.fine.zero)
            elif number % step == 8 and not self.faults.is_not_calibrated:
                kind, raw = REFERENCE, (self.coarse.reference, self.fine.reference)
            found.append(observation(kind, *raw, float(volt[place])))
        return found


def ramp(time_s: Floats) -> tuple[Floats, Floats]:
    """2 mA more or less at each observation, from the fine converter's range into the coarse."""
    return np.full(len(time_s), 3.7), 1e-3 + 10 * np.abs((time_s % 0.04) - 0.02)


def numbered(time_s: Floats) -> tuple[Floats, Floats]:
    """The ramp, at another voltage at each observation."""
    return 1.0 + 250e-6 * np.rint(time_s * RATE_HZ), ramp(time_s)[1]
