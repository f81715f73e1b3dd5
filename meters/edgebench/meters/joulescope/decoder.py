"""Turns blocks of a Joulescope into samples of power, current, voltage and digital inputs.

The instrument computes power at its own rate, before decimation. So the samples of power define the
timeline, and the values of the other signals at the same times are looked up. The other signals
arrive in separate blocks, so a block of power waits for them, at most half a second.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from edgebench.meters.base import Flag, Gap, Header, Packet, SampleBlock
from edgebench.meters.joulescope.blocks import (
    CURRENT,
    POWER,
    VOLTAGE,
    Block,
    Unpacker,
    input_topic,
)
from edgebench.meters.joulescope.signal_blocks import SignalBlocks
from edgebench.meters.timeline import UniformDecoder
from edgebench.protocol.plain import from_plain

LIMIT_A, LIMIT_V = 10.0, 15.0
"""Upper ends of the highest ranges of current and voltage. These limits are assumed for all models,
so check the data sheet of your instrument."""

_HOLD_S = 0.5
_NS_PER_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class JoulescopeSettings:
    """Settings that are stored as facts in a recording's header."""

    input_count: int
    """Number of digital inputs recorded."""
    limit_a: float
    limit_v: float
    """Limits of the highest ranges of current and voltage."""


class JoulescopeDecoder(UniformDecoder):
    """Holds back blocks of power until the other signals of the same time have arrived."""

    def __init__(self, settings: JoulescopeSettings, rate_hz: float) -> None:
        super().__init__(rate_hz)
        self.settings = settings
        inputs = [input_topic(place) for place in range(settings.input_count)]
        self._signals = {topic: SignalBlocks() for topic in (CURRENT, VOLTAGE, *inputs)}
        self._unpacker = Unpacker()
        self._waiting: deque[tuple[Block, int]] = deque()
        """Blocks of power that wait for other signals, and their arrival times."""
        self._origin: int | None = None
        """Instrument's sample number (tick) of the first sample."""
        self._next_tick = 0

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """Return the samples that this packet completes."""
        has_power = False
        for block in self._unpacker.feed(packet.data):
            if block.topic == POWER:
                has_power |= self._take(block, packet.last_rx_ns)
            elif block.topic in self._signals:
                self._signals[block.topic].add(block)
        if has_power:
            self.timeline.arrive(packet.last_rx_ns)
        return self._ready(is_last=False)

    def finish(self) -> list[SampleBlock]:
        """Return the samples of power that still wait for current, voltage or inputs."""
        return self._ready(is_last=True)

    def _take(self, block: Block, rx_ns: int) -> bool:
        """Queue a block of power; if it does not continue the stream, drop it and return False."""
        if self._origin is None:
            self._origin = self._next_tick = block.first_tick
        lost, rest = divmod(block.first_tick - self._next_tick, block.step)
        if lost < 0 or rest or not len(block.values):
            # The block overlaps earlier ones, or lies between two samples: not part of this stream.
            self.timeline.desync_count += 1
            return False
        if lost:
            ticks = self._next_tick - block.step, block.first_tick
            ns_per_tick = _NS_PER_S / block.tick_hz
            begin_ns, end_ns = (round((tick - self._origin) * ns_per_tick) for tick in ticks)
            self.timeline.lose_in(Gap(begin_ns, end_ns, lost, "blocks lost"))
        self.timeline.place(len(block.values))
        self._next_tick = block.end_tick
        self._waiting.append((block, rx_ns))
        return True

    def _ready(self, *, is_last: bool) -> list[SampleBlock]:
        blocks = []
        while self._waiting and (is_last or self._is_complete(self._waiting[0][0])):
            blocks.append(self._block(*self._waiting.popleft()))
        return blocks

    def _is_complete(self, block: Block) -> bool:
        held_s = (self._next_tick - block.end_tick) / block.tick_hz
        return held_s > _HOLD_S or all(
            signal.has(block.end_tick) for signal in self._signals.values()
        )

    def _block(self, power: Block, came_ns: int) -> SampleBlock:
        assert self._origin is not None, "set by the first block of power"
        count = len(power.values)
        current_a, voltage_v = self._signals[CURRENT].at(power), self._signals[VOLTAGE].at(power)
        digital, is_carried = np.zeros(count, np.uint8), np.zeros(count, np.bool_)
        for place in range(self.settings.input_count):
            bits, carried = self._signals[input_topic(place)].bits_at(power)
            digital |= bits << np.uint8(place)
            is_carried |= carried
        is_missing = ~np.isfinite(power.values)
        is_beyond = np.abs(current_a) >= self.settings.limit_a
        is_beyond |= np.abs(voltage_v) >= self.settings.limit_v
        flags = np.zeros(count, np.uint8)
        flags[is_missing] |= np.uint8(Flag.MISSING)
        flags[is_beyond] |= np.uint8(Flag.SATURATED)
        flags[is_carried] |= np.uint8(Flag.INTERPOLATED)
        self.timeline.count(flags)
        first = power.first_tick - self._origin
        ticks = first + power.step * np.arange(count)
        return SampleBlock(
            channel=0,
            index0=first // power.step,
            time_ns=np.rint(ticks * (_NS_PER_S / power.tick_hz)).astype(np.int64),
            power_w=np.where(is_missing, np.nan, power.values),
            current_a=current_a,
            voltage_v=voltage_v,
            digital=digital if self.settings.input_count else None,
            flags=flags,
            came_ns=came_ns,
        )


def make_decoder(header: Header) -> JoulescopeDecoder:
    """Create the decoder of a Joulescope's recording."""
    settings = from_plain(header.facts, JoulescopeSettings)
    return JoulescopeDecoder(settings, header.capability.rate_hz)
