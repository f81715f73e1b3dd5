"""A session of an energy meter on its own: record, decode, judge."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from pathlib import Path

from edgebench.host.analysis.meter_checks import Check, check_recording
from edgebench.host.store.power import PowerFacts, write_power
from edgebench.host.store.power_file import PowerFile
from edgebench.meters.base import Header, Meter, Missing
from edgebench.meters.registry import find_meter
from edgebench.protocol.errors import NoSuchMeter, StoreError
from edgebench.protocol.traces import METER_FILE

TICK_S = 0.1
OnTick = Callable[[float], None]
"""Called with the seconds that have passed."""


@dataclass(frozen=True, slots=True)
class ChannelEnergy:
    """What a channel took over the whole recording."""

    name: str
    boundary: str
    duration_s: float
    energy_j: float
    power_w_mean: float
    power_w_peak: float


@dataclass(frozen=True, slots=True)
class Session:
    """One recording, judged."""

    directory: Path
    facts: PowerFacts
    checks: tuple[Check, ...]

    @property
    def is_trusted(self) -> bool:
        """Whether its numbers may be printed."""
        return all(check.is_passed is not False for check in self.checks)

    def channels(self) -> list[ChannelEnergy]:
        """The energy of each channel that gave a number."""
        return [
            _energy(PowerFile.open(self.directory), channel.name, channel.boundary)
            for channel in self.facts.header.capability.channels
            if self.facts.of(channel.name)
        ]


def open_meter(text: str) -> tuple[Meter, Header]:
    """Find and open the meter that `--meter` names.

    Raises:
        NoSuchMeter: no driver has that name, or the meter cannot be used.
        UsageError: an option is wrong.
    """
    meter = find_meter(text)
    header = meter.open()
    if isinstance(header, Missing):
        raise NoSuchMeter(f"meter {meter.name} cannot be used: {header.reason}")
    return meter, header


def record(meter: Meter, directory: Path, duration_s: float, on_tick: OnTick) -> Session:
    """Record for so long, or until the meter or the user ends it; what was recorded is kept.

    Raises:
        StoreError: the directory cannot be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        session = meter.session(directory / METER_FILE)
        with session:
            began_s = time.monotonic()
            try:
                while (passed_s := time.monotonic() - began_s) < duration_s:
                    if session.trouble is not None:
                        break
                    on_tick(passed_s)
                    time.sleep(min(TICK_S, duration_s - passed_s))
            except KeyboardInterrupt:
                pass  # as if it had been asked for so long: the rest is said by the caller
        facts = write_power(directory, session.recording())
    except OSError as exc:
        raise StoreError(f"recording cannot be written: {exc.strerror}: {directory}") from exc
    return Session(directory, facts, check_facts(facts))


def check_facts(facts: PowerFacts) -> tuple[Check, ...]:
    """Judge a recording."""
    flags = reduce(or_, (group.flags for group in facts.groups), 0)
    return check_recording(facts.header, facts.loss, flags)


def _energy(file: PowerFile, name: str, boundary: str) -> ChannelEnergy:
    groups = file.facts.of(name)
    begin_ns, end_ns = groups[0].first_ns, groups[-1].last_ns
    duration_s = (end_ns - begin_ns) / 1e9
    energy_j = file.energy_j(name, begin_ns, end_ns) if duration_s > 0 else 0.0
    return ChannelEnergy(
        name=name,
        boundary=boundary,
        duration_s=duration_s,
        energy_j=energy_j,
        power_w_mean=energy_j / duration_s if duration_s > 0 else 0.0,
        power_w_peak=max(group.max_w for group in groups),
    )
