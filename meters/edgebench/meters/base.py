"""The interface of an energy meter.

    Meter      identifies itself and its capability when opened; creates sessions
    session    a recording in progress: writes raw bytes and their arrival times to disk
    Recording  the raw bytes and a header that describes how to decode them
    Decoder    raw bytes → blocks of samples; the same blocks live, later, and on another machine

A driver never invents a number. If the driver could not read a value, the sample has a flag, or the
recording has a gap. A missing meter is represented by an `AbsentMeter` with the reason. Sample
times are nanoseconds of the meter's own clock. The capability names the domain of this clock. This
package never compares times of two clock domains.
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
"""Assumed delay of the earliest bytes over USB: the bus is polled once per millisecond, and the
host needs another millisecond to wake up."""


class Flag(IntFlag):
    """Defects of a sample; none may be ignored when energy is computed."""

    NONE = 0
    MISSING = 1
    """The meter did not reply: the value is NaN."""
    SATURATED = 2
    """The true value may be higher."""
    UNCALIBRATED = 4
    """The meter had not completed its calibration."""
    RANGE_SWITCH = 8
    """The meter switched its measuring range here: the value comes from a filter that hides the
    artefact of the switch."""
    INTERPOLATED = 16
    CLIPPED = 32
    """The true value may be lower."""
    DUPLICATE = 64
    """The meter had no new value, so the sample repeats the previous value."""


LossDetection = Literal["counter", "mod64", "device_timestamps", "wallclock", "none"]
"""How a driver detects that samples are missing."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A measured quantity and the place where it is measured."""

    name: str
    boundary: str
    """Scope of the measurement: package, platform, board, rail, wall, battery."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", printable(self.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Capability:
    """Capability of an open meter."""

    driver: str
    channels: tuple[Channel, ...]
    rate_hz: float
    """Samples per second and channel during a session."""
    is_averaging: bool
    """Whether values are means since the previous sample, instead of instantaneous values."""
    clock_domain: str
    is_uniform: bool = False
    """Whether samples are spaced at exactly `rate_hz` on the meter's clock."""
    is_paced: bool = False
    """Whether the meter itself decides when it samples. The times of such a meter's samples still
    come from the host's clock."""
    is_counter: bool = False
    """Whether values come from an energy counter, so that no value exceeds a measuring range."""
    bandwidth_hz: float | None = None
    smoothing_s: float | None = None
    """Time constant of the meter's own averaging. None if the time constant is unknown or does not
    exceed a sample interval."""
    digital_count: int = 0
    """Number of digital inputs, which are sampled together with every value."""
    loss_detection: LossDetection = "none"
    min_window_s: float = 0.0
    """Shortest window whose energy is meaningful."""
    arrival_error_s: float | None = USB_ARRIVAL_S
    """Largest possible delay of the samples that arrive fastest. None if arrival times do not show
    when a value was measured."""
    current_limits: tuple[CurrentLimit, ...] = ()
    """Current limits, one for each range (lowest first) or one for each channel; empty if
    unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterInfo:
    """Identity of a meter."""

    vendor: str
    model: str
    serial: str = ""
    firmware: str = ""
    raw_metadata: str = ""
    """Metadata exactly as the meter sent it."""

    def __post_init__(self) -> None:
        # The instrument sends these texts, and anyone can rename a plug: keep printable characters.
        for name in ("vendor", "model", "serial", "firmware"):
            object.__setattr__(self, name, printable(getattr(self, name)))


@dataclass(frozen=True, slots=True)
class AbsentMeter:
    """Stands for a meter that cannot be used here, and states the reason on a single line."""

    reason: str
    permission: Permission | None = None
    """The permission that the user lacks. None if the meter is absent for another reason."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", printable(self.reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """First line of a recording.

    The header contains everything that a decoder needs besides the raw bytes.
    """

    driver: str
    info: MeterInfo
    capability: Capability
    uncertainty: tuple[UncertaintyTerm, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    """Driver-specific facts: calibration, settings."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SampleBlock:
    """Samples of a channel, in chronological order. All arrays have shape (n,)."""

    channel: int
    """Index into the capability's channels."""
    index0: int
    """Number of the block's first sample on the meter's own timeline; lost samples are numbered
    too."""
    time_ns: NDArray[np.int64]
    """Times on the meter's clock, ascending: the end of each averaging interval, or the instant of
    each value."""
    power_w: Floats
    flags: NDArray[np.uint8]
    begin_ns: NDArray[np.int64] | None = None
    """Start of each averaging interval; None if values are instantaneous."""
    current_a: Floats | None = None
    voltage_v: Floats | None = None
    digital: NDArray[np.uint8] | None = None
    """Levels of the digital inputs, one bit for each input; None if no input is recorded."""
    ranges: NDArray[np.uint8] | None = None
    """Measuring range of each sample. None if the error does not depend on a range."""
    spike_w: Floats | None = None
    """Power that the driver's own filter removed, mostly 0; None if the driver has no filter."""
    came_ns: int | None = None
    """Time on the host's clock at which the last sample arrived, if the decoder held the samples
    back. None if the samples have just arrived."""


@dataclass(frozen=True, slots=True)
class Gap:
    """An interval in which samples are missing."""

    begin_ns: int
    """Time of the last sample before the gap, meter clock."""
    end_ns: int
    """Time of the first sample after the gap, meter clock."""
    count: int
    """Minimum number of missing samples."""
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LossReport:
    """Completeness of a recording."""

    received_count: int
    lost_count: int = 0
    """Number of samples known to be lost."""
    is_ambiguous: bool = False
    """Whether more samples than `lost_count` may be lost, because the meter's counter cannot show
    every loss."""
    desync_count: int = 0
    """Number of times that the stream lost its framing."""
    gaps: tuple[Gap, ...] = ()
    saturated_count: int = 0
    bounded_count: int = 0
    """Number of saturated samples right before the meter switched to a higher range. The samples
    after the switch show how high the power was."""
    rate_error_ppm: float | None = None
    """Deviation of the arrival rate from the nominal rate, by the host's clock. None if the
    recording is too short."""
    rate_span_s: float | None = None
    """Time over which `rate_error_ppm` was measured."""
    trouble: str | None = None
    """One line on why the recording ended early or was not made as requested; None if all is
    well."""
    torn_bytes: int = 0
    """Number of bytes of an incomplete packet at the end of the file, after a crash of the host."""

    @property
    def lost_ratio(self) -> float:
        """Share of missing samples, 0…1."""
        expected = self.received_count + self.lost_count
        return self.lost_count / expected if expected else 0.0


@dataclass(frozen=True, slots=True)
class Packet:
    """Raw bytes that a single read returned, with the times of the read."""

    first_rx_ns: int
    """Host clock (monotonic) at the start of the read."""
    last_rx_ns: int
    """Host clock when the read returned."""
    data: bytes


class Decoder(Protocol):
    """Turns raw bytes into samples, and keeps an incomplete packet until the next call."""

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """Decode a packet and return the samples completed by it."""
        ...

    def finish(self) -> list[SampleBlock]:
        """Return the samples that the decoder still holds back; no more bytes will arrive."""
        ...

    def loss(self) -> LossReport:
        """Completeness of the recording up to now."""
        ...


@dataclass(frozen=True, slots=True)
class Recording:
    """File of a session: a header and raw bytes."""

    path: Path
    header: Header
    trouble: str | None = None
    """Why the recording ended early; None: it ended as planned."""


@dataclass(frozen=True, slots=True)
class NewestPackets:
    """Most recent packets of a session, for a display of the power during the recording."""

    header: Header
    packets: tuple[Packet, ...]


class MeterSession(Protocol):
    """A recording, used in a `with` block.

    The `with` block starts the recording, and stops the meter when the block ends.
    """

    def __enter__(self) -> MeterSession:
        """Start the meter and the recording."""
        ...

    def __exit__(self, *_: object) -> None:
        """Stop the recording and the meter."""
        ...

    @property
    def trouble(self) -> str | None:
        """Why the recording has stopped; None while it is running normally."""
        ...

    def newest(self) -> NewestPackets:
        """Return the most recent packets; safe to call while another thread appends packets."""
        ...

    def recording(self) -> Recording:
        """Return the finished recording; valid after the `with` block has ended."""
        ...


class Meter(Protocol):
    """An energy meter."""

    @property
    def name(self) -> str:
        """Driver name, as used in `--meter`."""
        ...

    def open(self) -> Header | AbsentMeter:
        """Find and identify the meter; reports errors as `AbsentMeter`, never raises."""
        ...

    def session(self, path: Path) -> MeterSession:
        """Create a session that records the open meter into this file."""
        ...

    def close(self) -> None:
        """Release the meter; may be called twice."""
        ...


def blocks_of(decoder: Decoder, packets: Iterable[Packet]) -> Iterator[SampleBlock]:
    """Decode packets in order, including the samples that the decoder holds back until the end."""
    for packet in packets:
        yield from decoder.feed(packet)
    yield from decoder.finish()
