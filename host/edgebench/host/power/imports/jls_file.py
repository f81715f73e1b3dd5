"""Recordings of Joulescopes: JLS version 2, read by the vendor's pyjls.

    source    an instrument; becomes a channel
    signal    current, voltage, power, gpi[0] …: its rate, the number of its first sample, samples
    gaps      are NaN
    UTC       pairs of a sample's number and the time

A file that was not closed is refused: pyjls would mend it in place, and change what was measured.

Source: jetperch/jls, include/jls/format.h: the file header (identification, length when it was
closed); pyjls, Reader.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgebench.host.power.imports.blocks import Tally
from edgebench.meters.base import Flag, Floats, LossReport, SampleBlock
from edgebench.meters.options import install
from edgebench.protocol.errors import FileRefused

INSTALL = install("jls")
MAGIC = b"jlsfmt\r\n \n \x1a  \xb2\x1c"
BLOCK_SAMPLES = 1 << 16
INPUT_COUNT = 4
_HEADER = struct.Struct("<16sQ")
_NS_PER_S = 1e9
_RATE_SPAN_S = 2.0
"""Below this, the times say nothing of the rate."""
_DAMAGED = (RuntimeError, ValueError, OSError, LookupError)


@dataclass(frozen=True, slots=True)
class Span:
    """Where a signal's samples are."""

    signal_id: int
    rate_hz: int
    first: int
    """Number of its first sample; signals of one rate count alike."""
    count: int

    @property
    def end(self) -> int:
        """Behind its last."""
        return self.first + self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One instrument's signals."""

    name: str
    current: Span | None
    voltage: Span | None
    power: Span | None
    inputs: tuple[tuple[int, Span], ...]
    """Digital inputs that were recorded, with their numbers."""

    @property
    def master(self) -> Span:
        """The signal whose samples are the recording's."""
        found = self.power or self.current
        assert found is not None, "_traces has refused that"
        return found

    @property
    def limits(self) -> tuple[int, int]:
        """First and end of what every signal of the electrical ones has."""
        used = [self.power] if self.power else [self.current, self.voltage]
        spans = [span for span in used if span is not None]
        return max(span.first for span in spans), min(span.end for span in spans)


@dataclass(frozen=True, slots=True)
class JlsFile:
    """What the file says of itself."""

    path: Path
    traces: tuple[Trace, ...]
    utc_first: str | None
    """Of the first sample, ISO 8601."""
    rate_error_ppm: float | None
    """Of the instrument's clock against the UTC in the file; of several, the one most off."""
    rate_span_s: float | None

    @property
    def rate_hz(self) -> float:
        """Samples a second."""
        return float(self.traces[0].master.rate_hz)

    def loss(self, tally: Tally) -> LossReport:
        """What is missing, and how fast the samples were."""
        found = tally.loss()
        return replace(found, rate_error_ppm=self.rate_error_ppm, rate_span_s=self.rate_span_s)


def read_jls(path: Path, supply_v: float | None) -> JlsFile:
    """Read what is in it.

    Raises:
        FileRefused: it is damaged, was not closed, or has no power; or pyjls is not installed.
    """
    _check_closed(path)
    with _opened(path) as reader:
        try:
            traces = _traces(reader, supply_v)
            times = [_times(reader, trace.master) for trace in traces]
            # One that is off, whichever it is: a check of the first says nothing of the others.
            told = [(error, span_s) for _, error, span_s in times if error is not None]
            worst = max(told, key=lambda one: abs(one[0]), default=(None, None))
            return JlsFile(path, traces, times[0][0], *worst)
        except _DAMAGED as exc:
            raise FileRefused(f"damaged .jls: {_line(exc)}") from exc


def read_samples(source: JlsFile, supply_v: float | None, tally: Tally) -> Iterator[SampleBlock]:
    """All samples, instrument by instrument, a block at a time.

    Raises:
        FileRefused: the file is damaged.
    """
    with _opened(source.path) as reader:
        for channel, trace in enumerate(source.traces):
            begin, end = trace.limits
            for first in range(begin, end, BLOCK_SAMPLES):
                count = min(BLOCK_SAMPLES, end - first)
                try:
                    block = _block(reader, trace, first, count, supply_v)
                except _DAMAGED as exc:
                    raise FileRefused(f"damaged .jls: {_line(exc)}") from exc
                tally.add(block.flags)
                yield replace(block, channel=channel)


def _check_closed(path: Path) -> None:
    """Refuse what pyjls would mend."""
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
    if len(head) < _HEADER.size:
        raise FileRefused(f"no .jls: {len(head)} bytes")
    magic, length = _HEADER.unpack(head)
    if magic != MAGIC:
        raise FileRefused("not a .jls of version 2")
    if length != path.stat().st_size:
        raise FileRefused(
            f".jls that was not closed, or was cut: {path.stat().st_size} bytes of {length}; "
            "a copy that the Joulescope UI has opened once is whole"
        )


def _opened(path: Path) -> Any:  # a pyjls.Reader, which has no types
    try:
        import pyjls
    except ImportError:
        raise FileRefused(f"pyjls is not installed, .jls needs it: {INSTALL}") from None
    try:
        return pyjls.Reader(str(path))
    except _DAMAGED as exc:
        raise FileRefused(f"damaged .jls: {_line(exc)}") from exc


def _traces(reader: Any, supply_v: float | None) -> tuple[Trace, ...]:
    named = [
        (signal.source_id, signal.name, _span(signal))
        for signal in reader.signals.values()
        if signal.length and signal.sample_rate
    ]
    named.sort(key=lambda one: one[0])
    traces = []
    for source_id, group in groupby(named, key=lambda one: one[0]):
        spans = {name: span for _, name, span in group}
        trace = Trace(
            name=f"{reader.sources[source_id].name or 'source'} ({source_id})",
            current=spans.get("current"),
            voltage=spans.get("voltage"),
            power=spans.get("power"),
            inputs=tuple(
                (place, spans[name])
                for place in range(INPUT_COUNT)
                if (name := f"gpi[{place}]") in spans
            ),
        )
        traces.append(trace)
    _check(traces, supply_v)
    return tuple(traces)


def _span(signal: Any) -> Span:
    return Span(signal.signal_id, signal.sample_rate, signal.sample_id_offset, signal.length)


def _check(traces: Sequence[Trace], supply_v: float | None) -> None:
    if not traces:
        raise FileRefused("no signal of a fixed rate in it")
    for trace in traces:
        if trace.power is None and trace.current is None:
            raise FileRefused(f"{trace.name}: neither power nor current was recorded")
        if trace.power is None and trace.voltage is None and supply_v is None:
            raise FileRefused(
                f"{trace.name}: current without a voltage: say it, as in --supply 3.3"
            )
        if supply_v is not None and (trace.power or trace.voltage):
            raise FileRefused(f"--supply has no use: {trace.name} has its own voltage")
        if trace.power is None and trace.voltage and trace.voltage.rate_hz != trace.master.rate_hz:
            raise FileRefused(f"{trace.name}: current and voltage have different rates")
        if trace.limits[1] - trace.limits[0] < 2:
            raise FileRefused("fewer than two samples have no energy")
    rates = {trace.master.rate_hz for trace in traces}
    if len(rates) > 1:
        raise FileRefused(f"instruments of different rates: {', '.join(map(str, sorted(rates)))}")


def _times(reader: Any, master: Span) -> tuple[str | None, float | None, float | None]:
    """UTC of the first sample; error of the rate, ppm, and how long that was looked at."""
    from pyjls import time64

    found: list[NDArray[np.int64]] = []

    def take(entries: NDArray[np.int64]) -> bool:
        found.append(np.array(entries))
        return False

    reader.utc(master.signal_id, 0, take)
    if not found:
        return None, None, None
    pairs = np.concatenate(found)
    samples, times_s = pairs[:, 0], pairs[:, 1] / time64.SCALE
    first_s = time64.EPOCH + times_s[0] - samples[0] / master.rate_hz
    utc = datetime.fromtimestamp(float(first_s), timezone.utc).isoformat()
    span_s = float(times_s[-1] - times_s[0])
    if span_s < _RATE_SPAN_S:
        return utc, None, None
    rate_hz = float(samples[-1] - samples[0]) / span_s
    return utc, (rate_hz / master.rate_hz - 1) * 1e6, span_s


def _block(
    reader: Any, trace: Trace, first: int, count: int, supply_v: float | None
) -> SampleBlock:
    current_a = _values(reader, trace.current, trace.master, first, count)
    voltage_v = _values(reader, trace.voltage, trace.master, first, count)
    power_w = _values(reader, trace.power, trace.master, first, count)
    if power_w is None:
        volts = supply_v if voltage_v is None else voltage_v
        assert current_a is not None, "_check has refused that"
        assert volts is not None, "and that"
        power_w = current_a * volts
    digital, is_carried = _digital(reader, trace, first, count)
    flags = np.where(np.isfinite(power_w), 0, int(Flag.MISSING)).astype(np.uint8)
    flags[is_carried] |= np.uint8(Flag.INTERPOLATED)
    index = first - trace.limits[0] + np.arange(count)
    return SampleBlock(
        channel=0,
        index0=int(index[0]),
        time_ns=np.rint(index * (_NS_PER_S / trace.master.rate_hz)).astype(np.int64),
        power_w=power_w,
        current_a=current_a,
        voltage_v=voltage_v,
        digital=digital,
        flags=flags,
    )


def _values(reader: Any, span: Span | None, master: Span, first: int, count: int) -> Floats | None:
    """Samples by number; NaN where this signal has none. None: it has not these moments."""
    if span is None or span.rate_hz != master.rate_hz:
        return None
    values = np.full(count, np.nan)
    begin, end = max(first, span.first), min(first + count, span.end)
    if begin < end:
        raw = reader.fsr(span.signal_id, begin - span.first, end - begin)
        values[begin - first : end - first] = raw
    values[~np.isfinite(values)] = np.nan
    return values


def _digital(
    reader: Any, trace: Trace, first: int, count: int
) -> tuple[NDArray[np.uint8] | None, NDArray[np.bool_]]:
    """A bit for each input, and where one had ended or not begun: as it was next to that."""
    bits, is_carried = np.zeros(count, np.uint8), np.zeros(count, np.bool_)
    for place, span in trace.inputs:
        ratio = span.rate_hz / trace.master.rate_hz
        wanted = np.floor((first + np.arange(count)) * ratio).astype(np.int64) - span.first
        there = np.clip(wanted, 0, span.count - 1)
        begin, length = int(there[0]), int(there[-1] - there[0]) + 1
        packed = reader.fsr(span.signal_id, begin, length)
        unpacked = np.unpackbits(packed, count=length, bitorder="little")
        bits |= unpacked[there - begin] << np.uint8(place)
        is_carried |= wanted != there
    return (bits if trace.inputs else None), is_carried


def _line(exc: BaseException) -> str:
    return (str(exc).splitlines() or [type(exc).__name__])[0][:200]
