"""Decoder of power rails, whichever driver wrote their files.

    energy   a counter of micro-joules: a point is the mean since the last reading; after a long
             time it is missing if the current had another sign before
    power    a value of power
    either   with the current, which has the sign that neither has, and tells of clipping; or with
             the voltage across the shunt as well, where what the current may be is not known
    product  current and voltage, multiplied here; they may be of different conversions

A value that is the same as the last, and comes before the chip can have had a new one, is a
duplicate; one that is only the same is not.
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
"""Facts of a recording's header: a plan for each rail, and how often a chip has a new value."""
_SIGN_UPDATES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RailPlan:
    """Meaning of the files of one rail; stored with the recording."""

    kind: Literal["energy", "power", "product"]
    scales: list[float]
    """SI units in one count of each file."""
    limit_a: float | None = None
    """Current from which on the converter is at its end."""
    limit_shunt_v: float | None = None
    """Voltage across the shunt, the last of the files then, from which on it is at its end."""

    def is_at_end(self, current_a: float, last: float) -> bool:
        """Whether the converter is at its end, by the current and by the last file."""
        if self.limit_shunt_v is not None:
            return abs(last) >= self.limit_shunt_v
        return self.limit_a is not None and abs(current_a) >= self.limit_a


@dataclass(slots=True)
class RailState:
    """Rail, with its last values."""

    plan: RailPlan
    channel: int
    update_ns: int
    _last: tuple[int, list[int]] | None = None
    """Time of the last new values, and the values."""
    _last_a: float = math.nan
    """Current beside a counter at that moment."""
    _is_clipped: bool = False
    """A counter's converter was seen at its end since the last point."""

    def instant(self, time_ns: int, values: list[int]) -> Point:
        """Power as shown, or as the product of current and voltage."""
        plan = self.plan
        scaled = [value * scale for value, scale in zip(values, plan.scales, strict=True)]
        if plan.kind == "product":
            current_a, voltage_v = scaled
            power_w = current_a * voltage_v
        else:
            voltage_v = math.nan
            current_a = scaled[1] if len(scaled) > 1 else math.nan
            # The chips' register of power has no sign.
            power_w = -abs(scaled[0]) if current_a < 0 else scaled[0]
        flags = Flag.DUPLICATE if self._is_again(time_ns, values) else Flag.NONE
        if plan.is_at_end(current_a, scaled[-1]):
            flags |= Flag.SATURATED
        return Point(
            time_ns, power_w, self.channel, flags, current_a=current_a, voltage_v=voltage_v
        )

    def mean(self, time_ns: int, values: list[int]) -> Point | None:
        """Mean power since the last value of a counter; None where there is nothing new."""
        plan, last = self.plan, self._last
        # A recording from before the current was read has none beside its counter.
        end_a = values[1] * plan.scales[1] if len(values) > 1 else math.nan
        if last is None:
            if values:
                self._last, self._last_a = (time_ns, values[:1]), end_a
            return None
        last_ns, [last_count] = last
        if not values:
            # Nothing is lost by that: the next reading is the mean since the last good one.
            return Point.missing(time_ns, self.channel, last_ns)
        if len(values) > 1:
            self._is_clipped |= plan.is_at_end(end_a, values[-1] * plan.scales[-1])
        if time_ns <= last_ns or self._is_again(time_ns, values[:1]):
            return None
        flags = Flag.SATURATED if self._is_clipped else Flag.NONE
        self._is_clipped = False
        # The current is of the last conversion: in a longer time it may have turned.
        is_long = time_ns - last_ns > _SIGN_UPDATES * self.update_ns
        has_turned = is_long and (self._last_a < 0) != (end_a < 0)
        self._last_a = end_a
        passed = values[0] - last_count
        # 40 bits do not wrap in a session: where it is less, the chip began anew, and nobody
        # counted. Nothing has no direction.
        if passed < 0 or (passed and has_turned):
            return Point.missing(time_ns, self.channel, last_ns)
        energy_j = passed * (-1 if end_a < 0 else 1) * plan.scales[0]
        power_w = energy_j * NS_PER_S / (time_ns - last_ns)
        return Point(time_ns, power_w, self.channel, flags, begin_ns=last_ns)

    def _is_again(self, time_ns: int, values: list[int]) -> bool:
        """The values are the last ones, and the chip can have had no new ones."""
        last = self._last
        if last is not None and values == last[1] and time_ns - last[0] < self.update_ns:
            return True
        self._last = time_ns, values
        return False


class RailDecoder(PolledDecoder):
    """Turns counts into watts, rail by rail."""

    def __init__(self, header: Header) -> None:
        super().__init__(header)
        plans = [from_plain(plan, RailPlan) for plan in header.facts[RAILS]]
        update_ns = int(header.facts[UPDATE_NS])
        self._rails = [RailState(plan, place, update_ns) for place, plan in enumerate(plans)]

    def points(self, readings: list[Reading]) -> list[Point]:
        """A point for each rail; none of a counter that has nothing new."""
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
