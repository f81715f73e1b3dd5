"""Messages of a KM003C. Numbers are little-endian, and each message is one USB transfer.

    request    kind u8, number u8, attribute << 1 u16
    data       41, number, words u16, then parts
    part       attribute u15, whether another part follows u1, count u6, size u10, payload

    ADC        a payload of 44 bytes: voltage i32 µV @0, current i32 µA @4, and more
    ADC queue  `count` samples of `size` = 20 bytes: sequence u16, marker u16, voltage i32 µV,
               current i32 µA, CC1, CC2, D+, D-. The sequence counts milliseconds, not samples.

Source: okhsunrog/km003c-protocol-research, docs/protocol_reference.md, docs/features/adcqueue.md.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Floats

CONNECT, ACCEPT, GET_DATA, START_GRAPH, STOP_GRAPH, PUT_DATA = 0x02, 0x05, 0x0C, 0x0E, 0x0F, 0x41
ADC, ADC_QUEUE = 0x0001, 0x0002
QUEUE_RATES_HZ = (2, 10, 50, 1000)
"""Rates of the queue; START_GRAPH takes the index of a rate in this tuple."""
SEQUENCE_HZ = 1000
SEQUENCE_SIZE = 1 << 16
MICRO = 1e-6
_HEAD_BYTES = 4
_ADC_BYTES = 44
_VALUES = struct.Struct("<ii")
_QUEUED = np.dtype(
    [
        ("sequence", "<u2"),
        ("marker", "<u2"),
        ("voltage_uv", "<i4"),
        ("current_ua", "<i4"),
        ("lines", "<u2", (4,)),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class QueueSamples:
    """Samples of a response; arrays have shape (n,)."""

    sequence: NDArray[np.uint16]
    voltage_v: Floats
    current_a: Floats


def request(kind: int, number: int, attribute: int = 0) -> bytes:
    """Encode a request of four bytes."""
    return struct.pack("<BBH", kind, number, attribute << 1)


def kind_of(message: bytes) -> tuple[int, int]:
    """Kind and number of a message; (-1, -1) if it is too short."""
    return (message[0] & 0x7F, message[1]) if len(message) >= _HEAD_BYTES else (-1, -1)


def values_of(message: bytes) -> tuple[float, float]:
    """Voltage in V and current in A, from a response to GET_DATA ADC.

    Raises:
        ValueError: the message contains no reading.
    """
    count, payload = _part(message, ADC)
    if count != 0 or len(payload) != _ADC_BYTES:
        raise ValueError(f"a reading of {len(payload)} bytes")
    voltage_uv, current_ua = _VALUES.unpack_from(payload)
    return voltage_uv * MICRO, current_ua * MICRO


def samples_of(message: bytes) -> QueueSamples:
    """Samples of a response to GET_DATA ADC_QUEUE; possibly none.

    Raises:
        ValueError: the message is not a response to GET_DATA ADC_QUEUE.
    """
    is_empty = len(message) == _HEAD_BYTES
    count, payload = (0, b"") if is_empty else _part(message, ADC_QUEUE)
    if len(payload) != count * _QUEUED.itemsize:
        raise ValueError(f"{count} samples in {len(payload)} bytes")
    samples: NDArray[np.void] = np.frombuffer(payload, _QUEUED)
    return QueueSamples(
        sequence=samples["sequence"],
        voltage_v=samples["voltage_uv"] * MICRO,
        current_a=samples["current_ua"] * MICRO,
    )


def _part(message: bytes, wanted: int) -> tuple[int, bytes]:
    """Count and payload of the part with this attribute; raises ValueError if there is none."""
    if kind_of(message)[0] != PUT_DATA:
        raise ValueError("no data")
    at = _HEAD_BYTES
    while len(message) >= at + _HEAD_BYTES:
        (head,) = struct.unpack_from("<I", message, at)
        attribute, is_more, count, size = head & 0x7FFF, head >> 15 & 1, head >> 16 & 63, head >> 22
        length = size * count if attribute == ADC_QUEUE else size
        at += _HEAD_BYTES
        if attribute == wanted and len(message) >= at + length:
            return count, message[at : at + length]
        if not is_more:
            break
        at += length
    raise ValueError(f"no part {wanted:#x}")
