"""Blocks of a Joulescope to samples: power with the current, voltage and inputs of its moments.

Power is multiplied in the instrument, at its own rate, before it is decimated: it is the master,
and the other signals are looked up at its ticks. They come in blocks of their own, so a block of
power waits for them, for half a second at most.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.arrival import ArrivalRate
from edgebench.meters.base import Flag, Gap, Header, LossReport, Packet, SampleBlock
from edgebench.meters.joulescope.blocks import (
    CURRENT,
    POWER,
    VOLTAGE,
    Block,
    Unpacker,
    input_topic,
)
from edgebench.meters.joulescope.lanes import Lane
from edgebench.protocol.codec import from_plain

_HOLD_S = 0.5
_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The facts of a recording's header."""

    input_count: int
    """Digital inputs that are recorded."""
    limit_a: float
    """Beyond these it does not measure."""
    limit_v: float


@dataclass(slots=True, eq=False)
class JoulescopeDecoder:
    """Holds the state between packets."""

    settings: Settings
    rate_hz: float
    _unpacker: Unpacker = field(default_factory=Unpacker)
    _arrival: ArrivalRate = field(init=False)
    _lanes: dict[str, Lane] = field(init=False)
    _waiting: deque[tuple[Block, int]] = field(default_factory=deque[tuple[Block, int]])
    """Power that waits for its other signals, and when it came."""
    _origin: int | None = None
    """Tick of the first sample."""
    _next_tick: int = 0
    _received: int = 0
    _lost: int = 0
    _missing: int = 0
    _saturated: int = 0
    _desyncs: int = 0
    _gaps: list[Gap] = field(default_factory=list[Gap])

    def __post_init__(self) -> None:
        self._arrival = ArrivalRate(self.rate_hz)
        inputs = [input_topic(place) for place in range(self.settings.input_count)]
        self._lanes = {topic: Lane() for topic in (CURRENT, VOLTAGE, *inputs)}

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """The samples that are complete now."""
        has_power = False
        for block in self._unpacker.feed(packet.data):
            if block.topic == POWER:
                has_power |= self._take(block, packet.last_rx_ns)
            elif block.topic in self._lanes:
                self._lanes[block.topic].add(block)
        if has_power and self._origin is not None:
            newest, _ = self._waiting[-1]
            self._arrival.add(packet.last_rx_ns, (newest.end_tick - self._origin) // newest.step)
        return self._ready(is_last=False)

    def finish(self) -> list[SampleBlock]:
        """What waited for other signals."""
        return self._ready(is_last=True)

    def loss(self) -> LossReport:
        """How complete the recording is, so far."""
        waiting = sum(len(block.values) for block, _ in self._waiting)
        return LossReport(
            received_count=self._received + waiting - self._missing,
            lost_count=self._lost + self._missing,
            desync_count=self._desyncs,
            gaps=tuple(self._gaps),
            saturated_count=self._saturated,
            rate_error_ppm=self._arrival.error_ppm(),
            rate_span_s=self._arrival.span_s(),
        )

    def _take(self, block: Block, rx_ns: int) -> bool:
        """Put a block of power in line, unless it is of a time that has been."""
        if self._origin is None:
            self._origin = self._next_tick = block.first_tick
        lost, rest = divmod(block.first_tick - self._next_tick, block.step)
        if lost < 0 or rest or not len(block.values):
            self._desyncs += 1  # a time that was, or is between two samples: not of this stream
            return False
        if lost:
            begin, end = self._next_tick - block.step, block.first_tick
            self._gaps.append(
                Gap(self._time_ns(begin, block), self._time_ns(end, block), lost, "blocks lost")
            )
            self._lost += lost
        self._next_tick = block.end_tick
        self._waiting.append((block, rx_ns))
        return True

    def _ready(self, *, is_last: bool) -> list[SampleBlock]:
        found = []
        while self._waiting and (is_last or self._is_complete(self._waiting[0][0])):
            found.append(self._block(*self._waiting.popleft()))
        return found

    def _is_complete(self, block: Block) -> bool:
        held_s = (self._next_tick - block.end_tick) / block.tick_hz
        return held_s > _HOLD_S or all(lane.has(block.end_tick) for lane in self._lanes.values())

    def _block(self, power: Block, came_ns: int) -> SampleBlock:
        assert self._origin is not None, "a block of power sets it"
        current_a, voltage_v = self._lanes[CURRENT].at(power), self._lanes[VOLTAGE].at(power)
        digital, is_carried = self._digital(power)
        is_missing = ~np.isfinite(power.values)
        is_beyond = np.abs(current_a) >= self.settings.limit_a
        is_beyond |= np.abs(voltage_v) >= self.settings.limit_v
        flags = np.zeros(len(power.values), np.uint8)
        flags[is_missing] |= np.uint8(Flag.MISSING)
        flags[is_beyond] |= np.uint8(Flag.SATURATED)
        flags[is_carried] |= np.uint8(Flag.INTERPOLATED)
        self._received += len(power.values)
        self._missing += int(np.count_nonzero(is_missing))
        self._saturated += int(np.count_nonzero(is_beyond))
        ticks = power.first_tick - self._origin + power.step * np.arange(len(power.values))
        return SampleBlock(
            channel=0,
            index0=(power.first_tick - self._origin) // power.step,
            time_ns=np.rint(ticks * (_NS_PER_S / power.tick_hz)).astype(np.int64),
            power_w=np.where(is_missing, np.nan, power.values),
            current_a=current_a,
            voltage_v=voltage_v,
            digital=digital,
            flags=flags,
            came_ns=came_ns,
        )

    def _digital(self, power: Block) -> tuple[NDArray[np.uint8] | None, NDArray[np.bool_]]:
        count = len(power.values)
        bits, is_carried = np.zeros(count, np.uint8), np.zeros(count, np.bool_)
        for place in range(self.settings.input_count):
            values, carried = self._lanes[input_topic(place)].bits_at(power)
            bits |= values << np.uint8(place)
            is_carried |= carried
        return (bits if self.settings.input_count else None), is_carried

    def _time_ns(self, tick: int, block: Block) -> int:
        assert self._origin is not None, "a block of power sets it"
        return round((tick - self._origin) * _NS_PER_S / block.tick_hz)


def make_decoder(header: Header) -> JoulescopeDecoder:
    """The decoder for a recording of a Joulescope.

    Raises:
        MeasurementError: the header is damaged.
    """
    return JoulescopeDecoder(from_plain(header.facts, Settings), header.capability.rate_hz)
