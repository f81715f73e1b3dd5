"""Windows of a run on the device's clock, aligned with a meter's trace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from edgebench.host.analysis.energy.in_step import (
    FOLD_SAMPLES,
    Loop,
    has_own_clock,
    in_step_ratio,
    samples_instants,
    ticks_w,
)
from edgebench.host.analysis.energy.power_trace import PowerTrace
from edgebench.host.analysis.energy.refusal import EnergyRefused, WindowTooShort
from edgebench.host.analysis.energy.seen import SeenMeter
from edgebench.host.analysis.energy.site import Site
from edgebench.host.analysis.energy.sync.alignment import Alignment
from edgebench.host.analysis.energy.sync.loop_edges import LoopTimes
from edgebench.host.analysis.energy.uncertainty import EnergyWindow
from edgebench.host.analysis.energy.unsampled import (
    LEVELS_PER_WINDOW,
    ClockDifference,
    IdleChips,
    PowerLevels,
    unsampled_w,
)
from edgebench.host.analysis.latency.queries import Queries
from edgebench.host.result.energy import SyncMethod
from edgebench.host.result.reason import Reason
from edgebench.host.result.reasons.energy import samples_missing, window_too_short
from edgebench.meters.base import Capability
from edgebench.meters.uncertainty import Kind
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.record import IDLE_ENDED, Event, LoadCode, Phase, SyncFacts

EDGE_LIMIT_RATIO = 0.05
"""Maximum error of a window's ends, relative to its length."""
MIN_SAMPLES = 20
"""Minimum number of samples in a window; with fewer samples, meter errors dominate its energy."""
MISSING_LIMIT_RATIO = 1e-3
"""Maximum share of a window, or of a recording, that may lack samples."""
CODES_OF_RUN = 2
"""Number of load codes of a complete run, one before the warm-up and one after the loop."""
EDGE_PIECES = 8
"""The interval in which a window may end is cut into this many pieces, to find the highest
power."""
AROUND = 50
"""Divisor of the sample interval. The mean power within the quotient on either side of a sample
counts as the power of the sample."""
IDLE_BEGIN_RATIO, IDLE_END_RATIO = 0.2, 0.05
"""Shares of an idle window that are discarded. The start is discarded because the device settles,
and the end because the time of the end has an error."""


def shortest_window_s(capability: Capability) -> float:
    """Shortest window that a meter can resolve, even with a perfectly synchronised clock."""
    return max(capability.min_window_s, MIN_SAMPLES / capability.rate_hz)


@dataclass(frozen=True, slots=True)
class TimedQueries:
    """Queries of a run, and the first row of the timed window."""

    queries: Queries
    first_row: int
    has_gaps: bool = False
    """Whether the loop made random gaps between queries."""

    @property
    def gaps_s(self) -> float:
        """Total time of the gaps between the timed inferences; 0 if the loop made none."""
        return float(np.sum(self.queries.gaps_ns(self.first_row))) / 1e9 if self.has_gaps else 0.0

    @property
    def stretch_count(self) -> int:
        """Number of stretches into which gaps divide the timed inferences; 1 without gaps."""
        return 1 + int(np.count_nonzero(self.queries.gaps_ns(self.first_row))) * self.has_gaps

    @property
    def count(self) -> int:
        """Number of timed inferences."""
        return len(self.queries) - self.first_row

    @property
    def window_ns(self) -> tuple[int, int]:
        """First start and last end of the timed inferences, device clock."""
        return int(self.queries.start_ns[self.first_row]), int(self.queries.end_ns[-1])

    @property
    def warmup_ns(self) -> tuple[int, int] | None:
        """First start and last end of the warm-up; None if there was none."""
        if not self.first_row:
            return None
        return int(self.queries.start_ns[0]), int(self.queries.end_ns[self.first_row - 1])

    @property
    def settling_s(self) -> float:
        """Duration of the part of the timed loop before its latencies were steady."""
        rows = slice(self.queries.warmup_count, self.first_row)
        starts_ns, ends_ns = self.queries.start_ns[rows], self.queries.end_ns[rows]
        return float(ends_ns[-1] - starts_ns[0]) / 1e9 if len(ends_ns) else 0.0

    @property
    def mean_s(self) -> float:
        """Mean time of an inference, with its inputs and outputs."""
        spans = self.queries.end_ns[self.first_row :] - self.queries.start_ns[self.first_row :]
        return float(spans.mean()) / 1e9


@dataclass(frozen=True, slots=True)
class AlignedTrace:
    """Trace of a meter, addressed by windows of the device's clock."""

    power: PowerTrace
    site: Site
    alignment: Alignment
    seen: SeenMeter = field(default_factory=SeenMeter)
    unsampled_w: float = 0.0
    """Standard uncertainty of every mean power from activity between instantaneous samples."""
    ceiling_w: float = 0.0
    """Highest power of a sample at the end of a range; 0 if a higher range shows its power."""
    left_out: tuple[Reason, ...] = ()
    """Reasons why samples that cannot be true were left out."""

    @property
    def min_window_s(self) -> float:
        """Shortest window that meter and synchronisation can resolve."""
        return max(
            shortest_window_s(self.power.header.capability),
            self.alignment.error_ns / 1e9 / EDGE_LIMIT_RATIO,
        )

    def in_step_j(
        self, start_ns: NDArray[np.int64], window_ns: tuple[int, int], stretch_count: int = 1
    ) -> float:
        """Standard uncertainty from inferences that may be in step with the samples, J.

        Nothing is in step with a meter that averages or samples at random times. The span of the
        power is taken from the whole recording, since samples in step may miss it in the window.

        Args:
            start_ns: Starts of the inferences, device clock, shape (n,).
            window_ns: Begin and end of the window of the inferences, device clock.
            stretch_count: Number of stretches between random gaps.
        """
        capability = self.power.header.capability
        interval_s = 1 / capability.rate_hz
        loop = Loop.of(start_ns)
        if loop is None or not samples_instants(capability):
            return 0.0
        passed_ns = window_ns[1] - window_ns[0]
        ratio = in_step_ratio(
            replace(loop, stretch_count=stretch_count),
            interval_s / (1 + self.alignment.line.slope),
            2 * self.alignment.error_ns / passed_ns,
        )
        spans_w = (
            self.power.window(name, *self.power.span_ns(name)).power_w_span
            for name in self.site.channels
        )
        return ratio * sum(spans_w) * passed_ns / 1e9

    @property
    def _rate_ratio(self) -> float:
        """Relative standard uncertainty of the meter's rate; 0 if the driver declares it."""
        terms = self.power.header.uncertainty
        declared = math.hypot(*(term.standard for term in terms if term.kind is Kind.TIMEBASE))
        seen = abs(self.alignment.line.slope) / math.sqrt(3)
        return seen if seen > declared else 0.0

    @property
    def edge_error_s(self) -> float:
        """Standard uncertainty of a window's ends due to the clocks, error bound / sqrt(3)."""
        return self.alignment.error_ns / 1e9 / math.sqrt(3)

    def window(self, begin_ns: int, end_ns: int) -> EnergyWindow:
        """Energy of all channels between two device times.

        Raises:
            WindowTooShort: the window is too short for this meter.
            MeasurementError: the window is outside the trace, or part of it has no sample.
        """
        duration_s = (end_ns - begin_ns) / 1e9
        if duration_s < self.min_window_s:
            raise WindowTooShort(
                window_too_short(
                    window_s=duration_s,
                    needed_s=self.min_window_s,
                    sync_error_s=self.alignment.error_ns / 1e9,
                )
            )
        begin, end = (int(time) for time in self.alignment.line.to_meter([begin_ns, end_ns]))
        window = _sum([self._channel_window(name, begin, end) for name in self.site.channels])
        if window.missing_s > MISSING_LIMIT_RATIO * window.duration_s:
            raise EnergyRefused(
                samples_missing(
                    missing_ratio=window.missing_s / window.duration_s,
                    limit_ratio=MISSING_LIMIT_RATIO,
                ),
                *self.left_out,
            )
        mean_w = window.energy_j / window.duration_s
        edge_w = self._edges_w(np.array([begin, end]))
        update_s, interval_s = self.seen.update_s, 1 / self.power.header.capability.rate_hz
        if update_s:
            # Only new values are samples; each change between two of them lasts for `update_s`.
            window = replace(
                window,
                sample_count=min(window.sample_count, max(1, round(duration_s / update_s))),
                between_j=window.between_j * max(1.0, update_s / interval_s),
            )
        return replace(
            window,
            sample_s=max(window.sample_s, self.seen.smoothing_s, update_s),
            lag_j=self._lag_j(begin, end),
            ceiling_w=self.ceiling_w,
            rate_j=abs(window.energy_j) * self._rate_ratio,
            noise_w=self.seen.noise_w,
            in_step_j=math.hypot(window.in_step_j, self.unsampled_w * window.duration_s),
            edge_error_s=self.edge_error_s,
            edge_power_w=(float(max(mean_w, edge_w[0])), float(max(mean_w, edge_w[1]))),
        )

    def levels(self, begin_ns: int, end_ns: int) -> PowerLevels:
        """Mean powers of the quarters of a window, device times.

        Raises:
            MeasurementError: the window is outside the trace.
        """
        ends_ns = np.linspace(begin_ns, end_ns, LEVELS_PER_WINDOW + 1).astype(np.int64)
        begin, end = (int(time) for time in self.alignment.line.to_meter([begin_ns, end_ns]))
        parts = [self.power.window(name, begin, end) for name in self.site.channels]
        duration_s = (end_ns - begin_ns) / 1e9
        return PowerLevels(
            self.energies_j(ends_ns[:-1], ends_ns[1:]) / np.diff(ends_ns) * 1e9,
            math.sqrt(LEVELS_PER_WINDOW)
            * math.hypot(*(part.between_j for part in parts))
            / duration_s,
            duration_s,
        )

    def with_unsampled(
        self,
        window_ns: tuple[int, int],
        idles_ns: Sequence[tuple[int, int]],
        codes: Sequence[LoadCode],
    ) -> AlignedTrace:
        """The trace with the uncertainty from activity of the device between two samples.

        Args:
            window_ns: Begin and end of the timed loop, device clock.
            idles_ns: Idle windows, device clock; windows that were not recorded are left out.
            codes: Load codes of the run. The time between the codes determines how exactly the
                rate is known.

        Raises:
            MeasurementError: the loop was not recorded, or the activity may take too large a share
                of the power.
        """
        capability = self.power.header.capability
        if not (capability.is_uniform and has_own_clock(capability)):
            return self
        if not samples_instants(capability):
            return self
        idles: list[PowerLevels] = []
        recorded_ns: list[tuple[int, int]] = []
        for idle_ns in idles_ns:
            with suppress(MeasurementError):
                idles.append(self.levels(*idle_ns))
                recorded_ns.append(idle_ns)
        loop = self.levels(*window_ns)
        interval_s = 1 / capability.rate_hz
        span_s = loop.duration_s
        ends: Sequence[LoadCode] = ()
        if len(codes) == CODES_OF_RUN and all(code.edges_ns for code in codes):
            ends = codes
            span_s = max(span_s, (codes[1].edges_ns[0] - codes[0].edges_ns[0]) / 1e9)
        clocks = ClockDifference.of(self.alignment, ends, span_s, interval_s)
        chips = None
        if ends and idles and self.alignment.method is SyncMethod.CODED_LOAD:
            apart_ns = max(
                max(end, window_ns[1])
                - min(begin, window_ns[0])
                - (end - begin) / LEVELS_PER_WINDOW
                for begin, end in recorded_ns
            )
            power_w, length_s = self._idle_chips(ends)
            # The quieter idle window: an activity that the samples met in the other window is not
            # noise.
            noise_w = np.min([idle.noise_within_w(length_s) for idle in idles], axis=0)
            chips = IdleChips(power_w, noise_w, apart_ns / 1e9)
        unsampled = unsampled_w(clocks, loop, idles, capability.rate_hz, chips)
        return replace(self, unsampled_w=unsampled)

    def _idle_chips(
        self, codes: Sequence[LoadCode]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean power, W, in the middle half of each idle chip, and the length, s, of this half.

        The ends of a chip are not used, because the load changes there. A chip without samples
        counts as 0 W: its samples were left out because they were far below both idle phases. Chips
        outside the recording are not included.
        """
        edges = [np.array(code.edges_ns) for code in codes]
        is_idle = ~np.concatenate([np.array(code.is_busy, np.bool_) for code in codes])
        begin_ns = np.concatenate([each[:-1] for each in edges])[is_idle]
        end_ns = np.concatenate([each[1:] for each in edges])[is_idle]
        quarter_ns = (end_ns - begin_ns) // 4
        begin_ns, end_ns = begin_ns + quarter_ns, end_ns - quarter_ns
        times = self.alignment.line.to_meter(np.array([begin_ns, end_ns]))
        spans_ns = np.array([self.power.span_ns(name) for name in self.site.channels])
        is_recorded = (times[0] >= spans_ns[:, 0].max()) & (times[1] <= spans_ns[:, 1].min())
        begin_ns, end_ns, times = begin_ns[is_recorded], end_ns[is_recorded], times[:, is_recorded]
        powers_w: NDArray[np.float64] = self.energies_j(begin_ns, end_ns) / (end_ns - begin_ns)
        if self.left_out:
            for place, (begin, end) in enumerate(times.T.tolist()):
                samples_w = [self.power.samples(name, begin, end)[1] for name in self.site.channels]
                powers_w[place] *= all(np.isfinite(each_w).any() for each_w in samples_w)
        return powers_w * 1e9, (end_ns - begin_ns) / 1e9

    def _lag_j(self, begin_ns: int, end_ns: int) -> float:
        """Largest energy that the delay of the values moves into or out of a window, J.

        A filter with the mean delay T records an energy of T · P too late, where P is the power
        before an end of the window. So the error is T times the difference between the powers
        before the two ends.
        """
        lag_ns = round(self.seen.lag_s * 1e9)
        if not lag_ns:
            return 0.0
        lag_j = 0.0
        for name in self.site.channels:
            first_ns, _ = self.power.span_ns(name)
            times = np.array([begin_ns - lag_ns, begin_ns, end_ns - lag_ns, end_ns])
            passed_j = self.power.cumulative_j(name, np.maximum(times, first_ns))
            before_j, after_j = passed_j[1] - passed_j[0], passed_j[3] - passed_j[2]
            lag_j += float(after_j - before_j)
        return abs(lag_j)

    def _channel_window(self, channel: str, begin_ns: int, end_ns: int) -> EnergyWindow:
        """Energy between two meter times, with the uncertainty from ticks of the device."""
        window = self.power.window(channel, begin_ns, end_ns)
        capability = self.power.header.capability
        if not samples_instants(capability):
            return window
        # The power at each sample, from the energy around it: samples are evenly spaced.
        interval_ns = 1e9 / capability.rate_hz
        zero_ns, last_ns = self.power.span_ns(channel)
        around_ns = max(1, round(interval_ns / AROUND))
        first = math.ceil((max(begin_ns, zero_ns + around_ns) - zero_ns) / interval_ns)
        end = math.floor((min(end_ns, last_ns - around_ns) - zero_ns) / interval_ns)
        spare = max(0, end - first - FOLD_SAMPLES) // 2
        places = np.arange(first + spare, min(end, first + spare + FOLD_SAMPLES))
        times_ns = zero_ns + np.rint(places * interval_ns).astype(np.int64)
        ends_ns = np.concatenate([times_ns - around_ns, times_ns + around_ns])
        before_j, after_j = self.power.cumulative_j(channel, ends_ns).reshape(2, -1)
        tick_w = ticks_w((after_j - before_j) / (2 * around_ns) * 1e9, capability.rate_hz)
        return replace(window, in_step_j=tick_w * window.duration_s)

    def peak_w(self, begin_ns: int, end_ns: int) -> float | None:
        """Highest sample between two device times; None if several channels are summed."""
        if len(self.site.channels) > 1:
            return None
        begin, end = (int(time) for time in self.alignment.line.to_meter([begin_ns, end_ns]))
        return sum(self.power.peak_w(name, begin, end) for name in self.site.channels)

    def edge_powers_w(
        self, begin_ns: NDArray[np.int64], end_ns: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Highest power at the ends of many windows, shape (2, n)."""
        times = self.alignment.line.to_meter(np.concatenate([begin_ns, end_ns]))
        mean_w = self.energies_j(begin_ns, end_ns) / np.maximum(end_ns - begin_ns, 1) * 1e9
        powers_w: NDArray[np.float64] = np.maximum(mean_w, self._edges_w(times).reshape(2, -1))
        return powers_w

    def _edges_w(self, meter_ns: NDArray[np.int64]) -> NDArray[np.float64]:
        """Highest power on both sides of each end, within the error of its time, shape (n,)."""
        own_s = [t.standard for t in self.power.header.uncertainty if t.kind is Kind.EDGE]
        reach_ns = self.alignment.error_ns + math.sqrt(3) * sum(own_s) * 1e9
        around_ns = max(1, round(reach_ns))
        highest_w = np.zeros(len(meter_ns))
        for name in self.site.channels:
            first_ns, last_ns = self.power.span_ns(name)
            begins_ns = np.maximum(first_ns, meter_ns - around_ns)
            ends_ns = np.minimum(last_ns, meter_ns + around_ns)
            times = np.linspace(begins_ns, ends_ns, EDGE_PIECES + 1).astype(np.int64)
            passed_j = self.power.cumulative_j(name, times.reshape(-1)).reshape(times.shape)
            passed_s = np.maximum(np.diff(times, axis=0), 1) / 1e9
            highest_w += (np.diff(passed_j, axis=0) / passed_s).max(axis=0)
        return highest_w

    def energies_j(
        self, begin_ns: NDArray[np.int64], end_ns: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Energies of many windows, shape (n,)."""
        times = self.alignment.line.to_meter(np.concatenate([begin_ns, end_ns]))
        passed_j = np.zeros(len(times))
        for name in self.site.channels:
            passed_j += self.power.cumulative_j(name, times)
        energies: NDArray[np.float64] = passed_j[len(begin_ns) :] - passed_j[: len(begin_ns)]
        return energies


def _sum(windows: Sequence[EnergyWindow]) -> EnergyWindow:
    """Sum of the windows of several channels. The ranges, which differ by channel, are left out."""
    if len(windows) == 1:
        return windows[0]
    first = windows[0]
    return replace(
        first,
        energy_j=sum(window.energy_j for window in windows),
        ranges={},
        channel_count=len(windows),
        in_step_j=sum(window.in_step_j for window in windows),
        missing_s=max(window.missing_s for window in windows),
        saturated_s=max(window.saturated_s for window in windows),
        sample_s=max(window.sample_s for window in windows),
        spike_j=sum(window.spike_j for window in windows),
        rate_j=sum(window.rate_j for window in windows),
        between_j=sum(window.between_j for window in windows),
        power_w_span=sum(window.power_w_span for window in windows),
    )


def idle_windows(events: Sequence[Event]) -> list[tuple[int, int]]:
    """Idle windows of the device, device clock, each without a part of its start and end."""
    windows: list[tuple[int, int]] = []
    begin_ns: int | None = None
    for event in events:
        if event.kind == Phase.IDLE.value:
            begin_ns = event.time_ns
        elif event.kind == IDLE_ENDED and begin_ns is not None:
            passed_ns = event.time_ns - begin_ns
            first_ns = begin_ns + round(IDLE_BEGIN_RATIO * passed_ns)
            windows.append((first_ns, event.time_ns - round(IDLE_END_RATIO * passed_ns)))
            begin_ns = None
    return windows


def in_a_row(windows: Sequence[EnergyWindow]) -> EnergyWindow:
    """Merge windows that follow each other into one window."""
    ranges = {
        number: replace(
            part,
            energy_j=sum(w.ranges[number].energy_j for w in windows if number in w.ranges),
            duration_s=sum(w.ranges[number].duration_s for w in windows if number in w.ranges),
        )
        for window in windows
        for number, part in window.ranges.items()
    }
    return replace(
        windows[0],
        energy_j=sum(window.energy_j for window in windows),
        duration_s=sum(window.duration_s for window in windows),
        sample_count=sum(window.sample_count for window in windows),
        ranges=ranges,
        in_step_j=sum(window.in_step_j for window in windows),
        missing_s=sum(window.missing_s for window in windows),
        saturated_s=sum(window.saturated_s for window in windows),
        spike_j=sum(window.spike_j for window in windows),
        rate_j=sum(window.rate_j for window in windows),
        lag_j=sum(window.lag_j for window in windows),
        between_j=math.hypot(*(window.between_j for window in windows)),
        power_w_span=max(window.power_w_span for window in windows),
    )


def phase_window(events: Sequence[Event], phase: Phase) -> tuple[int, int] | None:
    """Start of a phase and time of the event after it; None if the phase did not occur."""
    for event, following in pairwise(events):
        if event.kind == phase.value:
            return event.time_ns, following.time_ns
    return None


def loop_times(events: Sequence[Event], timed: TimedQueries, marks: SyncFacts) -> LoopTimes | None:
    """Times around the warm-up and the loop; None if the device was not idle around them.

    If the device played the load code, it was idle, because an idle time precedes the code.
    """
    if len(marks.codes) != CODES_OF_RUN or not all(code.edges_ns for code in marks.codes):
        return None
    first, last = marks.codes
    warmup, starts_ns = phase_window(events, Phase.WARMING_UP), timed.queries.start_ns
    began_ns, start_ns, end_ns = first.edges_ns[-1], int(starts_ns[0]), timed.window_ns[1]
    if warmup is not None and began_ns <= warmup[0] <= start_ns:
        began_ns = warmup[0]
    # The last pulses are sent between the loop and the idle time.
    syncing_ns = (event.time_ns for event in events if event.kind == Phase.SYNCING.value)
    pulses_ns = (pulse.after_ns for pulse in marks.pulses)
    after_ns = [
        time_ns for time_ns in (*syncing_ns, *pulses_ns) if end_ns <= time_ns < last.edges_ns[0]
    ]
    quiet_from_ns = max(after_ns, default=end_ns)
    if not began_ns <= start_ns < end_ns <= quiet_from_ns < last.edges_ns[0]:
        return None
    return LoopTimes(
        (began_ns, start_ns),
        (end_ns, quiet_from_ns),
        last.edges_ns[0] - quiet_from_ns,
        tuple(idle_windows(events)),
        tuple((code.edges_ns[0], code.edges_ns[-1]) for code in marks.codes),
    )
