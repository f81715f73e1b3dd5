"""A session of an energy meter on its own: record, decode, judge."""

from __future__ import annotations

import logging
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from pathlib import Path

from edgebench.host.analysis.energy import EnergyWindow, MeterErrors
from edgebench.host.analysis.meter_checks import Check, check_recording
from edgebench.host.analysis.site import site_in, site_of
from edgebench.host.store.layout import POWER_FILE, RUN_FILE, Store
from edgebench.host.store.power import PowerFacts
from edgebench.host.store.power_file import PowerFile, read_power_facts
from edgebench.host.store.recording import write_power
from edgebench.host.store.verify import decode_into
from edgebench.meters.base import Header, Meter, MeterSession, Missing
from edgebench.meters.registry import DRIVERS, find_meter
from edgebench.protocol.errors import (
    EdgebenchError,
    MeasurementError,
    NoSuchMeter,
    StoreError,
    TargetError,
    UsageError,
)
from edgebench.protocol.traces import METER_FILE

logger = logging.getLogger(__name__)

SESSIONS = "sessions"
"""Of a store: recordings for which no other place was named."""
TICK_S = 0.1
METER_CHECKS = ("calibration", "loss", "rate")
"""What the meter itself has to show; that samples are there, and below the end of a range, any file
of numbers shows."""
PARTS = "parts"
"""Check of a meter with several rails, where they contradict their total."""
_TAKEN_BY = {POWER_FILE: "a recording", METER_FILE: "a recording of a meter", RUN_FILE: "a run"}
OnTick = Callable[[float], None]
"""Called with the seconds that have passed."""


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


@dataclass(frozen=True, slots=True)
class Session:
    """One recording, judged."""

    directory: Path
    facts: PowerFacts
    checks: tuple[Check, ...]
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


def open_meter(text: str) -> tuple[Meter, Header]:
    """Find and open the meter that `--meter` names.

    Raises:
        NoSuchMeter: no driver has that name, or the meter cannot be used.
        UsageError: an option is wrong.
        TargetError: whatever else its driver or a library of it raises.
    """
    if text.startswith("agent:"):
        raise UsageError(
            f"meter {text} is one of a device's agent, which records it in runs only: bench a "
            "model with it, or look at it on the device"
        )
    meter = find_meter(text)
    try:
        with _in_one_line(meter):
            header = meter.open()
    except BaseException:  # Ctrl-C as well: a port stays taken, a driver of the kernel's away
        _let_go(meter)
        raise
    if isinstance(header, Missing):
        raise NoSuchMeter(f"meter {meter.name} cannot be used: {header.reason}")
    return meter, header


def look_at_meters() -> dict[str, Header | Missing]:
    """What there is of each driver's meters; one that fails keeps no other from being told."""
    found: dict[str, Header | Missing] = {}
    for name in DRIVERS:
        meter = find_meter(name)
        try:
            with _in_one_line(meter):
                found[name] = meter.open()
        except EdgebenchError as exc:
            found[name] = Missing(str(exc))
        finally:
            _let_go(meter)
    return found


def _let_go(meter: Meter) -> None:
    """Close it; what fails then is no news of a meter that was only looked at, or did not open."""
    try:
        meter.close()
    except Exception:
        logger.exception("meter %s", meter.name)


def begin_session(stack: ExitStack, meter: Meter, path: Path) -> MeterSession:
    """Let a meter record into a file, until the stack is closed.

    Raises:
        StoreError: the file cannot be written.
        TargetError: the meter does not record; whatever its driver or a library of it raises.
    """
    with _in_one_line(meter):
        session = meter.session(path)
        stack.enter_context(session)
    return session


@contextmanager
def _in_one_line(meter: Meter) -> Iterator[None]:
    """What a driver's library raises, or a mistake of ours, is one line to the user."""
    try:
        yield
    except EdgebenchError:
        raise
    except Exception as exc:
        logger.exception("meter %s", meter.name)
        said = " ".join(str(exc).split())[:200]
        raise TargetError(f"the meter's driver failed: {said or type(exc).__name__}") from exc


def record(meter: Meter, directory: Path, duration_s: float, on_tick: OnTick) -> Session:
    """Record for so long, or until the meter or the user ends it; what was recorded is kept.

    Raises:
        UsageError: that is no time.
        StoreError: the directory cannot be written.
        TargetError: the meter does not record.
    """
    if duration_s <= 0:
        raise UsageError(f"duration must be > 0 s, got {duration_s:g}")
    path = directory / METER_FILE
    interrupted_s = None
    with _directory_for(directory), ExitStack() as stack:
        session = begin_session(stack, meter, path)
        began_s = time.monotonic()
        try:
            while (passed_s := time.monotonic() - began_s) < duration_s:
                if session.trouble is not None:
                    break
                on_tick(passed_s)
                time.sleep(min(TICK_S, duration_s - passed_s))
        except KeyboardInterrupt:
            interrupted_s = time.monotonic() - began_s
    try:
        facts = write_power(directory, session.recording())
    except OSError as exc:
        raise StoreError(f"samples cannot be written: {said_by(exc)}; kept: {path}") from exc
    return replace(judged(directory, facts), interrupted_s=interrupted_s)


def refuse_taken(directory: Path) -> None:
    """Keep a recording out of a directory in which it would be taken for something else.

    Raises:
        StoreError: it holds a recording or a run.
    """
    for name, what in _TAKEN_BY.items():
        if os.path.lexists(taken := directory / name):
            raise StoreError(f"there is {what} already: {taken}")


@contextmanager
def _directory_for(directory: Path) -> Iterator[None]:
    """The directory, made if need be; one in which nothing was begun goes again.

    Raises:
        StoreError: it cannot be made, or holds a recording or a run.
    """
    refuse_taken(directory)
    is_new = not directory.exists()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise StoreError(f"recording cannot be written: {said_by(exc)}: {directory}") from exc
    try:
        yield
    except BaseException:  # Ctrl-C as well
        if is_new:
            with suppress(OSError):  # something is in it
                directory.rmdir()
        raise


def said_by(error: OSError) -> str:
    """What the system says; a library has more words for it."""
    return os.strerror(error.errno) if error.errno else error.strerror or str(error)


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
            facts = decode_into(samples, directory / METER_FILE)
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
        return replace(session, checks=(*session.checks, Check(PARTS, False, str(exc))))
    if found == whole:
        return session
    detail = f"{whole.name} takes less than {found.name} inside of it, and is left out"
    checks = (*session.checks, Check(PARTS, None, detail))
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
    u95_j, u95_w = _uncertainty(file.header, window)
    return ChannelEnergy(
        name=name,
        boundary=boundary,
        duration_s=window.duration_s,
        energy_j=window.energy_j,
        u95_absolute_j=u95_j,
        power_w_mean=window.energy_j / window.duration_s if window.duration_s else 0.0,
        power_w_mean_u95_absolute=u95_w,
        power_w_peak=max(group.max_w for group in groups),
    )


def _uncertainty(header: Header, window: EnergyWindow) -> tuple[float | None, float | None]:
    """Of energy and mean power, k = 2, as those of a run; None where it is not known."""
    if not header.uncertainty or not window.duration_s:
        return None, None
    errors = MeterErrors(header.uncertainty)
    found = errors.gross_per_inference(window, 1), errors.mean_power(window)
    u95_j, u95_w = (one.u95_absolute for one in found)
    # A term in amperes says nothing where the voltage is not known.
    return (u95_j, u95_w) if math.isfinite(u95_j) else (None, None)
