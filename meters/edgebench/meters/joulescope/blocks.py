"""Packs blocks of samples from pyjoulescope_driver into bytes for a recording, and unpacks them.

A block belongs to a single signal. A block's `sample_id` counts samples at the instrument's own
rate, independent of the requested rate. If no block was lost, the `sample_id` of the next block is
`sample_id + len(data) * decimate_factor`. Samples of digital inputs are packed as bits, with the
first sample in the least significant bit of the first byte.

Source: pyjoulescope_driver, binding.pyx (stream signals in Python) and record.py (meaning of
sample_id).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgpack
import numpy as np

from edgebench.meters.base import Floats
from edgebench.protocol.errors import MeasurementError

CURRENT, VOLTAGE, POWER = "s/i/!data", "s/v/!data", "s/p/!data"
KEYS = ("sample_id", "utc", "sample_rate", "decimate_factor", "time_map", "data")
"""Keys of a published block whose values are recorded."""
INPUT_COUNT = 4
_MESSAGE_MAX_BYTES = 1 << 26


def input_topic(place: int) -> str:
    """Topic of a digital input's data."""
    return f"s/gpi/{place}/!data"


def control_topic(data_topic: str) -> str:
    """Topic that switches a signal on and off."""
    return data_topic.replace("!data", "ctrl")


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Consecutive samples of a signal."""

    topic: str
    first_tick: int
    step: int
    """Number of ticks between two samples; a tick is a sample at the instrument's own rate."""
    tick_hz: float
    values: Floats
    """Values of the samples, shape (n,); 0 or 1 for a digital input."""

    @property
    def end_tick(self) -> int:
        """Tick at which the next block should start."""
        return self.first_tick + self.step * len(self.values)


def pack(topic: str, block: Mapping[str, Any]) -> bytes:
    """Pack a published block for the recording."""
    kept = {key: block[key] for key in KEYS if key != "data"}
    data = np.ascontiguousarray(block["data"])
    kept |= {"topic": topic, "dtype": data.dtype.str, "data": data.tobytes()}
    return cast(bytes, msgpack.packb(kept))


class Unpacker:
    """Turns the bytes of a recording into blocks, which may extend over several packets."""

    def __init__(self) -> None:
        self._unpacker = msgpack.Unpacker(max_buffer_size=_MESSAGE_MAX_BYTES)

    def feed(self, data: bytes) -> Iterator[Block]:
        """Yield the blocks that these bytes complete.

        Raises:
            MeasurementError: the bytes are not valid blocks.
        """
        try:
            self._unpacker.feed(data)
            for message in self._unpacker:
                yield _block(message)
        except (ValueError, LookupError, TypeError, msgpack.UnpackException) as exc:
            raise MeasurementError(f"recording of a Joulescope is damaged: {exc}") from exc


def _block(message: Mapping[str, Any]) -> Block:
    raw = np.frombuffer(message["data"], np.dtype(message["dtype"]))
    is_packed = raw.dtype == np.uint8
    values = np.unpackbits(raw, bitorder="little") if is_packed else raw
    step = int(message["decimate_factor"])
    if step < 1:
        raise ValueError(f"a decimate_factor of {step}")
    return Block(
        topic=str(message["topic"]),
        first_tick=int(message["sample_id"]),
        step=step,
        tick_hz=float(message["sample_rate"]),
        values=values.astype(np.float64),
    )
