"""Logs of a PowerShield's serial port, with responses of the unit and then samples as text.

    PowerShield > ack output energy          current or energy: required
    PowerShield > ack volt 3300m             or --supply; not needed for energy
    PowerShield > ack freq 1k                or the samples between two timestamps
    TimeStamp: 000s 000ms, buff 00%
    6409-07

The driver's decoder decodes the bytes; it also finds losses and evaluates the timestamps.

Source: ST UM2243; meters/lpm01a/ascii.py for the lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from edgebench.meters.base import Capability, LossReport, Packet, SampleBlock, blocks_of
from edgebench.meters.lpm01a.datasheet import capability
from edgebench.meters.lpm01a.decoder import Lpm01aDecoder
from edgebench.meters.lpm01a.settings import RATES_HZ, Lpm01aSettings, Lpm01aSetup, check
from edgebench.protocol.errors import FileRefused, UsageError

HEAD_BYTES = 1 << 20
"""The settings must be within this number of bytes at the start of a log. If no setting contains
the rate, two timestamps must also be within these bytes."""
CHUNK_BYTES = 1 << 16
IS_LOG = re.compile(rb"PowerShield > |^TimeStamp: ?\d", re.MULTILINE)
_OUTPUT = re.compile(rb"ack output (energy|current)")
_RATE = re.compile(rb"ack freq (\d+)(k?)\b")
_SUPPLY = re.compile(rb"ack volt (\d+)m\b")
_STAMP = re.compile(rb"TimeStamp\D{1,4}(\d+)s\D{1,3}(\d+)ms")
_SAMPLE = re.compile(rb"^\d{4}[+-]\d{2}\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Lpm01aLog:
    """A log with its settings."""

    path: Path
    settings: Lpm01aSettings

    @property
    def capability(self) -> Capability:
        """Capability of the unit that wrote the log; the log does not identify the unit."""
        return capability("lpm01a", self.settings.setup, "")

    def decoder(self) -> Lpm01aDecoder:
        """Create a decoder for the samples of the log."""
        return Lpm01aDecoder(self.settings)


def read_log(path: Path, supply_v: float | None) -> Lpm01aLog:
    """Find the settings at the start of a log.

    Raises:
        FileRefused: output mode, rate or voltage is missing, or a setting is invalid.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    output = _OUTPUT.findall(head)
    if not output:
        raise FileRefused(
            "PowerShield log without `ack output`: it is unknown whether the samples are current "
            "or energy"
        )
    is_energy = output[-1] == b"energy"
    supplies = _SUPPLY.findall(head)
    if supplies and supply_v is not None:
        raise FileRefused(f"--supply does not apply: the log states {int(supplies[-1]) / 1000:g} V")
    known_v = int(supplies[-1]) / 1000 if supplies else supply_v
    if known_v is None and not is_energy:
        raise FileRefused("log has current but no voltage: pass the voltage, as in --supply 3.3")
    setup = Lpm01aSetup(rate_hz=_rate_hz(head), is_energy=is_energy, is_ascii=True)
    try:
        check(setup)
    except UsageError as exc:
        raise FileRefused(str(exc)) from exc
    # Without a voltage the output is energy, which needs a voltage only for the limit of the range:
    # 3.3 V is the highest voltage.
    return Lpm01aLog(
        path, Lpm01aSettings(setup=setup, supply_v=3.3 if known_v is None else known_v)
    )


def read_samples(log: Lpm01aLog, decoder: Lpm01aDecoder) -> Iterator[SampleBlock]:
    """Yield all samples, decoded in chunks of the file."""
    with log.path.open("rb") as file:
        packets = (Packet(0, 0, data) for data in iter(lambda: file.read(CHUNK_BYTES), b""))
        yield from blocks_of(decoder, packets)


def loss_of(decoder: Lpm01aDecoder) -> LossReport:
    """Lost samples, as counted by the decoder.

    There is no rate error, because a log has no arrival times.
    """
    return replace(decoder.loss(), rate_error_ppm=None, rate_span_s=None)


def _rate_hz(head: bytes) -> int:
    rates = _RATE.findall(head)
    if rates:
        number, kilo = rates[-1]
        return int(number) * (1000 if kilo else 1)
    stamps = list(_STAMP.finditer(head))
    if len(stamps) < 2:
        raise FileRefused("no rate: the log has neither `ack freq` nor two timestamps")
    first, second = ((int(stamp[1]) * 1000 + int(stamp[2])) / 1000 for stamp in stamps[:2])
    count = len(_SAMPLE.findall(head, stamps[0].end(), stamps[1].start()))
    if second <= first or not count:
        raise FileRefused("no rate: no samples between the first two timestamps")
    seen_hz = count / (second - first)
    # A few lines may be lost; the unit supports only the rates in RATES_HZ.
    nearest: int = min(RATES_HZ, key=lambda rate_hz: abs(rate_hz - seen_hz))
    return nearest
