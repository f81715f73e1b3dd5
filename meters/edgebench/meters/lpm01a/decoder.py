"""Bytes of a PowerShield to samples: either format, placed by its stamps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.arrival import ArrivalRate
from edgebench.meters.base import Flag, Header, LossReport, Packet, SampleBlock
from edgebench.meters.lpm01a.ascii import AsciiReader
from edgebench.meters.lpm01a.binary import BinaryReader
from edgebench.meters.lpm01a.datasheet import DROP_V, highest_current_a
from edgebench.meters.lpm01a.items import (
    Edge,
    End,
    ErrorMessage,
    Hole,
    Item,
    Overcurrent,
    PowerDown,
    Stamp,
    SupplyVoltage,
    Values,
)
from edgebench.meters.lpm01a.settings import EventEdge, Settings
from edgebench.meters.lpm01a.timeline import Placed, Timeline, joined
from edgebench.protocol.codec import from_plain


@dataclass(slots=True, eq=False)
class Lpm01aDecoder:
    """Holds the state between packets."""

    settings: Settings
    _reader: AsciiReader | BinaryReader = field(init=False)
    _timeline: Timeline = field(init=False)
    _arrival: ArrivalRate = field(init=False)
    _is_begun: bool = False
    """The first stamp came: what is before it is the answer to a command."""
    _saturated: int = 0
    _trouble: str | None = None
    _held: Placed | None = None
    """The last sample, until it is known whether an edge comes right behind it."""

    def __post_init__(self) -> None:
        setup = self.settings.setup
        self._reader = AsciiReader() if setup.is_ascii else BinaryReader()
        self._timeline = Timeline(setup.rate_hz, first_end=int(setup.is_energy))
        self._arrival = ArrivalRate(setup.rate_hz)

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """The samples that are complete now."""
        blocks = self._take(self._reader.feed(packet.data))
        if self._is_begun:
            # With samples that are held back a packet looks late; the one with a stamp counts.
            self._arrival.add(packet.last_rx_ns, self._timeline.next_index)
        return blocks

    def finish(self) -> list[SampleBlock]:
        """What was held back for more bytes."""
        blocks = self._take(self._reader.feed(b"", is_last=True))
        placed = self._timeline.finish()
        blocks += self._blocks(placed) if placed else []
        held, self._held = self._held, None
        return blocks + ([self._block(held, np.zeros(1, np.bool_))] if held else [])

    def loss(self) -> LossReport:
        """How complete the recording is, so far."""
        timeline = self._timeline
        return LossReport(
            received_count=timeline.received_count,
            lost_count=timeline.lost_count,
            is_ambiguous=timeline.is_ambiguous,
            desync_count=timeline.desync_count,
            gaps=tuple(timeline.gaps),
            saturated_count=self._saturated,
            rate_error_ppm=self._arrival.error_ppm(),
            rate_span_s=self._arrival.span_s(),
            trouble=self._trouble,
        )

    def _take(self, items: list[Item]) -> list[SampleBlock]:
        blocks = []
        for item in items:
            if isinstance(item, Stamp):
                self._is_begun = True
                placed = self._timeline.stamp(item)
                if placed:
                    blocks += self._blocks(placed)
            elif isinstance(item, PowerDown | ErrorMessage | End):
                self._trouble = self._trouble or _trouble(item)
            elif self._is_begun:
                self._place(item)
        return blocks

    def _place(self, item: Values | Hole | Edge | Overcurrent | SupplyVoltage) -> None:
        timeline = self._timeline
        if isinstance(item, Values):
            timeline.add(item)
        elif isinstance(item, Hole):
            timeline.add_hole(item.count)
        elif isinstance(item, Edge):
            timeline.mark_edge()
        elif isinstance(item, Overcurrent):
            timeline.mark_neighbours(Flag.SATURATED)
        else:
            timeline.standing = self._flag_of(item.voltage_v)

    def _flag_of(self, voltage_v: float) -> Flag:
        """What power computed with the voltage that was set is, at this one."""
        if self.settings.setup.is_energy:
            return Flag.NONE  # the meter multiplied by what it measures itself
        if voltage_v < self.settings.supply_v - DROP_V:
            return Flag.CLIPPED
        return Flag.SATURATED if voltage_v > self.settings.supply_v + DROP_V else Flag.NONE

    def _blocks(self, placed: Placed) -> list[SampleBlock]:
        """What is complete: the last sample is not, where the one behind it says its level."""
        if self.settings.setup.events is not EventEdge.RISING:
            return [self._block(placed, placed.is_edge)]
        waiting = joined(self._held, placed)
        self._held = waiting[-1:]
        whole = waiting[:-1]
        return [self._block(whole, waiting.is_edge[1:])] if len(whole.index) else []

    def _block(self, placed: Placed, is_marked: NDArray[np.bool_]) -> SampleBlock:
        setup, supply_v = self.settings.setup, self.settings.supply_v
        period_ns = 1_000_000_000 // setup.rate_hz
        begin_ns = placed.index * period_ns
        power_w = placed.values * (setup.rate_hz if setup.is_energy else supply_v)
        flags = placed.flags
        flags[power_w > highest_current_a(setup) * supply_v] |= np.uint8(Flag.SATURATED)
        self._saturated += int(np.count_nonzero(flags & np.uint8(Flag.SATURATED)))
        return SampleBlock(
            channel=0,
            index0=int(placed.index[0]),
            time_ns=begin_ns + period_ns if setup.is_energy else begin_ns,
            begin_ns=begin_ns if setup.is_energy else None,
            power_w=power_w,
            current_a=None if setup.is_energy else placed.values,
            digital=self._digital(is_marked),
            ranges=placed.exponents,
            flags=flags,
        )

    def _digital(self, is_marked: NDArray[np.bool_]) -> NDArray[np.uint8] | None:
        """The event input: at rest but for one sample beside each edge of the kind asked for.

        A mark is where it falls, which is between the same two samples for either kind: of a
        falling edge the sample behind is low, of a rising one the sample before is high.
        """
        events = self.settings.setup.events
        if events is None:
            return None
        at_rest = events is EventEdge.FALLING
        return np.where(is_marked, not at_rest, at_rest).astype(np.uint8)


def _trouble(item: PowerDown | ErrorMessage | End) -> str:
    if isinstance(item, ErrorMessage):
        return f"the meter says: {item.text}"
    if isinstance(item, PowerDown):
        return "the meter switched the device's supply off"
    return "the meter ended the recording by itself"


def make_decoder(header: Header) -> Lpm01aDecoder:
    """The decoder for a recording of a PowerShield.

    Raises:
        MeasurementError: the header is damaged.
    """
    return Lpm01aDecoder(from_plain(header.facts, Settings))
