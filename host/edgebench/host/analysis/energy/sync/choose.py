"""Every way to lay a meter's trace over a run, and the best of them.

shared_clock   the agent polled the meter itself: nothing to convert
probes         device → host by two-way probes; the meter's samples have the host's times
arrival        device → host by probes, host → meter by when samples came, late by an unknown
               part of what USB and the host may take
edge           pulses on a wire
coded_load     a code that is seen in the power
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from edgebench.host.analysis.energy.integrate import Floats, Nanoseconds
from edgebench.host.analysis.energy.power_trace import PowerTrace
from edgebench.host.analysis.energy.sync.alignment import (
    Alignment,
    ClockLine,
    after_arrival,
    host_line,
)
from edgebench.host.analysis.energy.sync.edges import align_edges
from edgebench.host.analysis.energy.sync.load_code import ONE_CODE_DRIFT, align_code
from edgebench.host.result.energy import EnergySync, SyncAttempt, SyncMethod
from edgebench.meters.polled import HOST_CLOCK
from edgebench.protocol.clock import ClockModel
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.record import SyncFacts

PROBE_NS = 100e3
"""What a steady clock and an honest link may be off, whatever the round trips say."""
RESIDUAL_FACTOR = 3.0
"""Times what is expected: more, and one of the clocks was set, or sleeps."""


@dataclass(frozen=True, slots=True)
class Sync:
    """The best alignment, and all that were tried."""

    best: Alignment | None
    tried: tuple[SyncAttempt, ...]
    wanted: SyncMethod | None = None

    @property
    def result(self) -> EnergySync:
        """What the run keeps of it."""
        best = self.best
        if best is None:
            return EnergySync(asked=self.wanted, tried=self.tried)
        return EnergySync(
            method=best.method,
            asked=self.wanted,
            error_ns=best.error_ns,
            residual_ns=best.residual_ns,
            mark_count=best.mark_count,
            slope_ppm=best.line.slope * 1e6,
            reference_ns=best.line.reference_ns,
            offset_ns=best.line.offset_ns,
            tried=self.tried,
        )


@dataclass(frozen=True, slots=True)
class Clocks:
    """What is known of the clocks of a run beside the marks."""

    probes: ClockModel | None
    """Host and device."""
    is_meter_beside_device: bool
    """The agent recorded it: arrivals and polls have the device's times."""
    span_ns: tuple[int, int]
    """First and last device time that is asked for: errors have to hold that far."""


def find_sync(
    power: PowerTrace,
    channel: str,
    marks: SyncFacts,
    clocks: Clocks,
    wanted: SyncMethod | None = None,
) -> Sync:
    """Try every method; the best is the one with the least error, or the one that is wanted.

    A method that is wanted is held against the others all the same: what they contradict is not
    true for being asked for.
    """
    methods = _Methods(power, channel, marks, clocks)
    found: list[Alignment] = []
    tried: list[SyncAttempt] = []
    if wanted is not None and wanted not in dict(methods.all()):
        domain = power.header.capability.clock_domain
        tried.append(
            SyncAttempt(
                method=wanted,
                error_ns=None,
                reason=f"not a way for a meter with the clock {domain}",
            )
        )
    for method, attempt in methods.all():
        try:
            alignment = attempt()
        except MeasurementError as exc:
            tried.append(SyncAttempt(method, None, str(exc)))
            continue
        tried.append(SyncAttempt(method, alignment.error_ns))
        found.append(alignment)
    found, tried = _without_contradicted(found, tried)
    usable = [one for one in found if wanted in (None, one.method)]
    best = min(usable, key=lambda one: one.error_ns, default=None)
    return Sync(best, tuple(tried), wanted)


def _without_contradicted(
    found: list[Alignment], tried: list[SyncAttempt]
) -> tuple[list[Alignment], list[SyncAttempt]]:
    """Drop what another method shows to be wrong.

    A wire is believed before a pattern in the power, and either before arrivals, since a buffer on
    the way never shows in those.
    """
    by_method = {one.method: one for one in found}
    wrong: dict[SyncMethod, str] = {}
    for stronger, weaker in _PRECEDENCE:
        one, other = by_method.get(stronger), by_method.get(weaker)
        if one is None or other is None or stronger in wrong or weaker in wrong:
            continue
        if reason := _contradiction(one, other):
            loser = weaker if weaker is not SyncMethod.ARRIVAL or _is_late(one, other) else stronger
            wrong[loser] = reason
    return (
        [one for one in found if one.method not in wrong],
        [replace(one, error_ns=None, reason=wrong[one.method]) if one.method in wrong else one
         for one in tried],
    )  # fmt: skip


_PRECEDENCE = (
    (SyncMethod.EDGE, SyncMethod.CODED_LOAD),
    (SyncMethod.EDGE, SyncMethod.ARRIVAL),
    (SyncMethod.CODED_LOAD, SyncMethod.ARRIVAL),
)


def _contradiction(one: Alignment, other: Alignment) -> str | None:
    """By how much two methods are apart, if by more than both may be wrong."""
    off_ns = _later_ns(one, other)
    if abs(off_ns) <= one.error_ns + other.error_ns:
        return None
    if other.method is not SyncMethod.ARRIVAL:
        return f"{abs(off_ns) / 1e6:.3g} ms off {one.method.value}"
    if off_ns > 0:
        return f"samples wait {off_ns / 1e6:.3g} ms on their way, as {one.method.value} shows"
    return f"samples would have come {-off_ns / 1e6:.3g} ms before they were taken"


def _later_ns(one: Alignment, other: Alignment) -> int:
    """How much later a moment is in the meter's trace by one method than by the other."""
    when_ns = one.line.reference_ns
    return int(one.line.to_meter(when_ns) - other.line.to_meter(when_ns))


def _is_late(marked: Alignment, arrival: Alignment) -> bool:
    """Whether samples came after they were taken, as they must."""
    return _later_ns(marked, arrival) > 0


@dataclass(frozen=True, slots=True)
class _Methods:
    power: PowerTrace
    channel: str
    marks: SyncFacts
    clocks: Clocks

    def all(self) -> Iterator[tuple[SyncMethod, Callable[[], Alignment]]]:
        """Those that the meter can have at all."""
        capability = self.power.header.capability
        if capability.clock_domain == HOST_CLOCK:
            if self.clocks.is_meter_beside_device:
                yield SyncMethod.SHARED_CLOCK, self._shared
            else:
                yield SyncMethod.PROBES, self._probes
        else:
            yield SyncMethod.ARRIVAL, self._arrival
        if capability.digital_count:
            yield SyncMethod.EDGE, self._edge
        if not self._is_smeared():
            yield SyncMethod.CODED_LOAD, self._code

    def _is_smeared(self) -> bool:
        """Whether a chip is over before the meter has seen that it began."""
        chips_ns = [e - b for code in self.marks.codes for b, e in pairwise(code.edges_ns)]
        smoothing_s = self.power.header.capability.smoothing_s or 0.0
        return bool(chips_ns) and smoothing_s * 1e9 > min(chips_ns)

    def _shared(self) -> Alignment:
        return Alignment(SyncMethod.SHARED_CLOCK, ClockLine(0, 0.0), 0.0)

    def _probes(self) -> Alignment:
        model = self._model()
        return Alignment(SyncMethod.PROBES, host_line(model), self._probes_error_ns(model))

    def _probes_error_ns(self, model: ClockModel) -> float:
        """At the worse end of what is asked for: a host that went away has probes of before."""
        return max(model.error_ns_at(model.to_host(time_ns)) for time_ns in self.clocks.span_ns)

    def _model(self) -> ClockModel:
        model = self.clocks.probes
        if model is None:
            raise MeasurementError("the device's clock was not probed")
        explained_ns = model.error_ns - model.residual_ns + PROBE_NS
        if model.residual_ns > RESIDUAL_FACTOR * explained_ns:
            raise MeasurementError(
                f"probes of the device's clock are {model.residual_ns / 1e6:.3g} ms off the line "
                f"through them, limit {RESIDUAL_FACTOR * explained_ns / 1e6:.3g} ms"
            )
        return model

    def _arrival(self) -> Alignment:
        arrival, late_s = self.power.arrival, self.power.header.capability.arrival_error_s
        if arrival is None or late_s is None:
            raise MeasurementError("when samples came says nothing of when they were taken")
        to_reader, reader_ns = ClockLine(0, 0.0), 0.0
        if not self.clocks.is_meter_beside_device:
            model = self._model()
            to_reader, reader_ns = host_line(model), self._probes_error_ns(model)
        return Alignment(
            SyncMethod.ARRIVAL,
            after_arrival(to_reader, arrival),
            1e9 * late_s + reader_ns + arrival.residual_ns,
            arrival.residual_ns,
        )

    def _guess(self) -> ClockLine:
        """By any way that needs no mark."""
        for method, attempt in self.all():
            if method not in (SyncMethod.EDGE, SyncMethod.CODED_LOAD):
                return attempt().line
        raise MeasurementError("nothing tells where to look")

    def _edge(self) -> Alignment:
        if not self.marks.pulses:
            raise MeasurementError(self.marks.error or "the device has no line to the meter")
        period_ns = 1e9 / self.power.header.capability.rate_hz
        return align_edges(self.marks, self.power.falling_edges(), period_ns, self._slope())

    def _slope(self) -> float | None:
        """Of the meter's clock, as arrivals tell it; the pulses themselves need no other clock."""
        try:
            return self._guess().slope if self.power.arrival else None
        except MeasurementError:
            return None

    def _code(self) -> Alignment:
        if not self.marks.codes:
            raise MeasurementError("the device played no code of work and rest")
        found = align_code(
            self.marks.codes,
            self._cumulative,
            self._guess(),
            span_ns=self.clocks.span_ns,
            drift=ONE_CODE_DRIFT + self._drift(),
        )
        # A sample may be of any time of its period, or smoothed over more.
        blur_s = self.power.header.capability.smoothing_s or 0.0
        return replace(found, error_ns=found.error_ns + 1e9 * blur_s / 2)

    def _drift(self) -> float:
        """By which the probes may mistake the rate of the device's clock."""
        model = self.clocks.probes
        return 0.0 if self.clocks.is_meter_beside_device or not model else model.slope_error

    def _cumulative(self, time_ns: Nanoseconds) -> Floats:
        """Energy, and NaN outside of what was recorded."""
        first_ns, last_ns = self.power.span_ns(self.channel)
        found = np.full(len(time_ns), np.nan)
        is_inside = (time_ns >= first_ns) & (time_ns <= last_ns)
        if is_inside.any():
            found[is_inside] = self.power.cumulative_j(self.channel, time_ns[is_inside])
        return found
