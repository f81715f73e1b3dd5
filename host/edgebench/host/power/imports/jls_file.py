"""Reads recordings of Joulescopes (JLS version 2) with the vendor's pyjls.

    source    an instrument; becomes a channel
    signal    current, voltage, power, gpi[0] …: its rate, number of the first sample, samples
    gaps      are NaN
    UTC       pairs of sample number and time

A file that was not closed is refused: pyjls would repair it in place and so change the recording.

Source: jetperch/jls, include/jls/format.h: the file header (identification, length at closing);
pyjls, Reader.
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

from edgebench.host.power.imports.blocks import SampleTally, saturated
from edgebench.meters.base import Flag, Floats, LossReport, SampleBlock
from edgebench.meters.joulescope.decoder import LIMIT_A, LIMIT_V
from edgebench.protocol.distributions import HOST_DISTRIBUTION, install_command
from edgebench.protocol.errors import FileRefused
from edgebench.protocol.text import one_line

INSTALL = install_command("jls", HOST_DISTRIBUTION)
MAGIC = b"jlsfmt\r\n \n \x1a  \xb2\x1c"
BLOCK_SAMPLES = 1 << 16
INPUT_COUNT = 4
_HEADER = struct.Struct("<16sQ")
_NS_PER_S = 1e9
_RATE_SPAN_S = 2.0
"""Minimum span of the UTC entries from which the rate is computed."""
_DAMAGED = (RuntimeError, ValueError, OSError, LookupError)


@dataclass(frozen=True, slots=True)
class JlsSignal:
    """Range of the samples of a signal."""

    id: int
    rate_hz: int
    first: int
    """Number of the signal's first sample; all signals with the same rate use the same numbers."""
    count: int

    @property
    def end(self) -> int:
        """Number of the signal's last sample plus one."""
        return self.first + self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class JlsInstrument:
    """Signals of an instrument."""

    name: str
    current: JlsSignal | None
    voltage: JlsSignal | None
    power: JlsSignal | None
    inputs: tuple[tuple[int, JlsSignal], ...]
    """Recorded digital inputs, with their numbers."""

    @property
    def master(self) -> JlsSignal:
        """Signal whose samples define the times: power, or current if there is no power."""
        signal = self.power or self.current
        assert signal is not None, "checked by _check"
        return signal

    @property
    def limits(self) -> tuple[int, int]:
        """First and last sample number in all used electrical signals, with 1 added to the last."""
        used = [self.power] if self.power else [self.current, self.voltage]
        signals = [signal for signal in used if signal is not None]
        return max(signal.first for signal in signals), min(signal.end for signal in signals)


@dataclass(frozen=True, slots=True)
class JlsFile:
    """Metadata of a file."""

    path: Path
    instruments: tuple[JlsInstrument, ...]
    utc_first: str | None
    """UTC of the first sample, ISO 8601."""
    rate_error_ppm: float | None
    """Largest error of an instrument's clock relative to the UTC in the file. None if no clock
    could be compared."""
    rate_span_s: float | None

    @property
    def rate_hz(self) -> float:
        """Samples per second, the same for all instruments."""
        return float(self.instruments[0].master.rate_hz)

    def loss(self, tally: SampleTally) -> LossReport:
        """Missing samples and the rate error."""
        loss = tally.loss()
        return replace(loss, rate_error_ppm=self.rate_error_ppm, rate_span_s=self.rate_span_s)


def read_jls(path: Path, supply_v: float | None) -> JlsFile:
    """Read the metadata.

    Raises:
        FileRefused: the file is damaged, was not closed, or has no power; or pyjls is not
            installed.
    """
    _check_closed(path)
    with _opened(path) as reader:
        try:
            instruments = _instruments(reader, supply_v)
            times = [_times(reader, instrument.master) for instrument in instruments]
            # The check applies to the worst clock of all instruments.
            errors = [(error, span_s) for _, error, span_s in times if error is not None]
            worst = max(errors, key=lambda error: abs(error[0]), default=(None, None))
            return JlsFile(path, instruments, times[0][0], *worst)
        except _DAMAGED as exc:
            raise FileRefused(f"damaged .jls: {one_line(exc)}") from exc


def read_samples(
    source: JlsFile, supply_v: float | None, tally: SampleTally
) -> Iterator[SampleBlock]:
    """Yield all samples in blocks, instrument by instrument.

    Raises:
        FileRefused: the file is damaged.
    """
    with _opened(source.path) as reader:
        for channel, instrument in enumerate(source.instruments):
            begin, end = instrument.limits
            for first in range(begin, end, BLOCK_SAMPLES):
                count = min(BLOCK_SAMPLES, end - first)
                try:
                    block = _block(reader, instrument, first, count, supply_v)
                except _DAMAGED as exc:
                    raise FileRefused(f"damaged .jls: {one_line(exc)}") from exc
                tally.add(block.flags)
                yield replace(block, channel=channel)


def _check_closed(path: Path) -> None:
    """Refuse a file that pyjls would repair."""
    with path.open("rb") as file:
        head = file.read(_HEADER.size)
    if len(head) < _HEADER.size:
        raise FileRefused(f"not a .jls file: only {len(head)} bytes")
    magic, length = _HEADER.unpack(head)
    if magic != MAGIC:
        raise FileRefused("not a .jls of version 2")
    if length != path.stat().st_size:
        raise FileRefused(
            f".jls was not closed or is truncated: {path.stat().st_size} of {length} bytes; "
            "open a copy in the Joulescope UI to repair it"
        )


def _opened(path: Path) -> Any:  # a pyjls.Reader, which is untyped
    try:
        import pyjls
    except ImportError:
        raise FileRefused(f"pyjls is not installed, but needed for .jls: {INSTALL}") from None
    try:
        return pyjls.Reader(str(path))
    except _DAMAGED as exc:
        raise FileRefused(f"damaged .jls: {one_line(exc)}") from exc


def _instruments(reader: Any, supply_v: float | None) -> tuple[JlsInstrument, ...]:
    signals = [
        (
            signal.source_id,
            signal.name,
            JlsSignal(signal.signal_id, signal.sample_rate, signal.sample_id_offset, signal.length),
        )
        for signal in reader.signals.values()
        if signal.length and signal.sample_rate
    ]
    signals.sort(key=lambda item: item[0])
    instruments = []
    for source_id, group in groupby(signals, key=lambda item: item[0]):
        named = {name: signal for _, name, signal in group}
        instrument = JlsInstrument(
            name=f"{reader.sources[source_id].name or 'source'} ({source_id})",
            current=named.get("current"),
            voltage=named.get("voltage"),
            power=named.get("power"),
            inputs=tuple(
                (number, named[name])
                for number in range(INPUT_COUNT)
                if (name := f"gpi[{number}]") in named
            ),
        )
        instruments.append(instrument)
    _check(instruments, supply_v)
    return tuple(instruments)


def _check(instruments: Sequence[JlsInstrument], supply_v: float | None) -> None:
    if not instruments:
        raise FileRefused("no signal of a fixed rate in the file")
    for instrument in instruments:
        if instrument.power is None and instrument.current is None:
            raise FileRefused(f"{instrument.name}: neither power nor current was recorded")
        if instrument.power is None and instrument.voltage is None and supply_v is None:
            raise FileRefused(
                f"{instrument.name}: current but no voltage was recorded: pass the voltage, as "
                "in --supply 3.3"
            )
        if supply_v is not None and (instrument.power or instrument.voltage):
            raise FileRefused(
                f"--supply does not apply: power or voltage of {instrument.name} was recorded"
            )
        if (
            instrument.power is None
            and instrument.voltage
            and instrument.voltage.rate_hz != instrument.master.rate_hz
        ):
            raise FileRefused(f"{instrument.name}: current and voltage have different rates")
        if instrument.limits[1] - instrument.limits[0] < 2:
            raise FileRefused("fewer than two samples: energy needs at least two")
    rates = {instrument.master.rate_hz for instrument in instruments}
    if len(rates) > 1:
        raise FileRefused(f"instruments have different rates: {', '.join(map(str, sorted(rates)))}")


def _times(reader: Any, master: JlsSignal) -> tuple[str | None, float | None, float | None]:
    """UTC of the first sample, rate error in ppm, and time over which the error was measured."""
    from pyjls import time64

    entries: list[NDArray[np.int64]] = []

    def take(some: NDArray[np.int64]) -> bool:
        entries.append(np.array(some))
        return False

    reader.utc(master.id, 0, take)
    if not entries:
        return None, None, None
    pairs = np.concatenate(entries)
    samples, times_s = pairs[:, 0], pairs[:, 1] / time64.SCALE
    first_s = time64.EPOCH + times_s[0] - samples[0] / master.rate_hz
    utc = datetime.fromtimestamp(float(first_s), timezone.utc).isoformat()
    span_s = float(times_s[-1] - times_s[0])
    if span_s < _RATE_SPAN_S:
        return utc, None, None
    rate_hz = float(samples[-1] - samples[0]) / span_s
    return utc, (rate_hz / master.rate_hz - 1) * 1e6, span_s


def _block(
    reader: Any, instrument: JlsInstrument, first: int, count: int, supply_v: float | None
) -> SampleBlock:
    master = instrument.master
    current_a = _values(reader, instrument.current, master, first, count)
    voltage_v = _values(reader, instrument.voltage, master, first, count)
    power_w = _values(reader, instrument.power, master, first, count)
    if power_w is None:
        volts = supply_v if voltage_v is None else voltage_v
        assert current_a is not None, "checked by _check"
        assert volts is not None, "checked by _check"
        power_w = current_a * volts
    digital, is_carried = _digital(reader, instrument, first, count)
    flags = np.where(np.isfinite(power_w), 0, int(Flag.MISSING)).astype(np.uint8)
    flags[is_carried] |= np.uint8(Flag.INTERPOLATED)
    flags |= saturated(current_a, LIMIT_A)
    flags |= saturated(voltage_v, LIMIT_V)
    index = first - instrument.limits[0] + np.arange(count)
    return SampleBlock(
        channel=0,
        index0=int(index[0]),
        time_ns=np.rint(index * (_NS_PER_S / master.rate_hz)).astype(np.int64),
        power_w=power_w,
        current_a=current_a,
        voltage_v=voltage_v,
        digital=digital,
        flags=flags,
    )


def _values(
    reader: Any, signal: JlsSignal | None, master: JlsSignal, first: int, count: int
) -> Floats | None:
    """Samples of a signal, NaN in gaps; None if its rate differs from the master signal's."""
    if signal is None or signal.rate_hz != master.rate_hz:
        return None
    values = np.full(count, np.nan)
    begin, end = max(first, signal.first), min(first + count, signal.end)
    if begin < end:
        raw = reader.fsr(signal.id, begin - signal.first, end - begin)
        values[begin - first : end - first] = raw
    values[~np.isfinite(values)] = np.nan
    return values


def _digital(
    reader: Any, instrument: JlsInstrument, first: int, count: int
) -> tuple[NDArray[np.uint8] | None, NDArray[np.bool_]]:
    """Levels of the inputs, a bit per input, and a mask of samples in which an input is missing.

    For a missing input, its nearest recorded level is used.
    """
    bits, is_carried = np.zeros(count, np.uint8), np.zeros(count, np.bool_)
    for number, signal in instrument.inputs:
        ratio = signal.rate_hz / instrument.master.rate_hz
        wanted = np.floor((first + np.arange(count)) * ratio).astype(np.int64) - signal.first
        nearest = np.clip(wanted, 0, signal.count - 1)
        begin, length = int(nearest[0]), int(nearest[-1] - nearest[0]) + 1
        packed = reader.fsr(signal.id, begin, length)
        unpacked = np.unpackbits(packed, count=length, bitorder="little")
        bits |= unpacked[nearest - begin] << np.uint8(number)
        is_carried |= wanted != nearest
    return (bits if instrument.inputs else None), is_carried
