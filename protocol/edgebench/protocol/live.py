"""Samples of a device for those who watch it, and their packed form.

A batch travels as little-endian columns, one after another, each of the same length:

    time_ns i64    when the sample was taken, on the device's monotonic clock
    temp_c f64     temperature of the hottest zone
    freq_hz f64    clock of the fastest CPU

NaN: nothing told then. A later version may append columns, which an older host does not look at.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.protocol.errors import RemoteProtocolError

WATCH_HZ = 10.0
"""Most samples of a second; of a faster sampler, some are left out."""
MAX_SAMPLES = 32
"""Samples in one batch; a batch of a second has ten."""
_ROW_BYTES = 24


@dataclass(frozen=True, slots=True)
class LiveSamples:
    """Samples of one device, in the order of time."""

    time_ns: tuple[int, ...]
    """Device monotonic clock."""
    temp_c: tuple[float, ...]
    freq_hz: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.time_ns)


def pack_samples(samples: Sequence[tuple[int, float, float]]) -> bytes:
    """The payload with these rows, at most `MAX_SAMPLES`."""
    count = len(samples)
    assert count <= MAX_SAMPLES
    columns = zip(*samples, strict=True)
    return struct.pack(f"<{count}q{2 * count}d", *(value for column in columns for value in column))


def unpack_samples(payload: bytes | memoryview, count: int) -> LiveSamples:
    """The samples in a payload.

    Raises:
        RemoteProtocolError: there are too many, or not so many in it.
    """
    if not 0 <= count <= MAX_SAMPLES or len(payload) < count * _ROW_BYTES:
        raise RemoteProtocolError(
            f"{count} samples in {len(payload)} bytes, limit {MAX_SAMPLES} samples"
        )
    values = struct.unpack_from(f"<{count}q{2 * count}d", payload)
    return LiveSamples(values[:count], values[count : 2 * count], values[2 * count :])
