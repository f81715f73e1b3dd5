"""Conversion of device time to meter time, with a bound on the error."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.integrate import Nanoseconds
from edgebench.host.result.energy import SyncMethod
from edgebench.meters.arrival import ArrivalLine
from edgebench.protocol.clock import ClockModel


@dataclass(frozen=True, slots=True)
class ClockLine:
    """Meter time = device time + offset + slope · (device time - reference)."""

    reference_ns: int
    offset_ns: float
    slope: float = 0.0

    def to_meter(self, device_ns: Any) -> NDArray[np.int64]:
        """Device times as meter times, same shape."""
        times = np.asarray(device_ns, np.int64)
        moved = self.offset_ns + self.slope * (times - self.reference_ns)
        meter_ns: NDArray[np.int64] = times + np.rint(moved).astype(np.int64)
        return meter_ns

    def to_device(self, meter_ns: Any) -> NDArray[np.int64]:
        """Meter times as device times, same shape; the inverse of `to_meter`, to 1 ns."""
        times = np.asarray(meter_ns, np.int64)
        since_ns = times - self.reference_ns - round(self.offset_ns)
        device_ns: NDArray[np.int64] = self.reference_ns + np.rint(
            since_ns / (1 + self.slope)
        ).astype(np.int64)
        return device_ns

    def shifted(self, by_ns: float) -> ClockLine:
        """The same line, with `by_ns` added to its offset."""
        return replace(self, offset_ns=self.offset_ns + by_ns)


@dataclass(frozen=True, slots=True)
class Alignment:
    """Result of an alignment method."""

    method: SyncMethod
    line: ClockLine
    error_ns: float
    """Bound on the error of any converted time inside the run."""
    residual_ns: float | None = None
    """Standard deviation of the marks' distances from the line; None if there are no marks."""
    mark_count: int = 0
    rate_error: float | None = None
    """Bound on the error of a slope that was taken from another method; None if the method
    determined the slope itself."""


def host_line(clock: ClockModel) -> ClockLine:
    """Line from the device's clock to the host's."""
    slope = -clock.slope / (1 + clock.slope)
    return ClockLine(clock.reference_ns + round(clock.offset_ns), -clock.offset_ns, slope)


def after_arrival(line: ClockLine, arrival: ArrivalLine) -> ClockLine:
    """Line that converts device time to meter time.

    The line combines `line` with the inverse of `arrival`. `line` converts device time to host
    time. `arrival` converts meter time to host time: host = meter + offset + slope · meter. So
    meter = (host - offset) / (1 + slope).
    """
    host_ns = line.reference_ns + line.offset_ns
    meter_ns = (host_ns - arrival.offset_ns) / (1 + arrival.slope)
    slope = (1 + line.slope) / (1 + arrival.slope) - 1
    return ClockLine(line.reference_ns, meter_ns - line.reference_ns, slope)


def fit_line(device_ns: Nanoseconds, meter_ns: Nanoseconds, *, slope: float | None) -> ClockLine:
    """Fit a line to marks by least squares; if the slope is given, only the offset is fitted.

    Args:
        device_ns: Times of the marks, shape (n,), n >= 1. To fit a slope, two marks at different
            times are needed.
        meter_ns: The same marks by the meter's clock, shape (n,).
        slope: Known slope; if None, the slope is fitted, too.
    """
    reference_ns = round(float(device_ns.mean()))
    x = (device_ns - reference_ns).astype(np.float64)
    y = (meter_ns - device_ns).astype(np.float64)
    if slope is None:
        slope = float(np.dot(x - x.mean(), y - y.mean()) / np.dot(x - x.mean(), x - x.mean()))
    return ClockLine(reference_ns, float(y.mean() - slope * x.mean()), slope)


def residuals_ns(
    line: ClockLine, device_ns: Nanoseconds, meter_ns: Nanoseconds
) -> NDArray[np.float64]:
    """Time by which each mark is later than the line, shape (n,)."""
    off_ns: NDArray[np.float64] = (meter_ns - line.to_meter(device_ns)).astype(np.float64)
    return off_ns
