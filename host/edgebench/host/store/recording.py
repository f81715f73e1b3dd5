"""Decode the recording of a meter into power.parquet.

The received bytes are kept unchanged next to power.parquet, so that they can be decoded again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from edgebench.host.analysis.arithmetic import check_times
from edgebench.host.store.power import PowerFacts, write_blocks
from edgebench.meters.arrival import ArrivalEnvelope
from edgebench.meters.base import (
    Capability,
    Decoder,
    Header,
    LossReport,
    MeterInfo,
    Recording,
    SampleBlock,
)
from edgebench.meters.registry import find_decoder
from edgebench.meters.spool import DAMAGED, read_header, read_packets
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.text import one_line

T = TypeVar("T")
MAX_POWER_W = 1e9
"""Maximum power of a sample, about the power of a power station. Up to this limit, sums over a week
do not overflow."""

UNKNOWN = Header(
    driver="unknown",
    info=MeterInfo(vendor="", model="unknown meter"),
    capability=Capability(
        driver="unknown", channels=(), rate_hz=1.0, is_averaging=False, clock_domain="unknown"
    ),
)
"""Header of a recording whose first line is damaged; the recording has no samples."""


def open_recording(path: Path, trouble: str | None = None) -> Recording:
    """Open the recording in a file; a damaged header is reported as trouble of the recording.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        return Recording(path, read_header(path), trouble)
    except MeasurementError:
        return Recording(path, UNKNOWN, trouble or f"{DAMAGED}: the kind of meter is unknown")


@dataclass(frozen=True, slots=True)
class DecodedSamples:
    """Samples decoded from the bytes of a recording."""

    facts: PowerFacts
    is_damaged: bool
    """Whether damage of the bytes was detected while decoding them."""


def decode(directory: Path, recording: Recording) -> DecodedSamples:
    """Decode a recording into power.parquet, by row group.

    Decoding ends at bytes that cannot be decoded. Such bytes are reported as trouble of the
    recording, because bytes of a meter never make a run fail.

    Raises:
        OSError: the recording cannot be read, or the file cannot be written.
    """
    decoder = _RecordingDecoder(recording)
    facts = write_blocks(
        directory, recording.header, decoder.blocks(), decoder.loss, decoder.envelope
    )
    return DecodedSamples(facts, decoder.is_damaged or recording.header is UNKNOWN)


def write_power(directory: Path, recording: Recording) -> PowerFacts:
    """Decode a recording like `decode`; return only the metadata of power.parquet."""
    return decode(directory, recording).facts


@dataclass(slots=True)
class _RecordingDecoder:
    """Decodes a whole recording, and notes the first damage and the arrival times of blocks."""

    recording: Recording
    envelope: ArrivalEnvelope = field(default_factory=ArrivalEnvelope)
    is_damaged: bool = False
    _decoder: Decoder | None = None
    _damage: str | None = None
    _torn_bytes: int = 0

    def blocks(self) -> Iterator[SampleBlock]:
        """Samples up to the end or the first damage of the recording."""
        self._decoder = self._attempt(lambda: find_decoder(self.recording.header), None)
        if (decoder := self._decoder) is None:
            return
        packets = read_packets(self.recording.path)
        for packet in packets:
            yield from self._noted(partial(decoder.feed, packet), packet.last_rx_ns)
            if self._damage is not None:
                break
        self._torn_bytes = packets.torn_bytes
        if self._damage is None and packets.damage is not None:
            self._damage, self.is_damaged = packets.damage, True
        yield from self._noted(decoder.finish, None)

    def loss(self) -> LossReport:
        """Completeness of the recording, and the reason for an early end."""
        nothing = LossReport(received_count=0)
        loss = self._attempt(self._decoder.loss, nothing) if self._decoder else nothing
        # If the meter itself reports trouble, this is the cause of the recording's trouble.
        trouble = loss.trouble or self.recording.trouble or self._damage
        return replace(loss, trouble=trouble, torn_bytes=self._torn_bytes)

    def _noted(self, take: Callable[[], list[SampleBlock]], rx_ns: int | None) -> list[SampleBlock]:
        nothing: list[SampleBlock] = []
        channel_count = len(self.recording.header.capability.channels)

        def checked() -> list[SampleBlock]:
            blocks = take()
            for block in blocks:
                if not 0 <= block.channel < channel_count:
                    raise ValueError(
                        f"samples of channel {block.channel}, but the recording has "
                        f"{channel_count} channels"
                    )
                # Valid samples are within the range of real meters; missing samples are NaN.
                power_w = np.abs(block.power_w[~np.isnan(block.power_w)])
                if power_w.size and (peak_w := float(power_w.max())) > MAX_POWER_W:
                    raise ValueError(f"a power of {peak_w:.3g} W, limit {MAX_POWER_W:g} W")
                check_times(block.time_ns)
                if block.begin_ns is not None:
                    check_times(block.begin_ns)
            return blocks

        blocks = self._attempt(checked, nothing)
        for block in blocks:
            came_ns = rx_ns if block.came_ns is None else block.came_ns
            if came_ns is not None and len(block.time_ns):
                self.envelope.add(came_ns, int(block.time_ns[-1]))
        return blocks

    def _attempt(self, act: Callable[[], T], otherwise: T) -> T:
        """Result of an action; after an exception, which is recorded as damage, `otherwise`.

        All exceptions are caught, because the library of each driver has its own exceptions for
        damaged bytes.
        """
        try:
            return act()
        except Exception as exc:  # of struct, msgpack or numpy; MeasurementError is handled below
            if self._damage is None:
                self.is_damaged = not isinstance(exc, MeasurementError)
                text = one_line(exc)
                self._damage = f"{DAMAGED}: {text}" if self.is_damaged else text
            return otherwise
