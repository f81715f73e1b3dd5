"""Turns the bytes of a PowerShield, text or binary, into samples on the meter's own time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Flag, Header, LossReport, Packet, SampleBlock
from edgebench.meters.lpm01a.ascii import AsciiReader
from edgebench.meters.lpm01a.binary import BinaryReader
from edgebench.meters.lpm01a.datasheet import DROP_V, highest_current_a, supply_deviation
from edgebench.meters.lpm01a.items import (
    Edge,
    End,
    ErrorMessage,
    Hole,
    Item,
    Overcurrent,
    PowerDown,
    Stamp,
    Values,
)
from edgebench.meters.lpm01a.settings import EventEdge, Lpm01aSettings
from edgebench.meters.lpm01a.timeline import PlacedValues, StampTimeline, joined
from edgebench.meters.timeline import UniformDecoder
from edgebench.protocol.plain import from_plain

STAMP_S = 1.0
"""Interval of the time stamps. Only time stamps show how many samples were sent by a given time."""


class Lpm01aDecoder(UniformDecoder):
    """Holds back the samples of each second until the time stamp of this second arrives."""

    def __init__(self, settings: Lpm01aSettings) -> None:
        setup = settings.setup
        super().__init__(setup.rate_hz, STAMP_S)
        self.settings = settings
        self._reader = AsciiReader() if setup.is_ascii else BinaryReader()
        self._stamps = StampTimeline(self.timeline, first_end=int(setup.is_energy))
        self._is_begun = False
        """Whether the first stamp has arrived; earlier bytes are the response to a command."""
        self._trouble = supply_deviation(settings.supply_v, settings.deviating_v)
        self._edge_number: int | None = None
        """Event number of the last edge at the event input."""
        self._held: PlacedValues | None = None
        """The last sample, held back until it is known whether an edge of the event input follows
        it."""

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """Return the samples that this packet completes."""
        blocks = self._take(self._reader.feed(packet.data))
        if self._is_begun:
            # A packet looks late while samples are held back; the packet with a stamp counts.
            self.timeline.arrive(packet.last_rx_ns)
        return blocks

    def finish(self) -> list[SampleBlock]:
        """Return the samples that were held back until the next time stamp."""
        blocks = self._take(self._reader.feed(b"", is_last=True))
        placed = self._stamps.finish()
        blocks += self._blocks(placed) if placed else []
        held, self._held = self._held, None
        return blocks + ([self._block(held, np.zeros(1, np.bool_))] if held else [])

    def loss(self) -> LossReport:
        """Completeness of the recording so far."""
        return replace(super().loss(), trouble=self._trouble)

    def _take(self, items: list[Item]) -> list[SampleBlock]:
        blocks, stamps = [], self._stamps
        for item in items:
            if isinstance(item, Stamp):
                self._is_begun = True
                if placed := stamps.stamp(item):
                    blocks += self._blocks(placed)
            elif isinstance(item, PowerDown | ErrorMessage | End):
                self._trouble = self._trouble or _trouble(item)
            elif not self._is_begun:
                continue
            elif isinstance(item, Values):
                stamps.add(item)
            elif isinstance(item, Hole):
                stamps.add_hole(item.count)
            elif isinstance(item, Edge):
                self._check_number(item)
                stamps.mark_edge()
            elif isinstance(item, Overcurrent):
                stamps.mark_neighbours(Flag.SATURATED)
            else:
                stamps.standing = self._flag_of(item.voltage_v)
        return blocks

    def _check_number(self, edge: Edge) -> None:
        """Detect a lost edge, after which windows would begin and end at wrong edges.

        Source: MLPerf Tiny, benchmark/runner: event counters must be consecutive.
        """
        last, self._edge_number = self._edge_number, edge.number
        if last is None:
            return
        is_wrapped = edge.number == 0 and last >= 99 and set(str(last)) == {"9"}
        if edge.number != last + 1 and not is_wrapped:
            self._trouble = self._trouble or (
                f"edge {edge.number} of input D7 came after edge {last}: at least one edge was lost"
            )

    def _flag_of(self, voltage_v: float) -> Flag:
        """Flag of the powers that are measured while the meter reports this supply voltage.

        Powers are computed with the configured voltage, not with this reported voltage.
        """
        if self.settings.setup.is_energy:
            return Flag.NONE  # the meter uses the voltage that it measures
        if voltage_v < self.settings.supply_v - DROP_V:
            return Flag.CLIPPED
        return Flag.SATURATED if voltage_v > self.settings.supply_v + DROP_V else Flag.NONE

    def _blocks(self, placed: PlacedValues) -> list[SampleBlock]:
        """Make blocks of complete samples; if rising edges are selected, hold back the last sample.

        For rising edges, the level of a sample depends on whether an edge follows the sample
        directly.
        """
        if self.settings.setup.events is not EventEdge.RISING:
            return [self._block(placed, placed.is_edge)]
        waiting = joined(self._held, placed)
        self._held = waiting[-1:]
        whole = waiting[:-1]
        return [self._block(whole, waiting.is_edge[1:])] if len(whole.index) else []

    def _block(self, placed: PlacedValues, is_marked: NDArray[np.bool_]) -> SampleBlock:
        setup, supply_v = self.settings.setup, self.settings.supply_v
        begin_ns = self.timeline.time_ns(placed.index)
        power_w = placed.values * (setup.rate_hz if setup.is_energy else supply_v)
        flags = placed.flags
        flags[power_w > highest_current_a(setup) * supply_v] |= np.uint8(Flag.SATURATED)
        self.timeline.count(flags)
        return SampleBlock(
            channel=0,
            index0=int(placed.index[0]),
            time_ns=self.timeline.time_ns(placed.index + 1) if setup.is_energy else begin_ns,
            begin_ns=begin_ns if setup.is_energy else None,
            power_w=power_w,
            current_a=None if setup.is_energy else placed.values,
            digital=self._digital(is_marked),
            ranges=placed.exponents,
            flags=flags,
        )

    def _digital(self, is_marked: NDArray[np.bool_]) -> NDArray[np.uint8] | None:
        """Level of the event input.

        The event input is at rest, except for a single sample at each selected edge.

        Either kind of edge appears as a step from high to low: the sample right after a falling
        edge is low, and the sample right before a rising edge is high.
        """
        events = self.settings.setup.events
        if events is None:
            return None
        at_rest = events is EventEdge.FALLING
        return np.where(is_marked, not at_rest, at_rest).astype(np.uint8)


def _trouble(item: PowerDown | ErrorMessage | End) -> str:
    if isinstance(item, ErrorMessage):
        return f"error reported by the meter: {item.text}"
    if isinstance(item, PowerDown):
        return "the meter switched the device's supply off"
    return "the meter ended the recording on its own"


def make_decoder(header: Header) -> Lpm01aDecoder:
    """Create the decoder of a PowerShield's recording."""
    return Lpm01aDecoder(from_plain(header.facts, Lpm01aSettings))
