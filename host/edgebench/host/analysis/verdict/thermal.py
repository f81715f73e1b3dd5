"""Rules about heat: did the device slow down, did it start cool, was it watched?"""

from __future__ import annotations

from edgebench.host.analysis.thermal.heat_signals import FREQ_DROP_LIMIT_RATIO, LATENCY_LIMIT_RATIO
from edgebench.host.analysis.verdict.evidence import (
    Evidence,
    Ruling,
    at_most,
    holds,
    not_applicable,
    unknown,
)
from edgebench.host.result.thermal import ThermalState
from edgebench.protocol.thermal import CooldownOutcome

MOVED_LIMIT_RATIO = 0.05
"""Share of the run on another type of core: less shows in the highest percentiles only."""
SAMPLER_LIMIT_RATIO = 0.01
"""Share of one CPU that watching may cost where it may take the time from the model."""
APART_LIMIT_RATIO = 0.02
"""Share of a CPU that is not under test: there it only takes heat, caches and memory. A slow core
needs more time for the same readings, and a busy one begins each of them with cold caches."""


def thermal(evidence: Evidence) -> Ruling:
    """The device did not slow down."""
    throttling = evidence.measured.throttling
    if throttling is None:
        return unknown("not_looked_at")
    if throttling.state is ThermalState.UNKNOWN:
        return unknown("unknown", facts={"why": throttling.reason})
    if throttling.state is ThermalState.NOT_THROTTLED:
        return holds(True, "not_throttled", facts={"why": throttling.reason})
    if not throttling.is_slowed:
        return holds(True, "not_heat")
    return holds(
        False,
        value=throttling.retention_ratio,
        unit=None if throttling.retention_ratio is None else "ratio",
        facts={
            "verdict": throttling.verdict,
            "onset_s": throttling.onset_s,
            "why": throttling.reason,
            "is_certain": throttling.is_certain,
        },
    )


def interference(evidence: Evidence) -> Ruling:
    """Nothing but heat slowed the device down."""
    throttling = evidence.measured.throttling
    if throttling is None:
        return unknown("unknown")
    if throttling.state is ThermalState.INTERFERENCE:
        return holds(False, facts={"why": throttling.reason})
    share, times = throttling.moved_ratio, throttling.moved_latency_ratio
    if share is not None and times is not None and share > MOVED_LIMIT_RATIO:
        is_same = max(times, 1 / times) <= LATENCY_LIMIT_RATIO
        return holds(is_same, "moved", facts={"share": share, "times": times})
    if throttling.state is ThermalState.UNKNOWN:
        return unknown("unknown")
    return holds(True, "none")


def start_temperature(evidence: Evidence) -> Ruling:
    """The run began below where the device throttles: a hot start hides everything."""
    throttling = evidence.measured.throttling
    if throttling is None or throttling.throttle_temp_c is None:
        return unknown("no_limit")
    if throttling.is_baseline_cool is None or throttling.start_temp_c is None:
        return unknown("not_read")
    return holds(
        throttling.is_baseline_cool,
        None if throttling.is_baseline_cool else "hot",
        value=throttling.start_temp_c,
        limit=throttling.throttle_temp_c,
        unit="c",
        facts={"max_temp_c": throttling.max_temp_c or 0.0},
    )


def nominal_clock(evidence: Evidence) -> Ruling:
    """The clock was what it should be: a low one from the start is no onset, and yet slow."""
    throttling = evidence.measured.throttling
    if (
        throttling is None
        or throttling.baseline_freq_hz is None
        or throttling.nominal_freq_hz is None
    ):
        return unknown("no_clock")
    first_hz, nominal_hz = throttling.baseline_freq_hz, throttling.nominal_freq_hz
    is_nominal = first_hz >= FREQ_DROP_LIMIT_RATIO * nominal_hz
    if not is_nominal and not evidence.record.expected.clusters:
        # The highest clock that the kernel allows may be a turbo that few cores reach together.
        return unknown("maybe_turbo", facts={"freq_hz": first_hz, "nominal_freq_hz": nominal_hz})
    return holds(
        is_nominal,
        None if is_nominal else "low",
        value=first_hz,
        limit=FREQ_DROP_LIMIT_RATIO * nominal_hz,
        unit="hz",
        facts={"freq_hz": first_hz, "nominal_freq_hz": nominal_hz},
    )


def cooldown(evidence: Evidence) -> Ruling:
    """The device was as cool as it should be before the run."""
    cooldown = evidence.record.cooldown
    if cooldown.outcome is CooldownOutcome.NOT_ASKED:
        return not_applicable("not_asked")
    if cooldown.outcome is CooldownOutcome.NO_SENSOR or cooldown.reached_c is None:
        return unknown("no_sensor")
    is_cool = cooldown.outcome is CooldownOutcome.COOL
    is_below = cooldown.target_c is not None and cooldown.reached_c <= cooldown.target_c
    return holds(
        is_cool,
        "no_target"
        if cooldown.target_c is None
        else "unsettled"
        if is_below and not is_cool
        else None,
        value=cooldown.reached_c,
        limit=cooldown.target_c,
        unit="c",
        facts={"waited_s": cooldown.waited_s},
    )


def telemetry(evidence: Evidence) -> Ruling:
    """The device was watched, and the watching cost nothing."""
    facts = evidence.record.telemetry
    is_asked = evidence.record.spec.telemetry_rate_hz > 0
    if not is_asked and not facts.sensors:
        return not_applicable("not_asked")
    lost = next((item.reason for item in facts.absent if item.sensor == "all"), None)
    if lost is not None:
        return holds(False, "lost", facts={"why": lost})
    if not facts.sensors or facts.wall_s <= 0:
        return unknown("none")
    return at_most(
        facts.cpu_s / facts.wall_s,
        APART_LIMIT_RATIO if _is_apart(evidence) else SAMPLER_LIMIT_RATIO,
        "ratio",
        None if is_asked else "guard_only",
        facts={"sensor_count": len(facts.sensors), "rate_hz": facts.rate_hz},
    )


def _is_apart(evidence: Evidence) -> bool:
    """Whether the model had CPUs of its own, and left one for the sampler."""
    bound = evidence.worker.scheduling.cpus
    usable_count = evidence.record.environment.cpu.usable_count
    return bool(evidence.record.spec.cpus) and len(bound) < usable_count
