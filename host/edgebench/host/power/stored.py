"""Stored sessions of energy meters, with their checks and the energy of each channel."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path

from edgebench.host.analysis.energy.checks import check_recording
from edgebench.host.analysis.energy.plausible.screen import screen
from edgebench.host.analysis.energy.recording_verdict import verdict_of
from edgebench.host.analysis.energy.refusal import reasons_of
from edgebench.host.analysis.energy.site import site_in, site_of
from edgebench.host.analysis.energy.uncertainty import EnergyWindow, MeterErrors
from edgebench.host.result.energy import MeterCheck, RecordingVerdict
from edgebench.host.result.reasons.recording import whole_left_out
from edgebench.host.store.decode import decode_into
from edgebench.host.store.layout import POWER_FILE
from edgebench.host.store.power import PowerFacts
from edgebench.host.store.power_file import PowerFile, read_power_facts
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.traces import METER_FILE

METER_CHECKS = ("calibration", "loss", "rate")
"""Checks that concern the meter itself. Even arbitrary numbers in a file pass the checks that are
not listed here."""
PARTS = "parts"
"""Id of the check whether the rails of a meter exceed their total."""


@dataclass(frozen=True, slots=True)
class ChannelEnergy:
    """Energy of a channel over the whole recording."""

    name: str
    boundary: str
    duration_s: float
    energy_j: float
    u95_absolute_j: float | None
    """Expanded uncertainty, k = 2; None if the meter's errors are unknown."""
    power_w_mean: float
    power_w_mean_u95_absolute: float | None
    power_w_peak: float
    """Highest power of a sample."""
    power_w_peak_u95_absolute: float | None


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A recording of an energy meter, with the results of its checks."""

    directory: Path
    facts: PowerFacts
    power: PowerFile
    """Recording without implausible samples."""
    checks: tuple[MeterCheck, ...]
    interrupted_s: float | None = None
    """Time from the start to Ctrl-C. None if nobody interrupted the recording, or if it was read
    from disk."""
    left_out: tuple[str, ...] = ()
    """Channels whose energy is not reported, because the values of other channels contradict it."""

    @property
    def is_trusted(self) -> bool | None:
        """Whether the energy can be trusted; None if no check of `METER_CHECKS` has an outcome."""
        if any(check.is_passed is False for check in self.checks):
            return False
        of_meter = [check for check in self.checks if check.id in METER_CHECKS]
        return None if all(check.is_passed is None for check in of_meter) else True

    @property
    def verdict(self) -> RecordingVerdict:
        """Whether the energy can be trusted, with the reasons."""
        return verdict_of(self.facts.header, self.checks)

    def channels(self) -> list[ChannelEnergy]:
        """Energy of each channel that has values and is not in `left_out`."""
        power = self.power
        return [
            _energy(power, channel.name, channel.boundary)
            for channel in self.facts.header.capability.channels
            if power.facts.of(channel.name) and channel.name not in self.left_out
        ]


@contextmanager
def stored_session(directory: Path) -> Iterator[StoredSession]:
    """Yield a stored recording, checked again.

    If power.parquet is missing, the samples are decoded from the meter's bytes.

    Raises:
        StoreError: the recording is damaged, or cannot be read.
    """
    with ExitStack() as stack:
        samples = directory
        if (directory / POWER_FILE).exists():
            facts = read_power_facts(directory)
        else:
            folder = tempfile.TemporaryDirectory(prefix="edgebench-show-")
            samples = Path(stack.enter_context(folder))
            facts = decode_into(samples, directory / METER_FILE).facts
        yield replace(judge(samples, facts), directory=directory)


def judge(directory: Path, facts: PowerFacts) -> StoredSession:
    """Check a recording, and return it with the results of the checks.

    Raises:
        RunDamaged: the samples cannot be read.
    """
    flags = reduce(or_, (group.flags for group in facts.groups), 0)
    screening = screen(PowerFile.open(directory))
    power = screening.power
    checks = check_recording(facts.header, facts.loss, flags, _mean_power_w(power.facts))
    session = StoredSession(directory, facts, power, (*checks, *screening.checks))
    return _with_parts_checked(session)


def _with_parts_checked(session: StoredSession) -> StoredSession:
    """Check the rails of a meter against their total, as in a run.

    On some platforms, the reading of the total never changes; such a total is left out, and its
    parts are kept.

    Raises:
        RunDamaged: the samples cannot be read.
    """
    facts = session.power.facts
    names = [channel.name for channel in facts.header.capability.channels]
    if len(names) < 2 or not all(map(facts.of, names)):
        return session
    try:
        whole = site_of(facts.header)
    except MeasurementError:  # the sum of the channels is undefined: each is reported separately
        return session
    try:
        used = site_in(session.power)
    except MeasurementError as exc:
        return replace(session, checks=(*session.checks, MeterCheck(PARTS, False, reasons_of(exc))))
    if used == whole:
        return session
    left_out = whole_left_out(whole=whole.name, used=used.name)
    checks = (*session.checks, MeterCheck(PARTS, None, (left_out,)))
    return replace(session, checks=checks, left_out=whole.channels)


def _mean_power_w(facts: PowerFacts) -> float | None:
    """Mean power of the device; None if the samples span no time.

    If it is unknown which channels supply the device, all channels are added.
    """
    try:
        names = site_of(facts.header).channels  # a rail fed by another rail counts once
    except MeasurementError:
        names = tuple(channel.name for channel in facts.header.capability.channels)
    groups = [group for group in facts.groups if group.channel in names and group.node_count]
    if not groups:
        return None
    span_ns = max(group.last_ns for group in groups) - min(group.first_ns for group in groups)
    return sum(group.energy_j for group in groups) / span_ns * 1e9 if span_ns else None


def _energy(file: PowerFile, name: str, boundary: str) -> ChannelEnergy:
    groups = file.facts.of(name)
    begin_ns, end_ns = groups[0].first_ns, groups[-1].last_ns
    empty = EnergyWindow(
        energy_j=0.0, duration_s=0.0, sample_count=1, supply_v=math.nan, edge_power_w=(0.0, 0.0)
    )
    window = file.window(name, begin_ns, end_ns) if end_ns > begin_ns else empty
    peak_w = max(group.max_w for group in groups)
    # Expanded uncertainties, k = 2; a term in amperes cannot be converted without a voltage.
    u95_j = u95_w = u95_peak_w = None
    if file.header.uncertainty and window.duration_s:
        errors = MeterErrors(file.header.uncertainty)
        gross_u95_j = errors.gross_per_inference(window, 1).u95_absolute
        if math.isfinite(gross_u95_j):
            u95_j, u95_w = gross_u95_j, errors.mean_power(window).u95_absolute
            u95_peak_w = errors.sample_u95_w(peak_w, window)
    return ChannelEnergy(
        name=name,
        boundary=boundary,
        duration_s=window.duration_s,
        energy_j=window.energy_j,
        u95_absolute_j=u95_j,
        power_w_mean=window.energy_j / window.duration_s if window.duration_s else 0.0,
        power_w_mean_u95_absolute=u95_w,
        power_w_peak=peak_w,
        power_w_peak_u95_absolute=u95_peak_w,
    )
