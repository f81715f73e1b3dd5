"""Turns the lines of sigrok-cli into samples.

uniform   a device with a sample rate. The values of each channel are counted, and the rate
          determines their times on the device's clock.
paced     any other device. A round has a reading of each channel. The time of a round is the
          arrival time of its last reading, because the times of measurement are unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from edgebench.meters.base import Decoder, Flag, Floats, Gap, Header, Packet, SampleBlock
from edgebench.meters.sigrok.readings import readings_of, values_of
from edgebench.meters.timeline import UniformDecoder
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.plain import from_plain

LATE_ROUNDS = 2.5
"""Readings count as lost if more than this many intervals lie between two rounds."""
HELD_MAX_S = 30.0
"""Maximum time for which values of one channel wait for the values of another channel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SigrokSettings:
    """Settings that are stored as facts in a recording's header."""

    is_paced: bool
    power: str | None = None
    current: str | None = None
    voltage: str | None = None
    """Names of the channels of power, current and voltage; None: not measured."""
    supply_v: float | None = None
    """Voltage of the device, if no channel measures it."""
    shunt_ohm: float | None = None
    """Resistor across which the channel of current measures a voltage. None if this channel
    measures a current directly."""

    @property
    def channels(self) -> dict[str, str]:
        """Maps the name of each channel in use to its unit."""
        current_unit = "V" if self.shunt_ohm else "A"
        quantities = ((self.power, "W"), (self.voltage, "V"), (self.current, current_unit))
        return {name: unit for name, unit in quantities if name is not None}


@dataclass(frozen=True, slots=True, eq=False)
class _Quantities:
    """Values of samples, shape (n,); unreadable values are NaN and have a flag."""

    power_w: Floats
    current_a: Floats | None
    voltage_v: Floats | None
    flags: np.ndarray[tuple[int], np.dtype[np.uint8]]


def _quantities(settings: SigrokSettings, values: dict[str, Floats]) -> _Quantities:
    """Compute quantities from the values of each channel, each of shape (n,)."""
    every = np.stack(list(values.values()))
    is_beyond = np.isinf(every).any(axis=0)
    is_missing = ~np.isfinite(every).all(axis=0)
    flags = is_missing * np.uint8(Flag.MISSING) | is_beyond * np.uint8(Flag.SATURATED)
    known: dict[str, Floats] = {
        name: np.where(is_missing, np.nan, value) for name, value in values.items()
    }
    voltage_v = known.get(settings.voltage or "")
    current_a = known.get(settings.current or "")
    power_w = known.get(settings.power or "")
    if current_a is not None:
        current_a = current_a / (settings.shunt_ohm or 1.0)
        supply_v = math.nan if settings.supply_v is None else settings.supply_v
        power_w = current_a * (supply_v if voltage_v is None else voltage_v)
    assert power_w is not None, "make_decoder rejects this case"
    return _Quantities(power_w, current_a, voltage_v, flags.astype(np.uint8))


class UniformSigrokDecoder(UniformDecoder):
    """Counts the values of each channel; a sample is complete when each channel has its value."""

    def __init__(self, header: Header, settings: SigrokSettings) -> None:
        super().__init__(header.capability.rate_hz)
        self._is_averaging = header.capability.is_averaging
        self._settings = settings
        self._rest = b""
        self._waiting: dict[str, list[float]] = {name: [] for name in settings.channels}

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """Return the samples that this packet completes."""
        text = self._rest + packet.data
        end = text.rfind(b"\n") + 1
        text, self._rest = text[:end], text[end:]
        for name, unit in self._settings.channels.items():
            self._waiting[name] += values_of(text, name, unit)
        counts = {name: len(values) for name, values in self._waiting.items()}
        count, most = min(counts.values()), max(counts.values())
        if most - count > HELD_MAX_S * self.timeline.rate_hz:
            silent = min(counts, key=lambda name: counts[name])
            raise MeasurementError(f"channel {silent} sent nothing for {HELD_MAX_S:g} s")
        if not count:
            return []
        block = self._block(
            {name: np.array(values[:count]) for name, values in self._waiting.items()}
        )
        for values in self._waiting.values():
            del values[:count]
        self.timeline.arrive(packet.last_rx_ns)
        return [block]

    def _block(self, values: dict[str, Floats]) -> SampleBlock:
        quantities = _quantities(self._settings, values)
        places = self.timeline.place(len(quantities.power_w))
        self.timeline.count(quantities.flags)
        begin_ns, end_ns = self.timeline.interval_ns(places)
        return SampleBlock(
            channel=0,
            index0=int(places[0]),
            begin_ns=begin_ns if self._is_averaging else None,
            time_ns=end_ns if self._is_averaging else begin_ns,
            power_w=quantities.power_w,
            current_a=quantities.current_a,
            voltage_v=quantities.voltage_v,
            flags=quantities.flags,
        )


class PacedSigrokDecoder(UniformDecoder):
    """Assigns the arrival time to each round of readings."""

    def __init__(self, header: Header, settings: SigrokSettings) -> None:
        super().__init__(header.capability.rate_hz)
        self._is_averaging = header.capability.is_averaging
        self._settings = settings
        self._interval_ns = round(1e9 / header.capability.rate_hz)
        self._rest = b""
        self._head: str | None = None
        self._round: dict[str, float] = {}
        self._last_ns: int | None = None

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """Return the samples that this packet completes."""
        text = self._rest + packet.data
        end = text.rfind(b"\n") + 1
        text, self._rest = text[:end], text[end:]
        units = self._settings.channels
        blocks: list[SampleBlock] = []
        for reading in readings_of(text):
            unit = units.get(reading.channel)
            if unit is None:
                continue
            # The channel of the first reading begins each round. A round that lacks a reading is
            # dropped, as the readings of two rounds are not of one time.
            self._head = self._head or reading.channel
            if reading.channel == self._head:
                self._round.clear()
            elif self._head not in self._round:
                continue
            is_known = reading.unit == unit
            self._round[reading.channel] = reading.value if is_known else np.nan
            if len(self._round) == len(units):
                blocks.append(self._block(packet.last_rx_ns))
                self._round.clear()
        return blocks

    def _block(self, rx_ns: int) -> SampleBlock:
        quantities = _quantities(
            self._settings, {name: np.array([value]) for name, value in self._round.items()}
        )
        last_ns = self._last_ns
        # Two rounds that arrive at once still need distinct times.
        time_ns = rx_ns if last_ns is None else max(rx_ns, last_ns + 1)
        passed_ns = self._interval_ns if last_ns is None else time_ns - last_ns
        if last_ns is not None and passed_ns > LATE_ROUNDS * self._interval_ns:
            missed = max(1, round(passed_ns / self._interval_ns) - 1)
            self.timeline.lose_in(Gap(last_ns, time_ns, missed, "no reading came"))
            passed_ns = self._interval_ns
        self._last_ns = time_ns
        [place] = self.timeline.place(1)
        self.timeline.count(quantities.flags)
        return SampleBlock(
            channel=0,
            index0=int(place),
            begin_ns=np.array([time_ns - passed_ns]) if self._is_averaging else None,
            time_ns=np.array([time_ns]),
            power_w=quantities.power_w,
            current_a=quantities.current_a,
            voltage_v=quantities.voltage_v,
            flags=quantities.flags,
        )


def make_decoder(header: Header) -> Decoder:
    """Create the decoder of a sigrok-cli recording."""
    settings = from_plain(header.facts, SigrokSettings)
    if not (settings.power or settings.current):
        raise ValueError("no channel measures power or current")
    kind = PacedSigrokDecoder if settings.is_paced else UniformSigrokDecoder
    return kind(header, settings)
