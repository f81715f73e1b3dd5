"""The interface of an energy meter.

    Meter      opened, asked what it is and can do; makes sessions
    session    one recording: raw bytes with the time they came, on disk, and nothing else
    Recording  the raw bytes and a header that says how to read them
    Decoder    raw bytes → blocks of samples; the same one live, later, and on another machine

A driver never invents a number: what it could not read is a flag on the sample or a gap, and a
meter that is not there is `AbsentMeter` with the reason. Times of samples are nanoseconds of the
meter's own clock, whose domain is named; nothing here compares the clocks of two domains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import IntFlag
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.uncertainty import CurrentLimit, UncertaintyTerm
from edgebench.protocol.errors import Permission
from edgebench.protocol.text import printable

Floats = NDArray[np.float64]

USB_ARRIVAL_S = 2e-3
"""Assumed: USB asks once a millisecond, and the host wakes up as late."""


class Flag(IntFlag):
    """Defects of a sample; none may be ignored when energy is computed."""

    NONE = 0
    MISSING = 1
    """The meter did not answer: the value is not a number."""
    SATURATED = 2
    """The true value may be higher."""
    UNCALIBRATED = 4
    """The meter's calibration was not complete."""
    RANGE_SWITCH = 8
    """The meter changed its range here; its own filter made the value."""
    INTERPOLATED = 16
    CLIPPED = 32
    """The true value may be lower."""
    DUPLICATE = 64
    """The meter had nothing new: the value is the last one again."""


LossDetection = Literal["counter", "mod64", "device_timestamps", "wallclock", "none"]
"""Means by which a driver can know that samples are missing."""


@dataclass(frozen=True, slots=True)
class Channel:
    """Quantity that a meter measures, and where."""

    name: str
    boundary: str
    """Boundary of what is measured: package, platform, board, rail, wall, battery."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", printable(self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """Capability of an open meter."""

    driver: str
    channels: tuple[Channel, ...]
    rate_hz: float
    """Samples a second and channel in a session."""
    is_averaging: bool
    """Values are means since the last sample, not instants."""
    clock_domain: str
    is_uniform: bool = False
    """Samples come at exactly that rate of the meter's clock."""
    is_paced: bool = False
    """Samples are taken at the meter's own pace, although they have times of the host's clock."""
    bandwidth_hz: float | None = None
    smoothing_s: float | None = None
    """Time constant of the meter's own averaging; None: not known, or as long as a sample."""
    digital_count: int = 0
    """Digital inputs, sampled with every value."""
    loss_detection: LossDetection = "none"
    min_window_s: float = 0.0
    """Shortest window whose energy says anything."""
    arrival_error_s: float | None = USB_ARRIVAL_S
    """Delay that even the earliest samples may have; None: arrivals say nothing of time."""
    current_limits: tuple[CurrentLimit, ...] = ()
    """Limits of its ranges, lowest first, or of its channels; empty where they are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterInfo:
    """Identity of a meter."""

    vendor: str
    model: str
    serial: str = ""
    firmware: str = ""
    raw_metadata: str = ""
    """Metadata as the meter sent it."""

    def __post_init__(self) -> None:
        # An instrument says what it likes, and whoever changes a plug's name as well.
        for name in ("vendor", "model", "serial", "firmware"):
            object.__setattr__(self, name, printable(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class AbsentMeter:
    """Reason why a meter cannot be used here; one line."""

    reason: str
    permission: Permission | None = None
    """Permission that the user lacks, where that is why."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", printable(self.reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """First line of a recording: everything that a decoder needs besides the raw bytes."""

    driver: str
    info: MeterInfo
    capability: Capability
    uncertainty: tuple[UncertaintyTerm, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    """Facts of the driver's own: calibration, settings."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleBlock:
    """Samples of one channel, in order of time; arrays have shape (n,)."""

    channel: int
    """Index into the capability's channels."""
    index0: int
    """Place of the first sample on the meter's own timeline; lost samples have theirs."""
    time_ns: NDArray[np.int64]
    """Ascending, the meter's clock: the end of the interval averaged over, or the instant."""
    power_w: Floats
    flags: NDArray[np.uint8]
    begin_ns: NDArray[np.int64] | None = None
    """Begin of each interval, where the meter averages."""
    current_a: Floats | None = None
    voltage_v: Floats | None = None
    digital: NDArray[np.uint8] | None = None
    """A bit for each digital input."""
    ranges: NDArray[np.uint8] | None = None
    """Range of each sample, where their errors differ."""
    spike_w: Floats | None = None
    """Power that the driver's own filter removed, 0 nearly everywhere; None: it has no filter."""
    came_ns: int | None = None
    """Host clock: when the last sample came, where the decoder held it back; None: just now."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Where samples are missing."""

    begin_ns: int
    """Time of the last sample before it, meter clock."""
    end_ns: int
    """Time of the first sample behind it."""
    count: int
    """Samples at least."""
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LossReport:
    """Completeness of a recording."""

    received_count: int
    lost_count: int = 0
    """Samples known to be lost."""
    is_ambiguous: bool = False
    """More may be lost: the meter's counter cannot tell."""
    desync_count: int = 0
    """Number of times that the stream lost its framing."""
    gaps: tuple[Gap, ...] = ()
    saturated_count: int = 0
    bounded_count: int = 0
    """Samples among those right before the meter switched to a higher range: the end of the lower
    one came first, and the next samples show how high the power was."""
    rate_error_ppm: float | None = None
    """Rate of arrival against the host's clock; None: too short to tell."""
    rate_span_s: float | None = None
    """Time over which that was seen."""
    trouble: str | None = None
    """Reason why the recording ended early; one line."""
    torn_bytes: int = 0
    """Bytes at the end that are no whole packet: the host crashed there."""

    @property
    def lost_ratio(self) -> float:
        """Share of the samples that is missing, 0…1."""
        expected = self.received_count + self.lost_count
        return self.lost_count / expected if expected else 0.0


@dataclass(frozen=True, slots=True)
class Packet:
    """Raw bytes of one read."""

    first_rx_ns: int
    """Host clock (monotonic): when the read began to wait."""
    last_rx_ns: int
    """Host clock: when the read returned."""
    data: bytes


class Decoder(Protocol):
    """Turns raw bytes into samples; keeps the rest of one packet for the next."""

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """Samples that are complete now."""
        ...

    def finish(self) -> list[SampleBlock]:
        """Samples that were held back for more bytes."""
        ...

    def loss(self) -> LossReport:
        """Completeness of the recording so far."""
        ...


@dataclass(frozen=True, slots=True)
class Recording:
    """File of a session: a header and raw bytes."""

    path: Path
    header: Header
    trouble: str | None = None
    """Reason why it ended early."""


@dataclass(frozen=True, slots=True)
class NewestPackets:
    """Most recent packets of a session, for a display of the power during the recording."""

    header: Header
    packets: tuple[Packet, ...]


class MeterSession(Protocol):
    """One recording: starts with `with`, and stops the meter however the block ends."""

    def __enter__(self) -> MeterSession:
        """Start recording."""
        ...

    def __exit__(self, *_: object) -> None:
        """Stop recording."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why nothing more is recorded; None while all is well."""
        ...

    def newest(self) -> NewestPackets:
        """The most recent packets; safe to call while another thread adds one."""
        ...

    def recording(self) -> Recording:
        """Recording of the session; after the block has ended."""
        ...


class Meter(Protocol):
    """An energy meter."""

    @property
    def name(self) -> str:
        """Driver name, as in `--meter`."""
        ...

    def open(self) -> Header | AbsentMeter:
        """Find the meter and identify it; reports, never raises."""
        ...

    def session(self, path: Path) -> MeterSession:
        """Recording of an open meter into this file."""
        ...

    def close(self) -> None:
        """Release the meter; may be called twice."""
        ...


def blocks_of(decoder: Decoder, packets: Iterable[Packet]) -> Iterator[SampleBlock]:
    """Decode packets in order."""
    for packet in packets:
        yield from decoder.feed(packet)
    yield from decoder.finish()
