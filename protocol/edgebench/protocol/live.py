"""Live samples of a device for `Watch`, and their packed form.

A batch is sent as consecutive little-endian columns of the same length:

    time_ns i64    time of the sample, on the device's monotonic clock
    temp_c f64     temperature of the hottest zone
    freq_hz f64    clock of the fastest CPU

NaN: no reading at that time. A later version may append columns, which an older host ignores.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.protocol.errors import RemoteProtocolError

WATCH_HZ = 10.0
"""Maximum samples per second; from a faster sampler, some are dropped."""
MAX_SAMPLES = 32
"""Maximum samples in a batch; a batch of a second has ten."""
_ROW_BYTES = 24


@dataclass(frozen=True, slots=True)
class LiveSamples:
    """Samples of a device, in the order of time."""

    time_ns: tuple[int, ...]
    """Device monotonic clock."""
    temp_c: tuple[float, ...]
    freq_hz: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.time_ns)


def pack_samples(samples: Sequence[tuple[int, float, float]]) -> bytes:
    """Pack rows of time_ns, temp_c and freq_hz, at most `MAX_SAMPLES`."""
    count = len(samples)
    assert count <= MAX_SAMPLES
    columns = zip(*samples, strict=True)
    return struct.pack(f"<{count}q{2 * count}d", *(value for column in columns for value in column))


def unpack_samples(payload: bytes | memoryview, count: int) -> LiveSamples:
    """Unpack the samples of a payload.

    Raises:
        RemoteProtocolError: `count` is above `MAX_SAMPLES`, or the payload is too short for it.
    """
    if not 0 <= count <= MAX_SAMPLES or len(payload) < count * _ROW_BYTES:
        raise RemoteProtocolError(
            f"{count} samples in {len(payload)} bytes, limit {MAX_SAMPLES} samples"
        )
    values = struct.unpack_from(f"<{count}q{2 * count}d", payload)
    return LiveSamples(values[:count], values[count : 2 * count], values[2 * count :])
