"""Decoder of power rails, for all drivers that read rails from files.

    energy   a counter of microjoules; a point is the mean power since the last reading
    power    a power value
    product  current and voltage, which are multiplied here; the two values may stem from different
             conversions

If energy or power is read, the current is read as well. The current has the sign, and shows
clipping. After a long interval between two readings of a counter, the point is missing if the sign
of the current has changed. If the current limit is unknown, the voltage across the shunt is also
read. Clipping is then detected by this voltage instead of by the current.

A value is a duplicate if it equals the previous value and was read too early for the chip to have a
new value. An equal value that was read later is not a duplicate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from edgebench.meters.base import Flag, Header
from edgebench.meters.file_meter import NS_PER_S
from edgebench.meters.polled import Point, PolledDecoder, Reading, number
from edgebench.protocol.plain import from_plain

RAILS, UPDATE_NS = "rails", "update_ns"
"""Names of two facts in a recording's header: the plan of each rail, and the chips' update
interval."""
_SIGN_UPDATES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RailPlan:
    """Meaning of the files of a rail. The plan is stored with the recording."""

    kind: Literal["energy", "power", "product"]
    scales: list[float]
    """For each file, the factor from its number to the SI unit."""
    limit_a: float | None = None
    """Current at which the converter saturates; None: unknown."""
    limit_shunt_v: float | None = None
    """Voltage across the shunt at which the converter saturates. The value of the last file is
    compared with this voltage. None if no file contains the voltage across the shunt."""

    def is_at_end(self, current_a: float, last: float) -> bool:
        """Whether the current or the last file's value shows that the converter is saturated."""
        if self.limit_shunt_v is not None:
            return abs(last) >= self.limit_shunt_v
        return self.limit_a is not None and abs(current_a) >= self.limit_a


@dataclass(slots=True)
class RailState:
    """A rail with its last values."""

    plan: RailPlan
    channel: int
    update_ns: int
    _last: tuple[int, list[int]] | None = None
    """Time and values of the last update."""
    _last_a: float = math.nan
    """Current that was read together with the counter at the last update."""
    _is_clipped: bool = False
    """Whether the counter's converter was saturated at any reading since the last point."""

    def instant(self, time_ns: int, values: list[int]) -> Point:
        """Make a point from a power, or from a current and a voltage."""
        plan = self.plan
        scaled = [value * scale for value, scale in zip(values, plan.scales, strict=True)]
        if plan.kind == "product":
            current_a, voltage_v = scaled
            power_w = current_a * voltage_v
        else:
            voltage_v = math.nan
            current_a = scaled[1] if len(scaled) > 1 else math.nan
            # The power register of the chips has no sign.
            power_w = -abs(scaled[0]) if current_a < 0 else scaled[0]
        flags = Flag.DUPLICATE if self._is_again(time_ns, values) else Flag.NONE
        if plan.is_at_end(current_a, scaled[-1]):
            flags |= Flag.SATURATED
        return Point(
            time_ns, power_w, self.channel, flags, current_a=current_a, voltage_v=voltage_v
        )

    def mean(self, time_ns: int, values: list[int]) -> Point | None:
        """Mean power since the last value of a counter; None if there is no new value."""
        plan, last = self.plan, self._last
        # Recordings made before the current was read contain only the counter.
        end_a = values[1] * plan.scales[1] if len(values) > 1 else math.nan
        if last is None:
            if values:
                self._last, self._last_a = (time_ns, values[:1]), end_a
            return None
        last_ns, [last_count] = last
        if not values:
            # No energy is lost: the next reading is the mean since the last good reading.
            return Point.missing(time_ns, self.channel, last_ns)
        if len(values) > 1:
            self._is_clipped |= plan.is_at_end(end_a, values[-1] * plan.scales[-1])
        if time_ns <= last_ns or self._is_again(time_ns, values[:1]):
            return None
        flags = Flag.SATURATED if self._is_clipped else Flag.NONE
        self._is_clipped = False
        # The current is from the last conversion: over a longer interval its sign may have changed.
        is_long = time_ns - last_ns > _SIGN_UPDATES * self.update_ns
        has_turned = is_long and (self._last_a < 0) != (end_a < 0)
        self._last_a = end_a
        passed = values[0] - last_count
        # 40 bits do not wrap in a session: a lower count means that the chip restarted, and the
        # energy in between is unknown. A count of zero has no direction.
        if passed < 0 or (passed and has_turned):
            return Point.missing(time_ns, self.channel, last_ns)
        energy_j = passed * (-1 if end_a < 0 else 1) * plan.scales[0]
        power_w = energy_j * NS_PER_S / (time_ns - last_ns)
        return Point(time_ns, power_w, self.channel, flags, begin_ns=last_ns)

    def _is_again(self, time_ns: int, values: list[int]) -> bool:
        """Whether the values are unchanged, and were read before the chip can have new values."""
        last = self._last
        if last is not None and values == last[1] and time_ns - last[0] < self.update_ns:
            return True
        self._last = time_ns, values
        return False


class RailDecoder(PolledDecoder):
    """Turns counts into power per rail."""

    def __init__(self, header: Header) -> None:
        super().__init__(header)
        plans = [from_plain(plan, RailPlan) for plan in header.facts[RAILS]]
        update_ns = int(header.facts[UPDATE_NS])
        self._rails = [RailState(plan, place, update_ns) for place, plan in enumerate(plans)]

    def points(self, readings: list[Reading]) -> list[Point]:
        """Return a point per rail, except for counters without a new value."""
        points: list[Point] = []
        first = 0
        for rail in self._rails:
            rail_readings = readings[first : first + len(rail.plan.scales)]
            first += len(rail_readings)
            time_ns = sum([reading[0] for reading in rail_readings]) // len(rail_readings)
            values = [
                value for _, content in rail_readings if (value := number(content)) is not None
            ]
            is_whole = len(values) == len(rail_readings)
            if rail.plan.kind == "energy":
                mean = rail.mean(time_ns, values if is_whole else [])
                points += [] if mean is None else [mean]
            elif is_whole:
                points.append(rail.instant(time_ns, values))
            else:
                points.append(Point.missing(time_ns, rail.channel))
        return points
