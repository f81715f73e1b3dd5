"""Conversion of times between two clocks by a line that is fitted to two-way probes.

Theory of operation. A probe consists of four times: the host sends at `t0`, the device receives at
`t1` and replies at `t2`, the host receives at `t3`. If both directions take equally long, the
device clock is ahead of the host clock by ((t1 − t0) + (t2 − t3)) / 2. In any case, the error of
this offset is at most half the round trip (t3 − t0) − (t2 − t1). The shorter the round trip, the
smaller the error. So the model keeps only the probe of each group that has the shortest round trip,
and fits a line through the kept probes. The slope of the line is the median of the slopes between
all pairs of kept probes, so a single bad probe has little effect.

The error of the line is at most `error_ns` at the first and the last probe, and therefore also
between them. Before the first and after the last probe, the error grows with the distance.
If no step separates the probes, the slope error has two bounds, and the smaller bound applies:

- 2 · error / span, because the errors at the two ends may be opposite
- the absolute slope plus `DRIFT_LIMIT`, because no two clocks drift faster than `DRIFT_LIMIT`; with
  a single group, this is the only bound

Sometimes, no constant rate explains all probes, but a constant rate with a step between two
successive probes explains them. In this case, one of the clocks stood still between these two
probes, for example during a suspend or in a paused virtual machine. The step is then subtracted
from the offsets of the later probes before the line is fitted, and the size of the step is added to
the error.

Source: RFC 5905, section 8 (on-wire protocol), https://www.rfc-editor.org/rfc/rfc5905#section-8;
Theil (1950) and Sen (1968) for the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from edgebench.protocol.errors import MeasurementError

DRIFT_LIMIT = 200e-6
"""Largest drift between two clocks, assumed if no probes measure the drift. Each clock may drift by
100 ppm, in opposite directions. Source: IEEE 802.1AS-2020, annex B.1.1, for the clock of a
networked device. The value assumes that the crystals of all devices are as good as in this
standard, and that no clock is set between the probes."""
SLEW_LIMIT = 500e-6
"""Largest relative change of a clock's rate by time synchronisation. Source: adjtimex(2),
`freq`."""
MIN_JUMP_NS = 20e6
"""Only a step that is longer than this is attributed to a clock that stood still. Every suspend and
resume takes longer."""


@dataclass(frozen=True, slots=True)
class ClockProbe:
    """Times of a two-way exchange, ns: t0 and t3 on the host clock, t1 and t2 on the device's."""

    t0: int
    t1: int
    t2: int
    t3: int

    @property
    def offset_ns(self) -> float:
        """Device clock minus host clock, if both directions take equally long."""
        return ((self.t1 - self.t0) + (self.t2 - self.t3)) / 2

    @property
    def round_trip_ns(self) -> int:
        """Time on the wire, for both directions together."""
        return (self.t3 - self.t0) - (self.t2 - self.t1)


@dataclass(frozen=True, slots=True)
class ClockJump:
    """A step of the device clock relative to the host clock, between two successive probes."""

    offset_ns: float
    """Amount by which the device clock moved relative to the host clock. The amount is negative if
    the device clock stood still, and positive if the host clock stood still."""
    begin_ns: int
    """Time of the probe before the step, on the device's clock."""
    end_ns: int
    """Time of the probe after the step, on the device's clock."""


@dataclass(frozen=True, slots=True)
class ClockModel:
    """Conversion between a host clock and a device clock, with bounds on the error."""

    host_domain: str
    device_domain: str
    reference_ns: int
    """Host time for which `offset_ns` is given."""
    offset_ns: float
    slope: float
    """Device seconds per host second, minus one."""
    error_ns: float
    """Bound on the error of a conversion between the first and the last kept probe. For each kept
    probe, half the round trip is added to the distance from the line. The bound is the largest of
    these sums, plus the size of `jump`."""
    residual_ns: float = 0.0
    """Largest distance of a kept probe to the line, plus the size of `jump`."""
    span_ns: int = 0
    """Host time from the first kept probe, at `reference_ns`, to the last kept probe."""
    slope_error: float = 0.0
    """Bound on the error of the slope."""
    jump: ClockJump | None = None
    """Step that no constant rate explains; its size is part of `error_ns`, but it does not affect
    the slope. None if a constant rate explains all probes, or if a single step is not enough to
    explain them."""

    def error_ns_at(self, host_ns: int) -> float:
        """Error bound at this host time; it grows before the first and after the last probe."""
        since_ns = host_ns - self.reference_ns
        return self.error_ns + self.slope_error * max(-since_ns, since_ns - self.span_ns, 0)

    def to_device(self, host_ns: int) -> int:
        """Convert a host time to a device time."""
        return host_ns + round(self.offset_ns + self.slope * (host_ns - self.reference_ns))

    def to_host(self, device_ns: int) -> int:
        """Convert a device time to a host time."""
        since = device_ns - self.reference_ns - self.offset_ns
        return self.reference_ns + round(since / (1 + self.slope))


def fit(
    groups: Sequence[Sequence[ClockProbe]], *, host_domain: str, device_domain: str
) -> ClockModel:
    """Fit the clock model to the best probe of each group.

    Args:
        groups: Groups of probes, in time order. The probes of a group are made in direct
            succession. At least one group must have a probe.
        host_domain: Name of the clock of t0 and t3.
        device_domain: Name of the clock of t1 and t2.

    Raises:
        MeasurementError: no group has a probe.
    """
    best = [min(group, key=lambda probe: probe.round_trip_ns) for group in groups if group]
    if not best:
        raise MeasurementError("no clock probe got a reply")
    reference_ns, span_ns = best[0].t0, best[-1].t0 - best[0].t0
    step = _step_in(best)
    step_ns = step.offset_ns if step else 0.0
    # Offsets of the probes as they would be without the step.
    offsets_ns = [
        probe.offset_ns - step_ns if step and index > step.index else probe.offset_ns
        for index, probe in enumerate(best)
    ]
    slope = step.slope if step else _median(_slopes(best))
    levels = [
        offset_ns - slope * (probe.t0 - reference_ns)
        for probe, offset_ns in zip(best, offsets_ns, strict=True)
    ]
    offset_ns = _median(levels)
    off_ns = [abs(level - offset_ns) for level in levels]
    error_ns = max(probe.round_trip_ns / 2 + off for probe, off in zip(best, off_ns, strict=True))
    return ClockModel(
        host_domain=host_domain,
        device_domain=device_domain,
        reference_ns=reference_ns,
        offset_ns=offset_ns,
        slope=slope,
        error_ns=error_ns + abs(step_ns),
        residual_ns=max(off_ns) + abs(step_ns),
        span_ns=span_ns,
        slope_error=step.slope_error if step else _slope_error(slope, error_ns, span_ns),
        jump=step.jump(best) if step else None,
    )


def _slopes(best: Sequence[ClockProbe]) -> list[float]:
    """Slopes between all pairs of probes."""
    return [
        (later.offset_ns - earlier.offset_ns) / (later.t0 - earlier.t0)
        for earlier, later in combinations(best, 2)
        if later.t0 > earlier.t0
    ]


@dataclass(frozen=True, slots=True)
class _Step:
    """A step between the probes `index` and `index + 1`, and the rate outside of this interval."""

    index: int
    offset_ns: float
    slope: float
    slope_error: float

    def jump(self, best: Sequence[ClockProbe]) -> ClockJump:
        return ClockJump(self.offset_ns, best[self.index].t2, best[self.index + 1].t1)


@dataclass(frozen=True, slots=True)
class _ProbePair:
    """Two successive probes; each clock reading in them may be off by half a nanosecond."""

    index: int
    earlier: ClockProbe
    later: ClockProbe

    @property
    def least_rate(self) -> float:
        """Lower bound on the ratio of elapsed device time to elapsed host time."""
        return (self.later.t2 - self.earlier.t1 - 1) / (self.later.t3 - self.earlier.t0)

    @property
    def most_rate(self) -> float:
        """Upper bound on the ratio of elapsed device time to elapsed host time."""
        return (self.later.t1 - self.earlier.t2 + 1) / (self.later.t0 - self.earlier.t3)

    def least_step_ns(self, low: float, high: float) -> float:
        """Lower bound on a step between the two probes, if the rate is between `low` and `high`."""
        earlier, later = self.earlier, self.later
        return max(
            later.t2 - earlier.t1 - 1 - high * (later.t3 - earlier.t0),
            low * (later.t0 - earlier.t3) - (later.t1 - earlier.t2 + 1),
        )


def _step_in(best: Sequence[ClockProbe]) -> _Step | None:
    """Step that explains the probes; None if no step is needed, or if no single step is enough.

    Every message arrives after it was sent, so each pair of successive probes bounds the rate
    between them. Of several possible steps, the chosen step is the one for which the rate between
    all other probes deviates least from 1. A clock that stands still for a while is more likely
    than a clock with a very wrong rate.
    """
    pairs = [
        _ProbePair(index, earlier, later)
        for index, (earlier, later) in enumerate(pairwise(best))
        if later.t0 > earlier.t3
    ]
    steps: list[_Step] = []
    for pair in pairs:
        others = [other for other in pairs if other is not pair]
        if not others:
            return None
        low = max(other.least_rate for other in others)
        high = min(other.most_rate for other in others)
        if low - high > 2 * SLEW_LIMIT:
            continue
        # If a time server changed the rate meanwhile, the lower bound may exceed the upper bound.
        rate, rate_error = (low + high) / 2, abs(high - low) / 2 + SLEW_LIMIT
        if pair.least_step_ns(rate - rate_error, rate + rate_error) > MIN_JUMP_NS:
            gain_ns = pair.later.offset_ns - pair.earlier.offset_ns
            step_ns = gain_ns - (rate - 1) * (pair.later.t0 - pair.earlier.t0)
            steps.append(_Step(pair.index, step_ns, rate - 1, rate_error))
    return min(steps, key=lambda step: abs(step.slope), default=None)


def _slope_error(slope: float, error_ns: float, span_ns: int) -> float:
    """Compute the bound on a slope's error from the bound on the line's error within the span."""
    limit = abs(slope) + DRIFT_LIMIT
    return min(limit, 2 * error_ns / span_ns) if span_ns > 0 else limit


def _median(values: Sequence[float]) -> float:
    """Median of slopes; 0 for an empty list, which results from a single probe."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2 if ordered else 0.0
