"""Rules about a phone's battery, screen, power saver, scheduling, and heat.

The rules apply to devices that run Android.
"""

from __future__ import annotations

from edgebench.host.analysis.verdict import advice
from edgebench.host.analysis.verdict.advice import Advice, Situation
from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.rule import (
    INVALID,
    SUSPECT,
    TIMES,
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
from edgebench.host.options.command import NextStep, command
from edgebench.host.result.reason import Reason
from edgebench.protocol.percent import format_percent

LIGHT, MODERATE = 1, 2
"""Source: `android.os.PowerManager`, THERMAL_STATUS_LIGHT, THERMAL_STATUS_MODERATE."""
STATUS_NAMES = ("none", "light", "moderate", "severe", "critical", "emergency", "shutdown")
_BACKGROUND = frozenset({"background", "system-background", "restricted"})
"""Names of control groups for background processes, which may use only few, slow CPUs. Source:
https://source.android.com/docs/core/perf/cgroups."""


class _PhoneRule(Rule[Evidence]):
    """A rule about the state of a phone."""

    no_phone = plain("no_phone", "the system is not Android")
    not_reported = plain("not_told", "the system does not report the state of the phone")

    def on_phone(self, evidence: Evidence) -> Ruling:
        """The ruling for a device that runs Android."""
        raise NotImplementedError

    def check(self, evidence: Evidence) -> Ruling:
        if evidence.record.environment.android is None:
            return not_applicable(self.no_phone())
        return self.on_phone(evidence)

    def never(self, ratio: float | None, found: Reason) -> Ruling:
        """The ruling on a state that must not occur in any reading.

        Args:
            ratio: Share of the readings with this state; None if the system does not report the
                state.
            found: Reason of the ruling.
        """
        return (
            unknown(self.not_reported()) if ratio is None else at_most(ratio, 0.0, "ratio", found)
        )


@advice.Advise
def _pull_the_cable(to: Situation) -> Advice:
    heeds = (
        "or make the phone ignore the cable, if it supports this: adb shell setprop "
        "power.battery_input.suspended true"
    )
    steps = (
        NextStep(
            "unplug the cable; the phone keeps the run until you collect it: {}", to.given.collect()
        ),
        NextStep(f"{heeds}; set it to false after the run"),
    )
    return Advice(steps)


class ChargingRule(_PhoneRule):
    """The phone ran on its battery and did not charge, because charging heats it."""

    id, severity = "charging", SUSPECT
    cause = Cause.PHONE_STATE
    harms = TIMES
    advise = _pull_the_cable
    faked = plain(
        "faked",
        "the battery service reports values set by dumpsys battery instead of measured values",
        advice.always("restore the reports of the battery: adb shell dumpsys battery reset"),
    )
    charged = plain(
        "",
        lambda value, limit: f"the battery was charging in {format_percent(value)} of the readings",
    )

    def on_phone(self, evidence: Evidence) -> Ruling:
        state = evidence.measured.phone
        if state.charging_ratio is None and state.is_battery_faked:
            return unknown(self.faked())
        return self.never(state.charging_ratio, self.charged())


class ScreenRule(_PhoneRule):
    """The screen was on. With the screen off, the system slows processes down and may sleep."""

    id, severity = "screen", SUSPECT
    cause = Cause.PHONE_STATE
    harms = TIMES
    advise = advice.always(
        f"switch the screen on, and keep it on: adb shell input keyevent 224; {advice.AWAKE}"
    )
    was_off = plain(
        "", lambda value, limit: f"the screen was off in {format_percent(value)} of the readings"
    )

    def on_phone(self, evidence: Evidence) -> Ruling:
        return self.never(evidence.measured.phone.screen_off_ratio, self.was_off())


class PowerSaverRule(_PhoneRule):
    """The power saver, which lowers clock frequencies, was off."""

    id, severity = "power_saver", SUSPECT
    cause = Cause.PHONE_STATE
    harms = TIMES
    advise = advice.always("switch the power saver off: adb shell settings put global low_power 0")
    was_on = plain(
        "",
        lambda value, limit: f"the power saver was on in {format_percent(value)} of the readings",
    )

    def on_phone(self, evidence: Evidence) -> Ruling:
        return self.never(evidence.measured.phone.power_saver_ratio, self.was_on())


def _sample_or_upgrade(to: Situation) -> Advice:
    sampled = NextStep("enable sampling: {}", to.given.bench(telemetry_rate_hz=10.0))
    return Advice((sampled, NextStep("upgrade its agent: {}", command("deploy", "adb:SERIAL"))))


class PhoneSettingsRule(Rule[Evidence]):
    """Airplane mode and brightness were as requested by the run."""

    id, severity = "phone_settings", SUSPECT
    cause = Cause.PHONE_STATE
    harms = TIMES
    advise = advice.always("measure again without using the phone during the run")
    as_requested = plain("", "airplane mode and brightness were as requested")
    not_requested = plain("not_asked", "neither airplane mode nor a brightness was requested")
    not_reported = plain(
        "not_told",
        "airplane mode or brightness was requested, but the agent does not report these settings",
        advice.Advise(_sample_or_upgrade),
    )
    not_in_airplane_mode = plain(
        "airplane_mode",
        lambda value, limit: f"airplane mode was off in {format_percent(value)} of the readings",
    )

    @reason("brightness")
    @staticmethod
    def other_brightness(
        value: float, limit: float, *, lowest: int, highest: int, requested: int | None
    ) -> str:
        was = f"the brightness of the screen was {lowest} to {highest}"
        return f"{was}, requested {requested}"

    def check(self, evidence: Evidence) -> Ruling:
        spec, state = evidence.record.spec, evidence.measured.phone
        requested = spec.screen_brightness
        if not spec.is_airplane_mode and requested is None:
            return not_applicable(self.not_requested())
        is_reported = state.airplane_mode_ratio is not None or not spec.is_airplane_mode
        if not is_reported or (requested is not None and state.screen_brightness is None):
            return holds(False, self.not_reported())  # earlier agents ignore the request
        if spec.is_airplane_mode and state.airplane_mode_ratio != 1:
            off_ratio = 1 - (state.airplane_mode_ratio or 0.0)
            return at_most(off_ratio, 0.0, "ratio", self.not_in_airplane_mode())
        lowest, highest = state.screen_brightness or (0, 0)
        if requested is None or lowest == highest == requested:
            return holds(True, self.as_requested())
        other = self.other_brightness(lowest=lowest, highest=highest, requested=requested)
        return holds(False, other)


class SchedulingGroupRule(_PhoneRule):
    """The worker's control groups allowed all CPUs at their full clock."""

    id, severity = "scheduling_group", SUSPECT
    cause = Cause.PHONE_STATE
    harms = TIMES
    advise = advice.always(f"keep the screen on: {advice.AWAKE}")

    @reason("")
    @staticmethod
    def all_cpus(
        value: float, limit: float, *, group: str, cpu_count: int, of_cpu_count: int
    ) -> str:
        on = f"group {group}, on {cpu_count} of {of_cpu_count} CPUs"
        return f"{on}; the group is not that of a foreground app"

    @reason("few_cpus")
    @staticmethod
    def few_cpus(
        value: float, limit: float, *, group: str, cpu_count: int, of_cpu_count: int
    ) -> str:
        return f"group {group} may use {cpu_count} of {of_cpu_count} CPUs"

    @reason("background")
    @staticmethod
    def background(value: float, limit: float, *, group: str) -> str:
        return f"group {group} is for background processes, which run on slow CPUs"

    @reason("clamped")
    @staticmethod
    def clamped(value: float, limit: float, *, group: str, highest: float) -> str:
        return (
            f"group {group} is scheduled as if it used at most {format_percent(highest)} of a CPU"
        )

    def on_phone(self, evidence: Evidence) -> Ruling:
        groups, cpu = evidence.worker.scheduling.android, evidence.record.environment.cpu
        if groups is None or groups.cpuset is None:
            return unknown(self.not_reported())
        highest = groups.utilization_max_ratio
        if groups.cpuset.rpartition("/")[2] in _BACKGROUND:
            return holds(False, self.background(group=groups.cpuset))
        if highest is not None and highest < 1:
            return holds(False, self.clamped(group=groups.cpuset, highest=highest))
        has_all = cpu.usable_count >= cpu.logical_count
        kind = self.all_cpus if has_all else self.few_cpus
        found = kind(
            group=groups.cpuset, cpu_count=cpu.usable_count, of_cpu_count=cpu.logical_count
        )
        return holds(has_all, found)


class _ThermalStatusRule(_PhoneRule):
    """The thermal status of the system stayed below `lowest`."""

    lowest: int
    cause, watches = Cause.HEAT, WatchedQuantity.HEAT
    advise = advice.cool
    overridden = plain(
        "overridden",
        "Android's thermal status was overridden (cmd thermalservice override-status)",
        advice.always("restore the thermal status: adb shell cmd thermalservice reset"),
    )

    @reason("")
    @staticmethod
    def highest(value: float, limit: float, *, name: str) -> str:
        most = f"the highest thermal status of Android was {value:.0f} ({name})"
        return f"{most}, limit {limit:.0f}"

    def on_phone(self, evidence: Evidence) -> Ruling:
        state, lowest = evidence.measured.phone, self.lowest
        status = state.thermal_status_max
        if status is None or (state.is_thermal_overridden and status < lowest):
            return unknown(
                self.overridden() if state.is_thermal_overridden else self.not_reported()
            )
        name = STATUS_NAMES[min(max(status, 0), len(STATUS_NAMES) - 1)]
        found = self.highest(name=name)
        return holds(status < lowest, found, value=status, limit=lowest - 1, unit="status")


class ThermalStatusModerateRule(_ThermalStatusRule):
    """The system did not report that it throttles."""

    id, severity, includes = "thermal_status_moderate", INVALID, "thermal_status"
    lowest = MODERATE


class ThermalStatusRule(_ThermalStatusRule):
    """The thermal status that the system reported was always "none"."""

    id, severity = "thermal_status", SUSPECT
    harms = TIMES
    lowest = LIGHT


PHONE_RULES: tuple[Rule[Evidence], ...] = (
    ChargingRule(),
    ScreenRule(),
    PowerSaverRule(),
    PhoneSettingsRule(),
    SchedulingGroupRule(),
    ThermalStatusModerateRule(),
    ThermalStatusRule(),
)
"""The rules, in the order in which a person should read them."""
