"""Rules about phones: battery, screen, power saver, scheduling, and the system's own word on heat.

They apply to devices whose system is Android; `suspended` applies to every device that records both
of the clocks that it compares.
"""

from __future__ import annotations

from edgebench.host.analysis.verdict.evidence import (
    Evidence,
    Ruling,
    at_most,
    holds,
    not_applicable,
    unknown,
)

LIGHT, MODERATE = 1, 2
"""Source: `android.os.PowerManager`, THERMAL_STATUS_LIGHT, THERMAL_STATUS_MODERATE."""
STATUS_NAMES = ("none", "light", "moderate", "severe", "critical", "emergency", "shutdown")
SUSPEND_LIMIT_S = 0.02
"""Time for which the two clocks may differ by the way they are read. A suspend and the resume after
it take longer."""
_BACKGROUND = frozenset({"background", "system-background", "restricted"})
"""Groups of processes that nobody sees; they get few CPUs, and those the slow ones. Source:
https://source.android.com/docs/core/perf/cgroups."""


def charging(evidence: Evidence) -> Ruling:
    """The phone ran from its battery, which did not charge: that heats it."""
    state = evidence.measured.phone
    if evidence.record.environment.android is None:
        return not_applicable("no_phone")
    if state.charging_ratio is None:
        return unknown("faked" if state.is_battery_faked else "not_told")
    return at_most(state.charging_ratio, 0.0, "ratio")


def screen(evidence: Evidence) -> Ruling:
    """The screen was on: with it off, the system slows processes down, and may sleep."""
    ratio = evidence.measured.phone.screen_off_ratio
    if evidence.record.environment.android is None:
        return not_applicable("no_phone")
    return unknown("not_told") if ratio is None else at_most(ratio, 0.0, "ratio")


def suspended(evidence: Evidence) -> Ruling:
    """The device did not sleep during the run: its monotonic clock stands still meanwhile."""
    before, after = evidence.worker.before.suspended_ns, evidence.worker.after.suspended_ns
    if before is None or after is None:
        return unknown("not_told")
    return at_most(max(0, after - before) / 1e9, SUSPEND_LIMIT_S, "s")


def power_saver(evidence: Evidence) -> Ruling:
    """The power saver, which lowers clocks, was off."""
    ratio = evidence.measured.phone.power_saver_ratio
    if evidence.record.environment.android is None:
        return not_applicable("no_phone")
    return unknown("not_told") if ratio is None else at_most(ratio, 0.0, "ratio")


def phone_settings(evidence: Evidence) -> Ruling:
    """Airplane mode and brightness were those that the run asked for."""
    spec, state = evidence.record.spec, evidence.measured.phone
    requested = spec.screen_brightness
    if not spec.is_airplane_mode and requested is None:
        return not_applicable("not_asked")
    is_told = state.airplane_mode_ratio is not None or not spec.is_airplane_mode
    if not is_told or (requested is not None and state.screen_brightness is None):
        return holds(False, "not_told")  # an agent of an earlier version ignores the request
    if spec.is_airplane_mode and state.airplane_mode_ratio != 1:
        return at_most(1 - (state.airplane_mode_ratio or 0.0), 0.0, "ratio", "airplane_mode")
    lowest, highest = state.screen_brightness or (0, 0)
    if requested is None or lowest == highest == requested:
        return holds(True)
    facts = {"lowest": lowest, "highest": highest, "requested": requested}
    return holds(False, "brightness", facts)


def scheduling_group(evidence: Evidence) -> Ruling:
    """The worker's control groups gave it all CPUs and all of their clock."""
    groups, cpu = evidence.worker.scheduling.android, evidence.record.environment.cpu
    if evidence.record.environment.android is None:
        return not_applicable("no_phone")
    if groups is None or groups.cpuset is None:
        return unknown("not_told")
    highest = groups.utilization_max_ratio
    if groups.cpuset.rpartition("/")[2] in _BACKGROUND:
        return holds(False, "background", {"group": groups.cpuset})
    if highest is not None and highest < 1:
        return holds(False, "clamped", {"group": groups.cpuset, "highest": highest})
    return holds(
        cpu.usable_count >= cpu.logical_count,
        None if cpu.usable_count >= cpu.logical_count else "few_cpus",
        {
            "group": groups.cpuset,
            "cpu_count": cpu.usable_count,
            "of_cpu_count": cpu.logical_count,
        },
    )


def thermal_status_moderate(evidence: Evidence) -> Ruling:
    """The system did not throttle by its own account."""
    return _thermal_status(evidence, MODERATE)


def thermal_status(evidence: Evidence) -> Ruling:
    """The system reported no heat at all."""
    return _thermal_status(evidence, LIGHT)


def _thermal_status(evidence: Evidence, lowest: int) -> Ruling:
    state = evidence.measured.phone
    if evidence.record.environment.android is None:
        return not_applicable("no_phone")
    status = state.thermal_status_max
    if status is None or (state.is_thermal_overridden and status < lowest):
        return unknown("overridden" if state.is_thermal_overridden else "not_told")
    return holds(
        status < lowest,
        value=status,
        limit=lowest - 1,
        unit="status",
        facts={"name": STATUS_NAMES[min(max(status, 0), len(STATUS_NAMES) - 1)]},
    )
