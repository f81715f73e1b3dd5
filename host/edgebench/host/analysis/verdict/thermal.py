"""Rules about heat: did the device slow down, did it start cool, was anybody looking?"""

from __future__ import annotations

import math

from edgebench.host.analysis.thermal.heat_signals import FREQ_LIMIT_RATIO
from edgebench.host.analysis.thermal.throttling import ThermalState
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.protocol.thermal import CooldownOutcome

SAMPLER_LIMIT_RATIO = 0.01
"""Of one CPU: what watching may cost where it may take the time from the model."""
APART_LIMIT_RATIO = 0.02
"""Of a CPU that is not under test: there it only takes heat, caches and memory. A slow core needs
more time for the same looks, and a busy one begins each of them with cold caches."""


def thermal(evidence: Evidence) -> tuple[bool | None, str]:
    """The device did not slow down."""
    found = evidence.measured.throttling
    if found is None or found.state is ThermalState.UNKNOWN:
        return None, "nothing was looked at" if found is None else found.reason
    slowed = found.state in (ThermalState.THROTTLED, ThermalState.FREQUENCY_LIMITED)
    if not slowed:
        return True, found.reason if found.state is ThermalState.NOT_THROTTLED else "not by heat"
    when = "" if found.onset_s is None else f" from {found.onset_s:.0f} s on"
    ratio = found.retention_ratio
    kept = "" if ratio is None else f", {ratio:.0%} of the speed left by the median"
    how = "the device says so" if found.is_certain else "probable"
    return False, f"{found.verdict}{when}{kept}: {found.reason} ({how})"


def interference(evidence: Evidence) -> tuple[bool | None, str]:
    """Nothing but heat slowed the device down."""
    found = evidence.measured.throttling
    if found is None or found.state is ThermalState.UNKNOWN:
        return None, "nothing tells whether the latency grew, or why"
    if found.state is ThermalState.INTERFERENCE:
        return False, found.reason
    return True, "the latency did not grow without a reason"


def start_temperature(evidence: Evidence) -> tuple[bool | None, str]:
    """The run began below where the device throttles: a hot start hides everything."""
    found = evidence.measured.throttling
    if found is None or found.throttle_temp_c is None:
        return None, "no temperature with a known limit can be read"
    if found.is_baseline_cool is None or found.start_temp_c is None:
        return None, "the temperature was not read in the first seconds"
    text = f"{found.start_temp_c:.1f} °C at the start, {found.max_temp_c or 0:.1f} °C at most"
    near = "below" if found.is_baseline_cool else "in its first seconds near"
    return found.is_baseline_cool, f"{text}: {near} {found.throttle_temp_c:.1f} °C, its limit"


def nominal_clock(evidence: Evidence) -> tuple[bool | None, str]:
    """The clock was what it should be: a low one from the start is no onset, and yet slow."""
    found = evidence.measured.throttling
    if found is None or found.baseline_freq_hz is None or found.nominal_freq_hz is None:
        return None, "no clock that can be believed, or none to hold it against"
    text = f"{found.baseline_freq_hz / 1e9:.2f} of {found.nominal_freq_hz / 1e9:.2f} GHz at first"
    if found.baseline_freq_hz >= FREQ_LIMIT_RATIO * found.nominal_freq_hz:
        return True, text
    if not evidence.record.expected.clusters:
        # The highest clock that the kernel allows may be a turbo that few cores reach together.
        return None, f"{text}: a slow governor, a power mode, or a turbo that did not come"
    return False, f"{text}: a slow governor or a power mode"


def cooldown(evidence: Evidence) -> tuple[bool | None, str]:
    """The device was as cool as it should be before the run."""
    found = evidence.record.cooldown
    if found.outcome is CooldownOutcome.NOT_ASKED:
        return None, "nobody waited for a cool device"
    if found.outcome is CooldownOutcome.NO_SENSOR or found.reached_c is None:
        return None, "no temperature with a known target can be read"
    limit = "" if found.target_c is None else f", at most {found.target_c:.1f} °C"
    text = f"{found.reached_c:.1f} °C after {found.waited_s:.0f} s of waiting{limit}"
    return found.outcome is CooldownOutcome.COOL, text


def telemetry(evidence: Evidence) -> tuple[bool | None, str]:
    """The device was watched, and the watching cost nothing."""
    facts = evidence.record.telemetry
    is_asked = evidence.record.spec.telemetry_rate_hz > 0
    if not is_asked and not facts.sensors:
        return None, "nobody was asked to look"
    lost = next((item.reason for item in facts.absent if item.sensor == "all"), None)
    if lost is not None:
        return False, f"no telemetry: {lost}"
    if not facts.sensors or facts.wall_s <= 0:
        return None, "no telemetry"
    why = "" if is_asked else ", only for the limit of the temperature"
    share = facts.cpu_s / facts.wall_s
    limit = APART_LIMIT_RATIO if _is_apart(evidence) else SAMPLER_LIMIT_RATIO
    # Rounded up, so that what is over the limit never reads as the limit itself.
    shown = math.ceil(round(share * 1e4, 6)) / 1e4
    return share <= limit, (
        f"{len(facts.sensors)} sensors at {facts.rate_hz:g} Hz{why}, which took {shown:.2%} of a "
        f"CPU, limit {limit:.0%}"
    )


def _is_apart(evidence: Evidence) -> bool:
    """Whether the model had CPUs of its own, and left one for the sampler."""
    bound = evidence.worker.scheduling.cpus
    usable_count = evidence.record.environment.cpu.usable_count
    return bool(evidence.record.spec.cpus) and len(bound) < usable_count
