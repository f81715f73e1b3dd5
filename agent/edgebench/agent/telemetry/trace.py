"""Telemetry of a run: collected in memory, and written to disk as columns."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path


class TelemetryColumns:
    """Readings of sensors in the order of time; a reading takes 24 bytes."""

    def __init__(self) -> None:
        self._time_ns = array("q")
        self._sensor = array("q")
        self._value = array("d")

    def __len__(self) -> int:
        return len(self._value)

    def add(self, time_ns: int, first_sensor: int, values: Sequence[float]) -> None:
        """Append the values of a source, whose sensors have consecutive numbers."""
        count = len(values)
        self._time_ns.extend([time_ns] * count)
        self._sensor.extend(range(first_sensor, first_sensor + count))
        self._value.extend(values)

    @staticmethod
    def write(path: Path, traces: Iterable[TelemetryColumns]) -> None:
        """Merge traces in the order of time; write columns of times, sensors and values."""
        merged = TelemetryColumns()
        for trace in traces:
            count = len(trace)  # the last column to grow: a hung thread may still append
            merged._time_ns += trace._time_ns[:count]
            merged._sensor += trace._sensor[:count]
            merged._value += trace._value[:count]
        order = sorted(range(len(merged)), key=merged._time_ns.__getitem__)
        with path.open("wb") as file:
            for column in (merged._time_ns, merged._sensor, merged._value):
                in_order = array(column.typecode, map(column.__getitem__, order))
                if sys.byteorder == "big":
                    in_order.byteswap()
                in_order.tofile(file)
