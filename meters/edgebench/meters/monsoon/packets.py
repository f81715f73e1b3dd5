"""Packets of a Monsoon HVPM, one per USB transfer, and its control requests.

    packet        dropped u16, flags u8, observations u8 (0 to 3), little-endian; the observations
    observation   18 bytes; each u16 is big-endian
                  u16: current of the main output, coarse and fine; current of USB, coarse and fine;
                       current of the auxiliary input, coarse and fine
                  u16: voltage of the main output; voltage of USB
                  u8:  gain of USB; gain of the main output, with the kind in bits 4 and 5
    SET request   data: value u32
                  wValue: low half of the value
                  wIndex: register in the low byte, third byte of the value in the high byte
    GET request   wIndex: register; 4 bytes are returned

`dropped` counts the packets for which the unit had no room. In the first milliseconds, the value of
`dropped` is 65535.

A recording stores each transfer as a record of fixed length, so that many records can be decoded at
once. A record has a byte for the length of the transfer, and 64 bytes for its content.

Source: msoon/PyMonsoon 0.1.88, Monsoon/pmapi.py (requests), Operations.py (registers, kinds),
HVPM.py (byte order); Android, tools/test/connectivity, acts/controllers/monsoon_lib/sampling/hvpm,
packet.py (layout, from Monsoon's API document), transformers.py (65535).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

PACKET_BYTES = 64
OBSERVATIONS_MAX = 3
"""Maximum number of observations in a packet."""
DROPPED_SIZE = 1 << 16
NOT_COUNTED = DROPPED_SIZE - 1
"""Value of `dropped` while the unit does not count dropped packets yet."""
GET_OR_SET, START, STOP = 0x01, 0x02, 0x03
"""Request codes."""
BUSY = 0xFFFFFFFE
"""Value that every register returns while the unit is sampling."""
FOREVER = 0xFFFFFFFF
"""Number of samples in a start request: with this value, the unit samples until it is stopped."""
VOLTS = 1 << 20
"""Number of steps per volt in the register of the main voltage."""
_HEAD_BYTES = 4
_KIND = 0x30

Observations = NDArray[np.void]
"""Observations, shape (n,)."""


class Register(IntEnum):
    """Numbers of the unit's registers; reading a writable register returns its set value."""

    MAIN_FINE_SCALE = 0x1A
    MAIN_COARSE_SCALE = 0x1B
    VOLTAGE_CHANNEL = 0x23
    """Selects the voltages to measure; 0: main output and USB."""
    MAIN_FINE_OFFSET = 0x25
    MAIN_COARSE_OFFSET = 0x26
    MAIN_VOLTAGE = 0x41
    SERIAL = 0x42
    MODEL = 0x45
    DAC_LOW = 0x88
    DAC_HIGH = 0x89
    FIRMWARE = 0xC0
    PROTOCOL = 0xC1


class SampleKind(IntEnum):
    """What the converters measured in an observation."""

    MEASUREMENT = 0x00
    ZERO = 0x10
    """The converters' zero."""
    INVALID = 0x20
    REFERENCE = 0x30
    """The converters' reference."""


_OBSERVATION = np.dtype(
    [
        ("main_coarse", ">u2"),
        ("main_fine", ">u2"),
        ("usb", ">u2", 2),
        ("aux", ">u2", 2),
        ("main_voltage", ">u2"),
        ("usb_voltage", ">u2"),
        ("usb_gain", "u1"),
        ("main_gain", "u1"),
    ]
)
_RECORD = np.dtype(
    [
        ("length", "u1"),
        ("dropped", "<u2"),
        ("flags", "u1"),
        ("count", "u1"),
        ("observations", _OBSERVATION, OBSERVATIONS_MAX),
        ("rest", "u1", PACKET_BYTES - _HEAD_BYTES - OBSERVATIONS_MAX * _OBSERVATION.itemsize),
    ]
)
OBSERVATION_BYTES = _OBSERVATION.itemsize
RECORD_BYTES = _RECORD.itemsize


@dataclass(frozen=True, slots=True, eq=False)
class PacketRun:
    """Observations of consecutive packets."""

    observations: Observations
    """Shape (n,)."""
    lost: NDArray[np.int64]
    """Number of missing observations before each observation and after the last, shape (n + 1,)."""
    damaged_count: int
    """Number of packets that are shorter than their header claims."""


def record_of(transfer: bytes) -> bytes:
    """Convert a transfer to a record of `RECORD_BYTES`."""
    return bytes([len(transfer)]) + transfer[:PACKET_BYTES].ljust(PACKET_BYTES, b"\0")


def kinds_of(observations: Observations) -> NDArray[np.uint8]:
    """Kind of each observation, shape (n,)."""
    kinds: NDArray[np.uint8] = observations["main_gain"] & np.uint8(_KIND)
    return kinds


class PacketReader:
    """Reads records in order, and stores the unit's last count of dropped packets."""

    def __init__(self) -> None:
        self._dropped = NOT_COUNTED

    def read(self, data: bytes) -> PacketRun:
        """Return the observations in complete records.

        The content of a dropped packet is unknown. A dropped packet counts as three missing
        observations, the maximum of a packet: the unit drops packets when the host is late, and
        such packets are full.
        """
        records: NDArray[np.void] = np.frombuffer(data, _RECORD)
        counts = records["count"].astype(np.int64)
        needed = _HEAD_BYTES + counts * OBSERVATION_BYTES
        is_whole = (counts <= OBSERVATIONS_MAX) & (records["length"] >= needed)
        lost_packets = self._lost_packets(records, is_whole)
        counts[~is_whole] = 0
        missing = lost_packets * OBSERVATIONS_MAX
        # A damaged packet counts as three missing observations, because its header is unreliable.
        missing[~is_whole] += OBSERVATIONS_MAX
        is_there = np.arange(OBSERVATIONS_MAX) < counts[:, None]
        lost = np.zeros(int(counts.sum()) + 1, np.int64)
        np.add.at(lost, np.cumsum(counts) - counts, missing)
        return PacketRun(records["observations"][is_there], lost, int(np.count_nonzero(~is_whole)))

    def _lost_packets(
        self, records: NDArray[np.void], is_whole: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Packets that the unit dropped before each record, shape (n,)."""
        lost = np.zeros(len(records), np.int64)
        counted = np.flatnonzero(is_whole)
        dropped = records["dropped"][counted].astype(np.int64)
        before = np.concatenate([[self._dropped], dropped[:-1]]) if len(dropped) else dropped
        is_begun = before != NOT_COUNTED
        lost[counted[is_begun]] = ((dropped - before) % DROPPED_SIZE)[is_begun]
        if len(dropped):
            self._dropped = int(dropped[-1])
        return lost
