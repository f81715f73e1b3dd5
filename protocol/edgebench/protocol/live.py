"""Live samples that an agent sends to subscribers (`Watch`), and their binary format.

A batch is sent as consecutive little-endian columns of the same length:

    time_ns i64    time of the sample, on the device's monotonic clock
    temp_c f64     temperature of the hottest zone
    freq_hz f64    clock of the fastest CPU

A value is NaN if there was no reading at that time. A later version may append columns, which an
older host ignores.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.protocol.errors import RemoteProtocolError

WATCH_HZ = 10.0
"""Maximum number of samples sent per second; if the sampler is faster, samples are dropped."""
MAX_SAMPLES = 32
"""Maximum number of samples in a batch; a batch of a second has 10 samples."""
_ROW_BYTES = 24


@dataclass(frozen=True, slots=True)
class LiveSamples:
    """Samples of a device in order of time; each column is a tuple."""

    time_ns: tuple[int, ...]
    """Times of the samples on the device's monotonic clock."""
    temp_c: tuple[float, ...]
    freq_hz: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.time_ns)


def pack_samples(samples: Sequence[tuple[int, float, float]]) -> bytes:
    """Pack at most `MAX_SAMPLES` samples, each given as (time_ns, temp_c, freq_hz)."""
    count = len(samples)
    assert count <= MAX_SAMPLES
    columns = zip(*samples, strict=True)
    return struct.pack(f"<{count}q{2 * count}d", *(value for column in columns for value in column))


def unpack_samples(payload: bytes | memoryview, count: int) -> LiveSamples:
    """Unpack `count` samples from a payload.

    Raises:
        RemoteProtocolError: `count` is above `MAX_SAMPLES`, or the payload is too short for `count`
            samples.
    """
    if not 0 <= count <= MAX_SAMPLES or len(payload) < count * _ROW_BYTES:
        raise RemoteProtocolError(
            f"{count} samples in {len(payload)} bytes, limit {MAX_SAMPLES} samples"
        )
    values = struct.unpack_from(f"<{count}q{2 * count}d", payload)
    return LiveSamples(values[:count], values[count : 2 * count], values[2 * count :])
