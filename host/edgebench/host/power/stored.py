"""Recordings of meters that are there: found, judged, summed up by channel."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path

from edgebench.host.analysis.energy.checks import check_recording
from edgebench.host.analysis.energy.site import site_in, site_of
from edgebench.host.analysis.energy.uncertainty import EnergyWindow, MeterErrors
from edgebench.host.result.energy import MeterCheck
from edgebench.host.store.decode import decode_into
from edgebench.host.store.layout import POWER_FILE, RUN_FILE, Store
from edgebench.host.store.power import PowerFacts
from edgebench.host.store.power_file import PowerFile, read_power_facts
from edgebench.meters.base import Header
from edgebench.protocol.errors import MeasurementError, StoreError, UsageError
from edgebench.protocol.traces import METER_FILE

SESSIONS = "sessions"
"""Of a store: recordings for which no other place was named."""
METER_CHECKS = ("calibration", "loss", "rate")
"""What the meter itself has to show; that samples are there, and below the end of a range, any file
of numbers shows."""
PARTS = "parts"
"""MeterCheck of a meter with several rails, where they contradict their total."""


@dataclass(frozen=True, slots=True)
class ChannelEnergy:
    """What a channel took over the whole recording."""

    name: str
    boundary: str
    duration_s: float
    energy_j: float
    u95_absolute_j: float | None
    """Expanded, k = 2; None: nobody says how far the meter may be off."""
    power_w_mean: float
    power_w_mean_u95_absolute: float | None
    power_w_peak: float
    """Highest sample."""
    power_w_peak_u95_absolute: float | None


@dataclass(frozen=True, slots=True)
class Session:
    """One recording, judged."""

    directory: Path
    facts: PowerFacts
    checks: tuple[MeterCheck, ...]
    interrupted_s: float | None = None
    """When Ctrl-C ended it, seconds from its begin; None: nobody did, or that was long ago."""
    samples_directory: Path | None = None
    """Where its samples are, if not in its directory."""
    left_out: tuple[str, ...] = ()
    """Channels whose numbers contradict those of others, and are none."""

    @property
    def is_trusted(self) -> bool | None:
        """Whether its numbers may be believed; None: no check of the meter could say."""
        if any(check.is_passed is False for check in self.checks):
            return False
        told = [check for check in self.checks if check.id in METER_CHECKS]
        return None if all(check.is_passed is None for check in told) else True

    def channels(self) -> list[ChannelEnergy]:
        """The energy of each channel that gave a number which nothing contradicts."""
        return [
            _energy(
                PowerFile.open(self.samples_directory or self.directory),
                channel.name,
                channel.boundary,
            )
            for channel in self.facts.header.capability.channels
            if self.facts.of(channel.name) and channel.name not in self.left_out
        ]


def find_session(store: Store, name: str) -> Path | None:
    """The directory of a recording that this names, if it is none of the store's runs.

    Raises:
        UsageError: it is a path, and there is no recording.
        StoreError: there is something else in the place of one.
    """
    kept = store.root / SESSIONS / name
    path = kept if os.sep not in name and kept.is_dir() else Path(name)
    there = [path / file for file in (METER_FILE, POWER_FILE) if (path / file).exists()]
    is_session = bool(there) and not (path / RUN_FILE).exists()
    for file in there:
        if is_session and not file.is_file():  # who opens a pipe waits for ever
            raise StoreError(f"not a file: {file}")
    is_path = os.sep in name or name in (os.curdir, os.pardir)
    if is_path and not is_session:
        raise UsageError(f"no recording of edgebench meters there: {name}; a run goes by its id")
    return path if is_path or (is_session and not store.matching(name)) else None


@contextmanager
def stored_session(directory: Path) -> Iterator[Session]:
    """A recording that is there, judged again; samples that are missing, out of the meter's bytes.

    Raises:
        StoreError: it is damaged, or cannot be read.
    """
    with ExitStack() as stack:
        samples = directory
        if (directory / POWER_FILE).exists():
            facts = read_power_facts(directory)
        else:
            folder = tempfile.TemporaryDirectory(prefix="edgebench-show-")
            samples = Path(stack.enter_context(folder))
            facts = decode_into(samples, directory / METER_FILE).facts
        yield replace(judged(samples, facts), directory=directory, samples_directory=samples)


def judged(directory: Path, facts: PowerFacts) -> Session:
    """The recording whose samples are there, with what its checks say of it.

    Raises:
        RunDamaged: the samples cannot be read.
    """
    flags = reduce(or_, (group.flags for group in facts.groups), 0)
    checks = check_recording(facts.header, facts.loss, flags, _mean_power_w(facts))
    return _hold_parts_against_whole(Session(directory, facts, checks))


def _hold_parts_against_whole(session: Session) -> Session:
    """With a check more where the rails of a meter contradict their total, as in a run.

    A total that stands still, as that of a platform may, is left out, and its parts are kept.

    Raises:
        RunDamaged: the samples cannot be read.
    """
    facts = session.facts
    names = [channel.name for channel in facts.header.capability.channels]
    if len(names) < 2 or not all(map(facts.of, names)):
        return session
    try:
        whole = site_of(facts.header)
    except MeasurementError:  # nobody knows what they add up to: each is a number of its own
        return session
    try:
        found = site_in(PowerFile.open(session.directory))
    except MeasurementError as exc:
        return replace(session, checks=(*session.checks, MeterCheck(PARTS, False, str(exc))))
    if found == whole:
        return session
    detail = f"{whole.name} takes less than {found.name} inside of it, and is left out"
    checks = (*session.checks, MeterCheck(PARTS, None, detail))
    return replace(session, checks=checks, left_out=whole.channels)


def _mean_power_w(facts: PowerFacts) -> float | None:
    """Of the channels that add up to the device, else of all; None: no time between samples."""
    names = _added_up(facts.header)
    groups = [one for one in facts.groups if one.channel in names and one.node_count]
    if not groups:
        return None
    span_ns = max(one.last_ns for one in groups) - min(one.first_ns for one in groups)
    return sum(one.energy_j for one in groups) / span_ns * 1e9 if span_ns else None


def _added_up(header: Header) -> tuple[str, ...]:
    """A rail that another one feeds is not counted twice."""
    try:
        return site_of(header).channels
    except MeasurementError:
        return tuple(channel.name for channel in header.capability.channels)


def _energy(file: PowerFile, name: str, boundary: str) -> ChannelEnergy:
    groups = file.facts.of(name)
    begin_ns, end_ns = groups[0].first_ns, groups[-1].last_ns
    empty = EnergyWindow(
        energy_j=0.0, duration_s=0.0, sample_count=1, supply_v=math.nan, edge_power_w=(0.0, 0.0)
    )
    window = file.window(name, begin_ns, end_ns) if end_ns > begin_ns else empty
    peak_w = max(group.max_w for group in groups)
    u95_j, u95_w, u95_peak_w = _uncertainty(file.header, window, peak_w)
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


def _uncertainty(
    header: Header, window: EnergyWindow, peak_w: float
) -> tuple[float | None, float | None, float | None]:
    """Of energy, mean and highest power, k = 2, as those of a run; None where it is not known."""
    if not header.uncertainty or not window.duration_s:
        return None, None, None
    errors = MeterErrors(header.uncertainty)
    u95_j = errors.gross_per_inference(window, 1).u95_absolute
    if not math.isfinite(u95_j):
        return None, None, None  # a term in amperes says nothing where no voltage is known
    return u95_j, errors.mean_power(window).u95_absolute, errors.sample_u95_w(peak_w, window)
