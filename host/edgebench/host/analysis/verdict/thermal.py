"""Rules about heat: slowdowns, start temperature, clocks, cooldown and telemetry."""

from __future__ import annotations

import math

from edgebench.host.analysis.thermal.heat_signals import FREQ_DROP_LIMIT_RATIO, LATENCY_LIMIT_RATIO
from edgebench.host.analysis.verdict import advice
from edgebench.host.analysis.verdict.cause import DISTURBANCES, Cause
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.rule import (
    SUSPECT,
    TIMES,
    EvidenceT,
    Rule,
    Ruling,
    WatchedQuantity,
    at_most,
    holds,
    not_applicable,
    plain,
    reason,
    unknown,
)
from edgebench.host.result.reason import Reason
from edgebench.host.result.reasons.table import sentence_of
from edgebench.host.result.thermal import (
    MEMORY_CLOCK,
    POWER_LIMIT,
    POWER_SUPPLY,
    UNKNOWN_CAUSE,
    ThermalState,
)
from edgebench.protocol.percent import format_percent
from edgebench.protocol.thermal import CooldownOutcome

MOVED_LIMIT_RATIO = 0.05
"""Largest share of the run on a type of core other than the usual type. A smaller share affects
only the highest percentiles."""
SAMPLER_LIMIT_RATIO = 0.01
"""Largest share of a CPU's time for the sampler if the sampler may compete with the model."""
APART_LIMIT_RATIO = 0.02
"""Largest share of a CPU's time for the sampler if the model does not run on that CPU. The sampler
then affects only heat, caches and memory. A slow core needs more time for the same readings, and a
busy core begins each reading with cold caches."""


def _slowdown(
    value: float,
    limit: float,
    *,
    verdict: str,
    onset_s: float | None,
    why: str | tuple[Reason, ...],
    is_certain: bool,
) -> str:
    from_s = "" if onset_s is None else f" from {onset_s:.0f} s on"
    kept = (
        "" if math.isnan(value) else f", performance retention {format_percent(value)} by latency"
    )
    certainty = "reported by the device" if is_certain else "probable"
    return f"{verdict}{from_s}{kept}: {sentence_of(why)} ({certainty})"


class SlowdownRule(Rule[EvidenceT]):
    """The device did not slow down because of heat."""

    id, severity = "thermal", SUSPECT
    cause = Cause.HEAT
    harms = TIMES
    watches = WatchedQuantity.HEAT
    advise = advice.cool
    not_heat = plain("not_heat", "not throttled; see interference")
    not_looked_at = plain("not_looked_at", "no telemetry", advice.sample)
    no_sensor = plain(
        "no_sensor", "the device has no readable temperature sensor", advice.see_sensors
    )

    slowed = reason("")(_slowdown)
    slowed_by_memory = reason(
        "memory_clock",
        advice.again(
            "fix the clock of the memory during the run (as root: echo performance > "
            "/sys/class/devfreq/NAME/governor), then measure again: {}"
        ),
        Cause.CLOCK_FREQUENCY,
    )(_slowdown)
    slowed_by_supply = reason(
        "power_supply",
        advice.again("use a stronger power supply and a shorter cable, then measure again: {}"),
        Cause.POWER_SUPPLY,
    )(_slowdown)
    slowed_by_power_limit = reason(
        "power_limit",
        advice.again(
            "raise the device's power limit, or choose a faster power mode; then measure again: {}"
        ),
        Cause.CLOCK_FREQUENCY,
    )(_slowdown)
    slowed_by_clock = reason("clock", advice.governor, Cause.CLOCK_FREQUENCY)(_slowdown)

    @reason("not_throttled")
    @staticmethod
    def not_throttled(value: float, limit: float, *, why: str | tuple[Reason, ...]) -> str:
        return sentence_of(why)

    @reason("unknown")
    @staticmethod
    def not_known(value: float, limit: float, *, why: str | tuple[Reason, ...]) -> str:
        return sentence_of(why)


class ThermalRule(SlowdownRule[Evidence]):
    """The device did not slow down because of heat."""

    def check(self, evidence: Evidence) -> Ruling:
        throttling = evidence.measured.throttling
        if throttling is None:
            return unknown(self.not_looked_at())
        if throttling.state is ThermalState.UNKNOWN:
            return unknown(self.not_known(why=throttling.reasons))
        if throttling.state is ThermalState.NOT_THROTTLED:
            return holds(True, self.not_throttled(why=throttling.reasons))
        if not throttling.is_slowed:
            return holds(True, self.not_heat())
        kinds = {
            **dict.fromkeys(POWER_SUPPLY, self.slowed_by_supply),
            MEMORY_CLOCK: self.slowed_by_memory,
            POWER_LIMIT: self.slowed_by_power_limit,
            UNKNOWN_CAUSE: self.slowed_by_clock,
        }
        kind = kinds.get(throttling.cause or "", self.slowed)
        slowed = kind(
            verdict=throttling.verdict,
            onset_s=throttling.onset_s,
            why=throttling.reasons,
            is_certain=throttling.is_certain,
        )
        retention = throttling.retention_ratio
        return holds(False, slowed, value=retention, unit=None if retention is None else "ratio")


class InterferenceRule(Rule[Evidence]):
    """The device did not slow down for reasons other than heat."""

    id, severity = "interference", SUSPECT
    cause = Cause.UNKNOWN_SLOWDOWN
    effect_of = DISTURBANCES
    harms = TIMES
    advise = advice.alone
    none = plain("none", "no slowdown of unknown cause")
    not_known = plain("unknown", "the run does not show whether the latency rose")

    @reason("")
    @staticmethod
    def slowed(value: float, limit: float, *, why: str | tuple[Reason, ...]) -> str:
        return sentence_of(why)

    @reason("moved", advice.one_kind, Cause.OTHER_CORES)
    @staticmethod
    def moved(value: float, limit: float, *, share: float, times: float) -> str:
        return (
            f"for {format_percent(share)} of the run the model was on another type of "
            "core, where an inference "
            f"took {times:.2g} times as long"
        )

    def check(self, evidence: Evidence) -> Ruling:
        throttling = evidence.measured.throttling
        if throttling is None:
            return unknown(self.not_known())
        if throttling.state is ThermalState.INTERFERENCE:
            return holds(False, self.slowed(why=throttling.reasons))
        share, times = throttling.moved_ratio, throttling.moved_latency_ratio
        if share is not None and times is not None and share > MOVED_LIMIT_RATIO:
            is_same = max(times, 1 / times) <= LATENCY_LIMIT_RATIO
            return holds(is_same, self.moved(share=share, times=times))
        if throttling.state is ThermalState.UNKNOWN:
            return unknown(self.not_known())
        return holds(True, self.none())


class StartTemperatureRule(Rule[Evidence]):
    """The run began below the device's throttle temperature; a hot start hides throttling."""

    id, severity = "start_temperature", SUSPECT
    cause = Cause.HOT_START
    effect_of = frozenset({Cause.HEAT})
    harms = TIMES
    advise = advice.cool
    no_limit = plain(
        "no_limit", "no readable temperature has a known throttle temperature", advice.see_sensors
    )
    not_read = plain(
        "not_read", "the temperature was not read during the baseline", advice.see_sensors
    )

    @reason("")
    @staticmethod
    def start(value: float, limit: float, *, max_temp_c: float) -> str:
        most = f"{value:.1f} °C after the warm-up, peak {max_temp_c:.1f} °C"
        return f"{most}; throttles at {limit:.1f} °C"

    @reason("hot")
    @staticmethod
    def hot(value: float, limit: float, *, max_temp_c: float) -> str:
        return (
            f"{value:.1f} °C after the warm-up, peak {max_temp_c:.1f} °C: the baseline was "
            f"close to {limit:.1f} °C, where the device throttles"
        )

    def check(self, evidence: Evidence) -> Ruling:
        throttling = evidence.measured.throttling
        if throttling is None or throttling.throttle_temp_c is None:
            return unknown(self.no_limit())
        if throttling.is_baseline_cool is None or throttling.start_temp_c is None:
            return unknown(self.not_read())
        kind = self.start if throttling.is_baseline_cool else self.hot
        return holds(
            throttling.is_baseline_cool,
            kind(max_temp_c=throttling.max_temp_c or 0.0),
            value=throttling.start_temp_c,
            limit=throttling.throttle_temp_c,
            unit="c",
        )


class NominalClockRule(Rule[Evidence]):
    """The clock was nominal. A clock that is low from the start shows no onset of a slowdown."""

    id, severity, watches = "nominal_clock", SUSPECT, WatchedQuantity.CLOCK
    cause = Cause.CLOCK_FREQUENCY
    effect_of = frozenset({Cause.POWER_SUPPLY, Cause.HEAT, Cause.PHONE_STATE})
    harms = TIMES
    advise = advice.governor
    no_clock = plain(
        "no_clock", "no trusted clock was read, or its nominal value is unknown", advice.see_sensors
    )

    @reason("")
    @staticmethod
    def nominal(value: float, limit: float, *, freq_hz: float, nominal_freq_hz: float) -> str:
        return _clocks(freq_hz, nominal_freq_hz)

    @reason("low")
    @staticmethod
    def low(value: float, limit: float, *, freq_hz: float, nominal_freq_hz: float) -> str:
        return f"{_clocks(freq_hz, nominal_freq_hz)}; the cause is a slow governor or a power mode"

    @reason("maybe_turbo")
    @staticmethod
    def maybe_turbo(value: float, limit: float, *, freq_hz: float, nominal_freq_hz: float) -> str:
        clocks = _clocks(freq_hz, nominal_freq_hz)
        return f"{clocks}; the cause is a slow governor, a power mode or an unreached turbo"

    def check(self, evidence: Evidence) -> Ruling:
        throttling = evidence.measured.throttling
        if (
            throttling is None
            or throttling.baseline_freq_hz is None
            or throttling.nominal_freq_hz is None
        ):
            return unknown(self.no_clock())
        first_hz, nominal_hz = throttling.baseline_freq_hz, throttling.nominal_freq_hz
        is_nominal = first_hz >= FREQ_DROP_LIMIT_RATIO * nominal_hz
        expected = evidence.record.expected
        if not is_nominal and not (expected.clusters or expected.is_limit_sustained):
            # The highest clock that the kernel allows may be a turbo that few cores reach together.
            return unknown(self.maybe_turbo(freq_hz=first_hz, nominal_freq_hz=nominal_hz))
        kind = self.nominal if is_nominal else self.low
        return holds(
            is_nominal,
            kind(freq_hz=first_hz, nominal_freq_hz=nominal_hz),
            value=first_hz,
            limit=FREQ_DROP_LIMIT_RATIO * nominal_hz,
            unit="hz",
        )


def _clocks(freq_hz: float, nominal_freq_hz: float) -> str:
    return f"{freq_hz / 1e9:.2f} GHz in the baseline, nominal {nominal_freq_hz / 1e9:.2f} GHz"


class CooldownRule(Rule[Evidence]):
    """The device had cooled down to the target temperature before the run."""

    id, severity = "cooldown", SUSPECT
    cause = Cause.HOT_START
    effect_of = frozenset({Cause.HEAT})
    harms = TIMES
    advise = advice.cool
    not_requested = plain("not_asked", "no wait was requested")
    no_sensor = plain("no_sensor", "the temperature for the cool-down wait could not be read")

    @reason("")
    @staticmethod
    def reached(value: float, limit: float, *, waited_s: float) -> str:
        return f"{value:.1f} °C after {waited_s:.0f} s of waiting, at most {limit:.1f} °C"

    @reason("no_target")
    @staticmethod
    def without_target(value: float, limit: float, *, waited_s: float) -> str:
        return f"{value:.1f} °C after {waited_s:.0f} s of waiting"

    @reason("unsettled")
    @staticmethod
    def unsettled(value: float, limit: float, *, waited_s: float) -> str:
        return (
            f"{value:.1f} °C after {waited_s:.0f} s of waiting; the temperature did not stay below "
            f"{limit:.1f} °C for long enough"
        )

    def check(self, evidence: Evidence) -> Ruling:
        cooldown = evidence.record.cooldown
        if cooldown.outcome is CooldownOutcome.NOT_ASKED:
            return not_applicable(self.not_requested())
        if cooldown.outcome is CooldownOutcome.NO_SENSOR or cooldown.reached_c is None:
            return unknown(self.no_sensor())
        is_cool = cooldown.outcome is CooldownOutcome.COOL
        kind = self.reached
        if cooldown.target_c is None:
            kind = self.without_target
        elif cooldown.reached_c <= cooldown.target_c and not is_cool:
            kind = self.unsettled
        return holds(
            is_cool,
            kind(waited_s=cooldown.waited_s),
            value=cooldown.reached_c,
            limit=cooldown.target_c,
            unit="c",
        )


class TelemetryRule(Rule[Evidence]):
    """The run has telemetry, and the sampler took little CPU time."""

    id, severity = "telemetry", SUSPECT
    cause = Cause.SAMPLER
    harms = TIMES
    advise = advice.sample_less
    none = plain("none", "no telemetry")
    not_requested = plain("not_asked", "switched off")

    @reason("")
    @staticmethod
    def sampled(value: float, limit: float, *, sensor_count: int, rate_hz: float) -> str:
        took = (
            f"the sampler took {format_percent(_rounded_up(value), 2)} of a CPU, limit "
            f"{format_percent(limit)}"
        )
        return f"{sensor_count} sensors at {rate_hz:g} Hz; {took}"

    @reason("guard_only")
    @staticmethod
    def guarded(value: float, limit: float, *, sensor_count: int, rate_hz: float) -> str:
        took = (
            f"the sampler took {format_percent(_rounded_up(value), 2)} of a CPU, limit "
            f"{format_percent(limit)}"
        )
        only = "read only to enforce the temperature limit"
        return f"{sensor_count} sensors at {rate_hz:g} Hz, {only}; {took}"

    @reason("lost")
    @staticmethod
    def lost(value: float, limit: float, *, why: str) -> str:
        return f"no telemetry: {why}"

    def check(self, evidence: Evidence) -> Ruling:
        facts = evidence.record.telemetry
        is_requested = evidence.record.spec.telemetry_rate_hz > 0
        if not is_requested and not facts.sensors:
            return not_applicable(self.not_requested())
        lost = next((item.reason for item in facts.absent if item.sensor == "all"), None)
        if lost is not None:
            return holds(False, self.lost(why=lost))
        if not facts.sensors or facts.wall_s <= 0:
            return unknown(self.none())
        kind = self.sampled if is_requested else self.guarded
        return at_most(
            facts.cpu_s / facts.wall_s,
            APART_LIMIT_RATIO if _is_apart(evidence) else SAMPLER_LIMIT_RATIO,
            "ratio",
            kind(sensor_count=len(facts.sensors), rate_hz=facts.rate_hz),
        )


def _rounded_up(ratio: float) -> float:
    """A share, rounded up to a multiple of 0.01 %.

    So a value above the limit is not shown as the limit.
    """
    return math.ceil(round(ratio * 1e4, 6)) / 1e4


def _is_apart(evidence: Evidence) -> bool:
    """Whether the model was bound to CPUs that leave at least one CPU for the sampler."""
    bound = evidence.worker.scheduling.cpus
    usable_count = evidence.record.environment.cpu.usable_count
    return bool(evidence.record.spec.cpus) and len(bound) < usable_count


THERMAL_RULES: tuple[Rule[Evidence], ...] = (
    ThermalRule(),
    InterferenceRule(),
    StartTemperatureRule(),
    NominalClockRule(),
    CooldownRule(),
    TelemetryRule(),
)
"""The rules, in the order in which a person should read them."""
