"""All methods to align a meter's trace with a run, and the choice of the best.

shared_clock   the agent polled the meter itself: nothing to convert
probes         device → host by two-way probes; the meter's samples have the host's timestamps
arrival        device → host by probes, host → meter by the arrival times of samples. The delay of
               the samples is unknown, but is at most the maximum delay of USB and host
edge           pulses on a wire
coded_load     a load code found in the power
loop           the start and end of the loop, if the code is not found

Only methods with marks (edge, coded_load, loop) bound the delay of the samples. So if the device
played a code and the code is not found in the trace, arrivals alone are not accepted as an
alignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from edgebench.host.analysis.energy.integrate import Floats, Nanoseconds
from edgebench.host.analysis.energy.power_trace import PowerTrace
from edgebench.host.analysis.energy.refusal import EnergyRefused, reasons_of
from edgebench.host.analysis.energy.sync.alignment import (
    Alignment,
    ClockLine,
    after_arrival,
    host_line,
)
from edgebench.host.analysis.energy.sync.edges import align_edges
from edgebench.host.analysis.energy.sync.load_code import ONE_CODE_DRIFT, SEARCH_NS, align_code
from edgebench.host.analysis.energy.sync.loop_edges import LoopTimes, align_loop
from edgebench.host.result.energy import SYNTHETIC, EnergySync, SyncAttempt, SyncMethod
from edgebench.host.result.reason import Reason
from edgebench.host.result.reasons import alignment as reasons
from edgebench.host.result.reasons.energy import stated
from edgebench.meters.polled import HOST_CLOCK
from edgebench.protocol.clock import ClockModel
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.record import SyncFacts

PROBE_NS = 100e3
"""Minimum error of probes, even with steady clocks, a symmetric link and short round trips."""
CLOCK_RESIDUAL_FACTOR = 3.0
"""If the probes' residual exceeds the expected residual by this factor, a clock was set or was
suspended during the run."""
_PRECEDENCE = (
    (SyncMethod.EDGE, SyncMethod.CODED_LOAD),
    (SyncMethod.EDGE, SyncMethod.ARRIVAL),
    (SyncMethod.CODED_LOAD, SyncMethod.ARRIVAL),
    (SyncMethod.LOOP, SyncMethod.ARRIVAL),
)
"""Pairs of methods that are checked for contradiction, each with the stronger method first."""
_BETTER_MARKS = SyncMethod.EDGE, SyncMethod.CODED_LOAD
"""Methods with better marks than the loop: if any of them succeeds, the loop is not searched."""


@dataclass(frozen=True, slots=True)
class SyncChoice:
    """Best alignment and all methods that were tried."""

    best: Alignment | None
    tried: tuple[SyncAttempt, ...]
    wanted: SyncMethod | None = None

    @property
    def result(self) -> EnergySync:
        """The choice as stored in the result of the run."""
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
class RunClocks:
    """Clock information of a run, in addition to the marks."""

    probes: ClockModel | None
    """Model of host clock and device clock."""
    is_meter_on_device: bool
    """Whether the agent recorded the meter. Arrivals and polls then have timestamps of the device's
    clock."""
    span_ns: tuple[int, int]
    """First and last device time for which an error bound must hold."""
    loop: LoopTimes | None = None
    """Start and end of the loop; None if the device was not idle around the loop."""
    place: ClockLine | None = None
    """Line from the device's clock to a trace with an unknown clock, found from the load codes.
    None for a meter that edgebench operated."""


def find_sync(
    power: PowerTrace,
    channel: str,
    marks: SyncFacts,
    clocks: RunClocks,
    wanted: SyncMethod | None = None,
) -> SyncChoice:
    """Try every method, and choose the method with the smallest error, or the requested method.

    A requested method is still compared with the others: a contradicted method is not used even if
    it was requested.
    """
    methods = dict(_Methods(power, channel, marks, clocks).all())
    alignments: dict[SyncMethod, Alignment] = {}
    tried: list[SyncAttempt] = []
    if wanted is not None and wanted not in methods:
        domain = power.header.capability.clock_domain
        tried.append(SyncAttempt(wanted, None, (reasons.not_of_this_meter(clock=domain),)))
    for method, align in methods.items():
        is_known = any(method in alignments for method in _BETTER_MARKS)
        if method is SyncMethod.LOOP and is_known and wanted is not SyncMethod.LOOP:
            continue
        try:
            alignment = align()
        except MeasurementError as exc:
            tried.append(SyncAttempt(method, None, reasons_of(exc)))
            continue
        tried.append(SyncAttempt(method, alignment.error_ns))
        alignments[method] = alignment
    wrong = _contradicted(alignments)
    is_played = bool(marks.codes) and SyncMethod.CODED_LOAD in methods
    if (
        is_played
        and not is_made_up(power)
        and not any(method in alignments and method not in wrong for method in _BETTER_MARKS)
    ):
        wrong.setdefault(SyncMethod.ARRIVAL, reasons.lateness_unbounded())
    tried = [
        SyncAttempt(attempt.method, None, (wrong[attempt.method],))
        if attempt.method in wrong and attempt.error_ns is not None
        else attempt
        for attempt in tried
    ]
    usable = [
        alignment
        for method, alignment in alignments.items()
        if method not in wrong and wanted in (None, method)
    ]
    best = min(usable, key=lambda alignment: alignment.error_ns, default=None)
    return SyncChoice(best, tuple(tried), wanted)


def is_made_up(power: PowerTrace) -> bool:
    """Whether the power is synthetic, and so neither depends on the device nor is buffered."""
    return all(channel.boundary == SYNTHETIC for channel in power.header.capability.channels)


def _contradicted(alignments: Mapping[SyncMethod, Alignment]) -> dict[SyncMethod, Reason]:
    """Reason of the contradiction, for each method that a stronger method contradicts.

    A wire takes precedence over a pattern in the power. Both take precedence over arrivals, which
    do not show the delay that a buffer between meter and host causes.
    """
    wrong: dict[SyncMethod, Reason] = {}
    for stronger, weaker in _PRECEDENCE:
        one, other = alignments.get(stronger), alignments.get(weaker)
        if one is None or other is None or stronger in wrong or weaker in wrong:
            continue
        # How much later the stronger method places a moment in the meter's trace.
        when_ns = one.line.reference_ns
        later_ns = int(one.line.to_meter(when_ns) - other.line.to_meter(when_ns))
        if abs(later_ns) <= one.error_ns + other.error_ns:
            continue
        if weaker is not SyncMethod.ARRIVAL:
            wrong[weaker] = reasons.off_stronger(off_ns=abs(later_ns), stronger=stronger.value)
        elif later_ns > 0:
            wrong[weaker] = reasons.late_samples(late_ns=later_ns, stronger=stronger.value)
        else:
            # No sample can arrive before it is taken.
            wrong[stronger] = reasons.samples_before_taken(early_ns=-later_ns)
    return wrong


@dataclass(frozen=True, slots=True)
class _Methods:
    power: PowerTrace
    channel: str
    marks: SyncFacts
    clocks: RunClocks

    def all(self) -> Iterator[tuple[SyncMethod, Callable[[], Alignment]]]:
        """Each method that is possible with the meter, with its alignment function."""
        capability = self.power.header.capability
        if self.clocks.place is not None:
            pass  # a file contains no arrival times
        elif capability.clock_domain != HOST_CLOCK:
            yield SyncMethod.ARRIVAL, self._arrival
        elif self.clocks.is_meter_on_device:
            yield SyncMethod.SHARED_CLOCK, self._shared_clock
        else:
            yield SyncMethod.PROBES, self._probes
        if capability.digital_count:
            yield SyncMethod.EDGE, self._edge
        # A meter that smooths over more than a chip cannot resolve the code.
        chips_ns = [e - b for code in self.marks.codes for b, e in pairwise(code.edges_ns)]
        if not chips_ns or (capability.smoothing_s or 0.0) * 1e9 <= min(chips_ns):
            yield SyncMethod.CODED_LOAD, self._coded_load
        has_loop = self.clocks.loop is not None and not is_made_up(self.power)
        if capability.clock_domain != HOST_CLOCK and has_loop:
            yield SyncMethod.LOOP, self._loop

    def _shared_clock(self) -> Alignment:
        return Alignment(SyncMethod.SHARED_CLOCK, ClockLine(0, 0.0), 0.0)

    def _probes(self) -> Alignment:
        """Alignment from probes of the device's clock.

        The error is the larger of the errors at the two ends of the span. If the host disconnected,
        all probes are earlier than the end of the run.
        """
        model = self.clocks.probes
        if model is None:
            raise EnergyRefused(reasons.not_probed())
        explained_ns = model.error_ns - model.residual_ns + PROBE_NS
        if model.residual_ns > CLOCK_RESIDUAL_FACTOR * explained_ns:
            raise EnergyRefused(
                reasons.probes_off_line(
                    off_ns=model.residual_ns, limit_ns=CLOCK_RESIDUAL_FACTOR * explained_ns
                )
            )
        error_ns = max(model.error_ns_at(model.to_host(at_ns)) for at_ns in self.clocks.span_ns)
        return Alignment(SyncMethod.PROBES, host_line(model), error_ns)

    def _arrival(self) -> Alignment:
        arrival, late_s = self.power.arrival, self.power.header.capability.arrival_error_s
        if arrival is None or late_s is None:
            raise EnergyRefused(reasons.arrival_unknown())
        # Arrivals have the timestamps of the recording program.
        is_local = self.clocks.is_meter_on_device
        to_reader = self._shared_clock() if is_local else self._probes()
        return Alignment(
            SyncMethod.ARRIVAL,
            after_arrival(to_reader.line, arrival),
            1e9 * late_s + to_reader.error_ns + arrival.residual_ns,
            arrival.residual_ns,
        )

    def _guess(self) -> ClockLine:
        """The known position of the codes, or else the line of the first method without marks."""
        if self.clocks.place is not None:
            return self.clocks.place
        _, align = next(self.all())
        return align().line

    def _edge(self) -> Alignment:
        if not self.marks.pulses:
            error = self.marks.error
            raise EnergyRefused(stated(text=error) if error else reasons.no_line_to_meter())
        period_ns = 1e9 / self.power.header.capability.rate_hz
        slope = None
        if self.power.arrival:
            # Arrivals give the rate of the meter's clock; without them, the pulses give it.
            with suppress(MeasurementError):
                slope = self._guess().slope
        return align_edges(self.marks, self.power.falling_edges(), period_ns, slope)

    def _coded_load(self) -> Alignment:
        if not self.marks.codes:
            raise EnergyRefused(reasons.no_code_played())
        alignment = align_code(
            self.marks.codes,
            self._cumulative_j,
            self._guess(),
            span_ns=self.clocks.span_ns,
            drift=self._drift,
            # The codes of a file were located before, and other runs may be nearby.
            search_ns=SEARCH_NS if self.clocks.place is None else 0.0,
        )
        return self._blurred(alignment)

    def _loop(self) -> Alignment:
        assert self.clocks.loop is not None
        capability = self.power.header.capability
        alignment = align_loop(
            self.clocks.loop,
            self._cumulative_j,
            self._guess(),
            span_ns=self.clocks.span_ns,
            drift=self._drift,
            sample_ns=1e9 * max(1 / capability.rate_hz, capability.smoothing_s or 0.0),
        )
        return self._blurred(alignment)

    @property
    def _drift(self) -> float:
        """Error of a rate from arrivals, plus the error of the device's rate from probes."""
        model = self.clocks.probes
        slope_error = 0.0 if self.clocks.is_meter_on_device or not model else model.slope_error
        return ONE_CODE_DRIFT + slope_error

    def _blurred(self, alignment: Alignment) -> Alignment:
        """The alignment, with half of the meter's smoothing time added to its error."""
        blur_s = self.power.header.capability.smoothing_s or 0.0
        return replace(alignment, error_ns=alignment.error_ns + 1e9 * blur_s / 2)

    def _cumulative_j(self, time_ns: Nanoseconds) -> Floats:
        """Energy up to each time; NaN outside the recording."""
        first_ns, last_ns = self.power.span_ns(self.channel)
        energy_j = np.full(len(time_ns), np.nan)
        is_inside = (time_ns >= first_ns) & (time_ns <= last_ns)
        if is_inside.any():
            energy_j[is_inside] = self.power.cumulative_j(self.channel, time_ns[is_inside])
        return energy_j
