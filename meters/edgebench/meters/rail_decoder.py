"""What the files of a power rail say, whatever driver wrote them.

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
from edgebench.protocol.codec import from_plain

RAILS, UPDATE_NS = "rails", "update_ns"
"""Facts of a recording's header: a plan for each rail, and how often a chip has a new value."""
_SIGN_UPDATES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class RailPlan:
    """How to read the files of one rail; stored with the recording."""

    kind: Literal["energy", "power", "product"]
    scales: list[float]
    """SI units in one count of each file."""
    limit_a: float | None = None
    """Current from which on the converter is at its end."""
    limit_shunt_v: float | None = None
    """The same of the voltage across the shunt, which is the last of the files then."""

    def is_at_end(self, current_a: float, last: float) -> bool:
        """Whether the converter is, by the current and by what the last file says."""
        if self.limit_shunt_v is not None:
            return abs(last) >= self.limit_shunt_v
        return self.limit_a is not None and abs(current_a) >= self.limit_a


class RailDecoder(PolledDecoder):
    """Counts to watts, rail by rail."""

    def __init__(self, header: Header) -> None:
        super().__init__(header)
        self._plans = [from_plain(plan, RailPlan) for plan in header.facts[RAILS]]
        self._update_ns = int(header.facts[UPDATE_NS])
        self._last: list[tuple[int, list[int]] | None] = [None] * len(self._plans)
        """When the values last were new, and what they were."""
        self._last_a = [math.nan] * len(self._plans)
        """The current beside a counter at that moment."""
        self._is_clipped = [False] * len(self._plans)
        """Whether a counter's converter was seen at its end, since the last point."""

    def points(self, readings: list[Reading]) -> list[Point]:
        """A point for each rail; none of a counter that has nothing new."""
        found: list[Point] = []
        first = 0
        for channel, plan in enumerate(self._plans):
            mine = readings[first : first + len(plan.scales)]
            first += len(mine)
            time_ns = sum([reading[0] for reading in mine]) // len(mine)
            read = [value for _, content in mine if (value := number(content)) is not None]
            if plan.kind == "energy":
                mean = self._mean(channel, time_ns, read if len(read) == len(mine) else [])
                found += [] if mean is None else [mean]
            elif len(read) < len(mine):
                found.append(Point.missing(time_ns, channel))
            else:
                found.append(self._instant(channel, time_ns, read))
        return found

    def _instant(self, channel: int, time_ns: int, values: list[int]) -> Point:
        plan = self._plans[channel]
        scaled = [value * scale for value, scale in zip(values, plan.scales, strict=True)]
        if plan.kind == "product":
            current_a, voltage_v = scaled
            power_w = current_a * voltage_v
        else:
            voltage_v = math.nan
            current_a = scaled[1] if len(scaled) > 1 else math.nan
            # The chips' register of power has no sign.
            power_w = -abs(scaled[0]) if current_a < 0 else scaled[0]
        flags = Flag.DUPLICATE if self._is_again(channel, time_ns, values) else Flag.NONE
        if plan.is_at_end(current_a, scaled[-1]):
            flags |= Flag.SATURATED
        return Point(
            channel=channel,
            time_ns=time_ns,
            power_w=power_w,
            flags=flags,
            current_a=current_a,
            voltage_v=voltage_v,
        )

    def _is_again(self, channel: int, time_ns: int, values: list[int]) -> bool:
        last = self._last[channel]
        if last is not None and values == last[1] and time_ns - last[0] < self._update_ns:
            return True
        self._last[channel] = time_ns, values
        return False

    def _mean(self, channel: int, time_ns: int, values: list[int]) -> Point | None:
        last = self._last[channel]
        if last is None:
            if values:
                self._last[channel] = time_ns, values[:1]
                self._last_a[channel] = self._current_a(channel, values)
            return None
        if not values:
            # Nothing is lost by that: the next reading is the mean since the last good one.
            return Point.missing(time_ns, channel, last[0])
        self._watch_counter(channel, values)
        if time_ns <= last[0] or self._is_again(channel, time_ns, values[:1]):
            return None
        flags = Flag.SATURATED if self._is_clipped[channel] else Flag.NONE
        self._is_clipped[channel] = False
        sign = self._sign(channel, time_ns - last[0], values)
        passed = values[0] - last[1][0]
        # 40 bits do not wrap in a session: where it is less, the chip began anew, and nobody
        # counted. Nothing has no direction.
        if passed < 0 or (passed and sign is None):
            return Point.missing(time_ns, channel, last[0])
        energy_j = passed * (sign or 1) * self._plans[channel].scales[0]
        return Point(
            channel=channel,
            time_ns=time_ns,
            begin_ns=last[0],
            power_w=energy_j * NS_PER_S / (time_ns - last[0]),
            flags=flags,
        )

    def _sign(self, channel: int, passed_ns: int, values: list[int]) -> int | None:
        """That of the energy since the last value; None where nobody knows.

        The current is of the last conversion: in a longer time it may have turned.
        """
        begin_a, end_a = self._last_a[channel], self._current_a(channel, values)
        self._last_a[channel] = end_a
        is_long = passed_ns > _SIGN_UPDATES * self._update_ns
        if is_long and (begin_a < 0) != (end_a < 0):
            return None
        return -1 if end_a < 0 else 1

    def _current_a(self, channel: int, values: list[int]) -> float:
        """Beside a counter; NaN in a recording from before it was read."""
        return values[1] * self._plans[channel].scales[1] if len(values) > 1 else math.nan

    def _watch_counter(self, channel: int, values: list[int]) -> None:
        """Note whether its converter is at its end."""
        if len(values) > 1:
            plan, current_a = self._plans[channel], self._current_a(channel, values)
            self._is_clipped[channel] |= plan.is_at_end(current_a, values[-1] * plan.scales[-1])
