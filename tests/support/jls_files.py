"""Recordings of Joulescopes, written by the vendor's pyjls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyjls import DataType, SignalType, Writer, time64

FIRST = 5000
"""Number of the first sample: a recording begins in the middle of a stream."""
UNITS = {"current": "A", "voltage": "V", "power": "W"}
Parts = Mapping[str, list[tuple[int, NDArray[Any]]]]
"""By signal: places of parts, counted from the first sample, and their samples."""


def write_jls(
    path: Path,
    *sources: Parts,
    rate_hz: int = 10_000,
    input_ratio: int = 1,
    utc: tuple[tuple[int, float], ...] = (),
    late_s: Sequence[float] = (),
) -> Path:
    """A file of these instruments.

    Args:
        path: Where.
        sources: Signals of each instrument; `gpi[n]` are 0 and 1.
        rate_hz: Samples a second.
        input_ratio: Samples of a digital input for each of the others.
        utc: Places of samples, and their times, seconds since 1970.
        late_s: By signal, how much later the last of these times is; none if nothing is said.
    """
    with Writer(str(path)) as writer:
        signals = _define(writer, sources, rate_hz, input_ratio)
        for number, (name, pieces) in enumerate(signals, 1):
            ratio = input_ratio if name.startswith("gpi") else 1
            for place, samples in pieces:
                _write(writer, number, name, (FIRST + place) * ratio, samples)
            late = late_s[number - 1] if late_s else 0.0
            for place, time_s in utc:
                later_s = late if place == utc[-1][0] else 0.0
                stamp = round((time_s + later_s - time64.EPOCH) * time64.SECOND)
                writer.utc(number, (FIRST + place) * ratio, stamp)
    return path


def _define(
    writer: Any, sources: tuple[Parts, ...], rate_hz: int, input_ratio: int
) -> list[tuple[str, list[tuple[int, NDArray[Any]]]]]:
    """All sources and signals; the signals in the order of their numbers.

    Before any sample: pyjls 0.9.7 defines a signal with Python's lock held, and waits for its own
    thread, which may be waiting for Python's lock to log a gap.
    """
    found = [(name, pieces) for parts in sources for name, pieces in parts.items()]
    number = 0
    for source_id, parts in enumerate(sources, 1):
        writer.source_def(
            source_id=source_id,
            name=f"JS220-00{source_id}",
            vendor="Jetperch",
            model="JS220",
            version="",
            serial_number=f"00{source_id}",
        )
        for name in parts:
            number += 1
            writer.signal_def(
                signal_id=number,
                source_id=source_id,
                signal_type=SignalType.FSR,
                data_type=DataType.U1 if name.startswith("gpi") else DataType.F32,
                sample_rate=rate_hz * (input_ratio if name.startswith("gpi") else 1),
                name=name,
                units=UNITS.get(name, ""),
            )
    return found


def _write(writer: Any, number: int, name: str, first: int, samples: NDArray[Any]) -> None:
    if name.startswith("gpi"):
        writer.fsr(number, first, np.packbits(samples.astype(np.uint8), bitorder="little"))
    else:
        writer.fsr_f32(number, first, samples.astype(np.float32))
