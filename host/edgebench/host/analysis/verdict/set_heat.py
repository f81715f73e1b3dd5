"""Rules about heat, clock and drift over all runs of a set.

A run of a quick set is too short to detect a slowdown, because the detector needs eight windows of
a second. The runs of a set follow each other on the same device, so their temperatures and clocks
together show what a single run cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from edgebench.host.analysis.thermal.heat_signals import FREQ_DROP_LIMIT_RATIO
from edgebench.host.analysis.verdict import advice
from edgebench.host.analysis.verdict.cause import DISTURBANCES, Cause
from edgebench.host.analysis.verdict.rule import (
    LOOP,
    SUSPECT,
    TIMES,
    Rule,
    Ruling,
    WatchedQuantity,
    at_least,
    at_most,
    plain,
    reason,
    unknown,
)
from edgebench.host.analysis.verdict.run_set import SetEvidence, TimedSetRule
from edgebench.host.result.thermal import ThermalResult
from edgebench.protocol.percent import format_percent

HYSTERESIS_C = 5.0
"""Distance below the throttle temperature within which a device may still be throttled. A governor
releases the clock only below the trip point minus the hysteresis. Source: Linux, device trees of
rk3588, bcm2711, qcom and imx8: `hysteresis` of 1000 to 5000 m°C."""
DRIFT_LIMIT_RATIO = 0.02
"""Largest drift inside the runs, as the median over the runs. The interval of the set includes the
drift, but if all runs drift, the device heats up in each run."""


class HeatOfSetRule(TimedSetRule):
    """In all runs of the set, the device was too cool to throttle, or ran at its nominal clock."""

    id, severity = "set_heat", SUSPECT
    cause = Cause.HEAT
    harms = TIMES
    watches = WatchedQuantity.HEAT
    advise = advice.cool
    unseen = plain(
        "unseen",
        "each run needs a sensor with a known throttle temperature, or a clock with a known "
        "nominal frequency",
        advice.see_sensors,
    )

    @reason("")
    @staticmethod
    def highest(value: float, limit: float, *, run_count: int) -> str:
        return (
            f"up to {value:.1f} °C in {run_count} runs, limit {limit:.1f} °C: a device that "
            f"throttles at {limit + HYSTERESIS_C:.1f} °C may stay throttled above the limit"
        )

    @reason("nominal")
    @staticmethod
    def nominal(value: float, limit: float, *, max_temp_c: float | None) -> str:
        heat = "" if max_temp_c is None else f", at up to {max_temp_c:.1f} °C"
        return (
            f"the clock was at least {format_percent(value, 1)} of the nominal clock in all "
            f"runs{heat}"
        )

    def check_times(self, evidence: SetEvidence) -> Ruling:
        runs = _thermal(evidence)
        max_c = _of_all(max, [run.max_temp_c for run in runs])
        clock = _of_all(
            min,
            [
                run.baseline_freq_hz / run.nominal_freq_hz
                if run.baseline_freq_hz and run.nominal_freq_hz
                else None
                for run in runs
            ],
        )
        if clock is not None and clock >= FREQ_DROP_LIMIT_RATIO:
            found = self.nominal(max_temp_c=max_c)
            return at_least(clock, FREQ_DROP_LIMIT_RATIO, "ratio", found)
        throttle_c = _of_all(min, [run.throttle_temp_c for run in runs])
        if max_c is None or throttle_c is None:
            return unknown(self.unseen())
        found = self.highest(run_count=len(runs))
        return at_most(max_c, throttle_c - HYSTERESIS_C, "c", found)


class ClockOfSetRule(TimedSetRule):
    """The clock was the same in all runs of the set."""

    id, severity = "set_clock", SUSPECT
    cause = Cause.CLOCK_FREQUENCY
    effect_of = frozenset({Cause.POWER_SUPPLY, Cause.HEAT, Cause.PHONE_STATE})
    harms = TIMES
    advise = advice.governor
    unseen = plain("unseen", "a trusted clock was not read in every run", advice.see_sensors)

    @reason("")
    @staticmethod
    def lowest(value: float, limit: float, *, highest_hz: float, lowest_hz: float) -> str:
        return (
            f"the lowest clock of the runs, {lowest_hz / 1e9:.3g} GHz, is "
            f"{format_percent(value, 1)} of the "
            f"highest, {highest_hz / 1e9:.3g} GHz; at least {format_percent(limit)} needed"
        )

    def check_times(self, evidence: SetEvidence) -> Ruling:
        clocks_hz = [run.baseline_freq_hz for run in _thermal(evidence)]
        low_hz, high_hz = _of_all(min, clocks_hz), _of_all(max, clocks_hz)
        if not low_hz or not high_hz:
            return unknown(self.unseen())
        found = self.lowest(highest_hz=high_hz, lowest_hz=low_hz)
        return at_least(low_hz / high_hz, FREQ_DROP_LIMIT_RATIO, "ratio", found)


class DriftOfSetRule(TimedSetRule):
    """Most runs of the set have little drift; if a device heats up in each run, all runs drift."""

    id, severity = "set_drift", SUSPECT
    cause = Cause.WARMING_UP
    effect_of = DISTURBANCES
    harms = LOOP
    advise = advice.more("see where the latency settles: {}", "sustained_s", 1200.0)

    @reason("")
    @staticmethod
    def drift(value: float, limit: float) -> str:
        return (
            f"the latency drifts by {format_percent(value, 1)} inside the runs, limit "
            f"{format_percent(limit)}"
        )

    def check_times(self, evidence: SetEvidence) -> Ruling:
        return at_most(evidence.drift_ratio, DRIFT_LIMIT_RATIO, "ratio", self.drift())


def _thermal(evidence: SetEvidence) -> list[ThermalResult]:
    """The thermal results of all runs; empty if a run has none."""
    known = [run.metrics.thermal for run in evidence.runs if run.metrics.thermal is not None]
    return known if len(known) == len(evidence.runs) else []


def _of_all(
    choose: Callable[[Iterable[float]], float], values: Sequence[float | None]
) -> float | None:
    """The value that `choose` (`min` or `max`) selects; None if any run has no value."""
    known = [value for value in values if value is not None]
    return choose(known) if known and len(known) == len(values) else None


SET_HEAT_RULES: tuple[Rule[SetEvidence], ...] = (
    HeatOfSetRule(),
    ClockOfSetRule(),
    DriftOfSetRule(),
)
"""The rules, in the order in which a person should read them."""
