"""Energy of inferences with its uncertainty, gross and net of idle.

Theory of operation. A window's energy is the meter's reading with its errors:

    E = sum over ranges r of (E_r · (1 + gain_r + voltage + timebase + model) + V · T_r · offset_r)
        + noise + edges + missing

Each small quantity is a variable with mean 0. An error of the meter (gain, offset, …) is the same
variable in every window. So an offset cancels in the net energy, and a gain does not. Noise, edges
and missing samples have a separate variable in each window.

Gain errors add up linearly, within a range and over the ranges. Gain errors are not independent per
sample or range: ranges share a converter and a reference. Datasheets do not state how much of the
error comes from these shared parts.

This gives two uncertainties. The absolute uncertainty includes all terms. The comparative
uncertainty applies to the comparison with another run with this meter: effects that change both
runs by the same ratio cancel. It assumes that all energy of the other run is in the range with most
of this run's energy. The comparison of two given runs uses the signed effect of each variable on
both runs. An offset cancels to the extent that the powers are equal. The gain of a range cancels to
the extent that both runs were in that range.

Source: JCGM 100:2008 (GUM), 5.2 (correlated inputs), 4.3.7, 6.2.1 (coverage factor); linear error
propagation by the package `uncertainties`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from edgebench.host.analysis.energy.integrate import Floats
from edgebench.meters.uncertainty import Kind, UncertaintyTerm, Unit

COVERAGE = 2.0
"""Coverage factor k of the expanded uncertainties, for about 95 % confidence."""
U95_LIMIT_RATIO = 0.9
"""Largest accepted expanded uncertainty of an energy, relative to the energy. Beyond it, the
interval reaches down to a tenth of the energy, so not even the order of magnitude is known. The
uncertainty of a net energy is compared with the gross energy."""
ALL_RANGES = None
_RATIOS = (Kind.GAIN, Kind.VOLTAGE, Kind.TIMEBASE, Kind.MODEL)
_RATIO_NAMES = {kind.value for kind in _RATIOS}
_OF_RANGE, _OF_THE = " of range ", " of the "
IN_STEP, BETWEEN_SAMPLES = "in step", "between samples"
"""Names of components that occur only with meters whose samples are instants, not means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangePart:
    """Part of a window within a range of the meter."""

    energy_j: float
    duration_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyWindow:
    """Energy of a window of a recording, with the quantities that determine its uncertainty."""

    energy_j: float
    duration_s: float
    sample_count: int
    supply_v: float
    """Supply voltage that was set or stated, or the mean of the measured voltage."""
    edge_power_w: tuple[float, float]
    """Power at the begin and at the end of the window."""
    ranges: Mapping[int | None, RangePart] = field(default_factory=dict[int | None, RangePart])
    """Maps each range number to its part of the window; None is the key for a meter without
    ranges."""
    in_step_j: float = 0.0
    """Standard uncertainty from inferences that may be in step with the samples."""
    gaps_j: float = 0.0
    """Standard uncertainty from the energy of gaps between inferences, which was subtracted."""
    count_j: float = 0.0
    """Standard uncertainty from the time that is in the window but outside its inferences."""
    missing_s: float = 0.0
    """Time inside the window without a sample."""
    saturated_s: float = 0.0
    """Time of samples at the end of a range."""
    ceiling_w: float = 0.0
    """Highest power of a sample at the end of a range; 0 if a higher range measured it."""
    power_w_span: float = 0.0
    """Highest power minus lowest power in the window."""
    edge_error_s: float = 0.0
    """Standard uncertainty of the time of each end, from the clock synchronisation."""
    sample_s: float = 0.0
    """Time that a sample represents: the longest of the sample interval, the smoothing time of the
    meter, and the interval between new values."""
    lag_j: float = 0.0
    """Largest energy that the delay of the meter's values moves into or out of the window."""
    rate_j: float = 0.0
    """Standard uncertainty from the rates of the two clocks, if they differ by more than the driver
    declares."""
    noise_w: float = 0.0
    """Standard deviation of a sample of a channel, estimated from the trace if the driver declares
    none."""
    spike_j: float = 0.0
    """Energy that the driver's filter removed at range switches."""
    between_j: float = 0.0
    """Standard uncertainty from the power between instantaneous samples."""
    channel_count: int = 1
    """Number of summed channels, whose offsets all have the same sign."""
    drift_w: float = 0.0
    """Change of the idle power from before to after the run, at an unknown time in between."""


def without_gaps(window: EnergyWindow, gaps_s: float, idle_w: float) -> EnergyWindow:
    """The window without the gaps between its inferences.

    The power in a gap is between the idle power and the mean power of the window: the processor
    needs a while to become idle. The mean of these two powers is subtracted.

    Args:
        window: Window of the inferences.
        gaps_s: Total time of the gaps.
        idle_w: Idle power of the device; 0 if it is unknown.
    """
    mean_w = window.energy_j / window.duration_s
    energy_j = window.energy_j - gaps_s * (idle_w + mean_w) / 2
    kept_ratio = energy_j / window.energy_j if window.energy_j else 1.0
    time_ratio = 1 - gaps_s / window.duration_s
    return replace(
        window,
        energy_j=energy_j,
        duration_s=window.duration_s - gaps_s,
        gaps_j=gaps_s * abs(mean_w - idle_w) / math.sqrt(12),
        ranges={
            number: RangePart(
                energy_j=part.energy_j * kept_ratio, duration_s=part.duration_s * time_ratio
            )
            for number, part in window.ranges.items()
        },
    )


@dataclass(frozen=True, slots=True)
class UncertainValue:
    """Number with its uncertainty."""

    value: float
    components: dict[str, float]
    """Maps the name of each term to its standard uncertainty; the meter's terms come first."""
    u_absolute: float
    """Standard uncertainty from all terms."""
    u_comparative: float
    """Standard uncertainty in a comparison with another run in the same range of the meter. Effects
    that change the energies of both runs by the same ratio are left out."""
    common: dict[str, float] = field(default_factory=dict[str, float])
    """Signed effect, at one standard deviation, of each error variable that two runs with this
    meter share. All other components are specific to this run."""

    @property
    def u95_absolute(self) -> float:
        """Expanded absolute uncertainty, k = 2."""
        return COVERAGE * self.u_absolute

    @property
    def u95_comparative(self) -> float:
        """Expanded comparative uncertainty, k = 2."""
        return COVERAGE * self.u_comparative

    @property
    def largest_component(self) -> str:
        """Name of the largest component, without the name of its window; empty if there is none."""
        largest = max(self.components, key=self.components.__getitem__, default="")
        return largest.partition(_OF_THE)[0]

    @property
    def is_of_instrument(self) -> bool:
        """Whether the largest component does not shrink with a longer window."""
        kind = self.largest_component.partition(_OF_RANGE)[0]
        return kind in (Kind.OFFSET.value, Kind.RESOLUTION.value)


class MeterErrors:
    """Errors of a meter as variables that all windows of a recording share."""

    def __init__(self, terms: Sequence[UncertaintyTerm]) -> None:
        from uncertainties import ufloat

        with_effect = [term for term in terms if term.standard and term.kind is not Kind.RESOLUTION]
        self._terms: list[tuple[UncertaintyTerm, Any]] = [
            (term, ufloat(0.0, term.standard, tag=name))
            for term, name in zip(with_effect, _names(with_effect), strict=True)
        ]
        self._all_terms = list(terms)

    def without_offset(self) -> MeterErrors:
        """The meter's errors without its offsets."""
        return MeterErrors([term for term in self._all_terms if term.kind is not Kind.OFFSET])

    def gross_per_inference(self, window: EnergyWindow, inference_count: int) -> UncertainValue:
        """Energy of a window, divided by the number of inferences in it."""
        return self._uncertain(self._energy(window, "window") / inference_count, window)

    def net_per_inference(
        self, window: EnergyWindow, idle: EnergyWindow, inference_count: int
    ) -> UncertainValue:
        """Energy per inference minus the idle energy."""
        while_idle = self._energy(idle, "idle") * (window.duration_s / idle.duration_s)
        net = (self._energy(window, "window") - while_idle) / inference_count
        return self._uncertain(net, window)

    def edges_j(self, edge_power_w: Floats, edge_error_s: float) -> Floats:
        """Standard uncertainty of many windows' energies from the windows' ends alone, J.

        Args:
            edge_power_w: Power at the two ends of each window, shape (2, n).
            edge_error_s: Standard uncertainty of each end from the clock synchronisation.
        """
        return _edges_j(edge_power_w, edge_error_s, self._all_terms)

    def mean_power(self, window: EnergyWindow) -> UncertainValue:
        """Mean power of a window."""
        return self._uncertain(self._energy(window, "window") / window.duration_s, window)

    def sample_u95_w(self, power_w: float, window: EnergyWindow) -> float:
        """Expanded uncertainty of a sample in a window, k = 2.

        The range of the sample is unknown, so the range with the largest error is used.
        """
        sample_s = window.duration_s / max(1, window.sample_count)
        sample = RangePart(energy_j=power_w * sample_s, duration_s=sample_s)
        return max(
            self.mean_power(
                EnergyWindow(
                    energy_j=sample.energy_j,
                    duration_s=sample.duration_s,
                    sample_count=1,
                    supply_v=window.supply_v,
                    edge_power_w=(0.0, 0.0),
                    ranges={number: sample},
                )
            ).u95_absolute
            for number in _parts(window)
        )

    def _energy(self, window: EnergyWindow, name: str) -> Any:
        """Energy of a window, as a value that depends on all error variables."""
        from uncertainties import ufloat

        energy: Any = window.energy_j
        for term, error in self._terms:
            for number, part in _parts(window).items():
                if term.range not in (ALL_RANGES, number):
                    continue
                if term.kind in _RATIOS:
                    energy += part.energy_j * error
                elif term.kind is Kind.OFFSET:
                    energy += _level_j(term.unit, window, part) * window.channel_count * error
        own: Any = 0.0
        for what, standard_j in _own_errors(window, self._all_terms).items():
            if standard_j:
                own += ufloat(0.0, standard_j, tag=f"{what}{_OF_THE}{name}")
        return energy + own

    def _uncertain(self, quantity: Any, window: EnergyWindow) -> UncertainValue:
        slopes = dict(getattr(quantity, "derivatives", {}))
        value = float(getattr(quantity, "nominal_value", quantity))
        effects = {
            str(variable.tag): _Effect(term, float(slope), term.standard)
            for term, variable in self._terms
            if (slope := slopes.pop(variable, 0.0))
        }
        own = {
            str(variable.tag): abs(float(slope)) * float(variable.std_dev)
            for variable, slope in slopes.items()
        }
        own_u = math.hypot(*own.values())
        signed = {name: effect.signed for name, effect in effects.items()}
        parts = _parts(window)
        main = max(parts, key=lambda number: parts[number].energy_j)
        rest = {name: effect.in_comparison(value, main) for name, effect in effects.items()}
        return UncertainValue(
            value=value,
            components={name: abs(effect) for name, effect in signed.items()} | own,
            u_absolute=math.hypot(together(signed), own_u),
            u_comparative=math.hypot(together(rest), own_u),
            common={
                name: signed[name] for name, effect in effects.items() if effect.term.is_common
            },
        )


@dataclass(frozen=True, slots=True)
class _Effect:
    """Effect of an error variable of the meter on an energy."""

    term: UncertaintyTerm
    slope: float
    standard: float

    @property
    def signed(self) -> float:
        """Effect at one standard deviation."""
        return self.slope * self.standard

    def in_comparison(self, value: float, main: int | None) -> float:
        """Part of the effect that remains in a comparison with a run entirely in range `main`."""
        if not (self.term.is_common and self.term.kind in _RATIOS):
            return self.signed
        if self.term.range in (ALL_RANGES, main):
            return (self.slope - value) * self.standard
        return self.signed


def together(signed: Mapping[str, float]) -> float:
    """Combined standard uncertainty of effects, which are given by the name of their variable.

    The ratio errors of several ranges are correlated to an unknown degree: effects of the same sign
    add up, and effects of opposite sign do not cancel. All other effects are independent.
    """
    shared: dict[tuple[str, bool], float] = {}
    others: list[float] = []
    for name, effect in signed.items():
        kind, is_of_range, _ = name.partition(_OF_RANGE)
        if is_of_range and kind in _RATIO_NAMES:
            key = kind, effect > 0
            shared[key] = shared.get(key, 0.0) + effect
        else:
            others.append(effect)
    return math.hypot(*shared.values(), *others)


def _names(terms: Sequence[UncertaintyTerm]) -> list[str]:
    """A unique name for each term; terms of the same kind and range are numbered."""
    names: list[str] = []
    for term in terms:
        where = "" if term.range is ALL_RANGES else f"{_OF_RANGE}{term.range}"
        name = f"{term.kind.value}{where}"
        again = sum(known.split(" #")[0] == name for known in names)
        names.append(f"{name} #{again + 1}" if again else name)
    return names


def _parts(window: EnergyWindow) -> Mapping[int | None, RangePart]:
    whole = RangePart(energy_j=window.energy_j, duration_s=window.duration_s)
    return window.ranges or {ALL_RANGES: whole}


def _level_j(unit: Unit, window: EnergyWindow, part: RangePart) -> float:
    """Energy that an offset of one unit adds to a part of a window, J."""
    if unit is Unit.AMPERE:
        return window.supply_v * part.duration_s
    if unit is Unit.WATT:
        return part.duration_s
    return part.energy_j / window.supply_v if unit is Unit.VOLT else 0.0


def _own_errors(window: EnergyWindow, terms: Sequence[UncertaintyTerm]) -> dict[str, float]:
    """Standard uncertainties, J, of the energy from the errors that only this window has.

    edges      sqrt(P0² + P1²) · u_t, because the two ends are independent. P is the highest power
               on either side of an end. A single burst of power P_in next to P_out is read too low
               on average: bias -2 (P_in - P_out) u_t / sqrt(2 pi), variance
               2 u_t² ((P_in² + P_out²) / 2 - (P_in - P_out)² / (2 pi)). Squared bias and variance
               add up to u_t² (P_in² + P_out² + (P_in - P_out)² / pi), never more than
               2 · P² · u_t². So the bias is indistinguishable from the spread, and no energy is
               corrected for the bias
    counter    a step of the energy counter at each of the two readings
    noise      V · dt · sigma · sqrt(n), independent for each channel
    clock rate energy · difference of the rates of the two clocks / sqrt(3): one of the rates is
               wrong, and it is unknown which
    in step    samples at the same moments of every inference, in_step.py
    gaps       energy of the gaps, between those at the idle power and at the mean power:
               range / sqrt(12)
    count      energy of the time outside inferences / sqrt(3): the device took from none to all of
               the energy that inferences would take in this time
    between samples  for instants: sqrt(sum (dt · dP)² / 2) over the pieces, without the part that
               noise contributes
    missing    lost time · (highest - lowest power) / sqrt(12)
    saturated  time at the end of a range · (highest - lowest power) / sqrt(3): the true power was
               anywhere between the end of the range and the reading of the higher range. Without a
               higher range, the true power was below the highest power that the board can take
    sampling   interval · (highest - lowest power) / sqrt(12), twice: each end of the window lies in
               a sample. In this sample, the power may have been anywhere in its span
    lag        delay of the values · difference of the powers before the two ends / sqrt(3)
    range switches  energy that a filter removed / sqrt(3): it was an artefact of the meter, or real
    drift      of the idle power: the mean of two values that differ by d has the uncertainty d / 2
    resolution of the signal in each range: independent for each signal
    """
    edges_j = _edges_j(np.array(window.edge_power_w), window.edge_error_s, terms)
    counter_j = math.hypot(*(term.standard for term in terms if term.unit is Unit.JOULE))
    noise_j = _noise_j(window, terms)
    # The resolution error is independent for each range and channel.
    resolution_j = [
        term.standard * _level_j(term.unit, window, part)
        for term in terms
        if term.kind is Kind.RESOLUTION
        for number, part in _parts(window).items()
        if term.range in (ALL_RANGES, number)
    ]
    return {
        "edges": float(edges_j),
        "counter": math.sqrt(2) * counter_j,
        "noise": noise_j,
        "clock rate": window.rate_j,
        IN_STEP: window.in_step_j,
        "gaps": window.gaps_j,
        "count": window.count_j,
        BETWEEN_SAMPLES: math.sqrt(max(0.0, window.between_j**2 - noise_j**2)),
        "missing": window.missing_s * window.power_w_span / math.sqrt(12),
        "saturated": window.saturated_s * max(window.power_w_span, window.ceiling_w) / math.sqrt(3),
        "sampling": math.sqrt(2 / 12) * window.sample_s * window.power_w_span,
        "lag": window.lag_j / math.sqrt(3),
        "range switches": abs(window.spike_j) / math.sqrt(3),
        "drift": window.duration_s * window.drift_w / 2,
        "resolution": math.sqrt(window.channel_count) * math.hypot(*resolution_j),
    }


def _edges_j(edge_power_w: Floats, edge_error_s: float, terms: Sequence[UncertaintyTerm]) -> Floats:
    """Uncertainty, J, from the ends of one window, shape (2,), or many windows, shape (2, n)."""
    edge_s = math.hypot(edge_error_s, *(term.standard for term in terms if term.kind is Kind.EDGE))
    edges_j: Floats = np.hypot(edge_power_w[0], edge_power_w[1]) * edge_s
    return edges_j


def _noise_j(window: EnergyWindow, terms: Sequence[UncertaintyTerm]) -> float:
    if not window.sample_count:
        return 0.0
    sigma_w = math.hypot(
        *(
            term.standard * (window.supply_v if term.unit is Unit.AMPERE else 1.0)
            for term in terms
            if term.kind is Kind.NOISE
        )
    )
    sigma_w = math.hypot(sigma_w, window.noise_w) * math.sqrt(window.channel_count)
    return sigma_w * window.duration_s / math.sqrt(window.sample_count)
