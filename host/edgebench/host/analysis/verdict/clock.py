"""Rules about the rate of the device's clock, and about times when device or clock stood still.

Four events that look alike in some clocks differ in others:

    event                        monotonic clock   clock since boot   wall clock   host's probes
    wall clock set                     on                 on             jumps           on
    suspend                          stops                on               on         device behind
    pause, clocks stopped            stops              stops            stops        device behind
    pause, clocks not stopped          on                 on               on             on

The last case is that of a frozen container and of most hypervisors. No clock shows the pause, but
neither the model nor the sampler runs during the pause.
"""

from __future__ import annotations

from edgebench.host.analysis.pauses import PAUSE_LIMIT_S
from edgebench.host.analysis.verdict import advice
from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.machine import thread_shares
from edgebench.host.analysis.verdict.rule import (
    INVALID,
    SUSPECT,
    TIMES,
    Rule,
    Ruling,
    at_most,
    holds,
    plain,
    reason,
    unknown,
)
from edgebench.host.result.units import format_step
from edgebench.protocol.percent import format_percent

CLOCK_INVALID_RATIO = 0.01
CLOCK_SUSPECT_RATIO = 0.001
"""Maximum relative difference between the monotonic and the wall clock. Beyond the first limit the
result is invalid (LoadGen's error), beyond the second it is suspect (LoadGen's warning). Source:
mlcommons/inference, loadgen."""
SUSPEND_LIMIT_S = 0.02
"""Largest difference between two clocks that may be due to reading the clocks one after the other.
A suspend and resume of the device takes longer than this."""


class _ClockRule(Rule[Evidence]):
    """The device's clock runs at the rate of the host's clock, according to probes of both clocks.

    The monotonic clock and the wall clock of a device run from the same oscillator, so a wrong rate
    of the oscillator does not show in their difference. Their difference shows that one of the two
    clocks was adjusted. Usually, a time server adjusted the wall clock. Latencies do not use the
    wall clock. Without probes, any difference between the monotonic and the wall clock counts as a
    wrong rate.
    """

    limit: float
    advise = advice.always(
        "prevent changes of the device's clock during a run: timedatectl set-ntp false"
    )
    stood_still = plain("stood_still", "the monotonic clock stood still")
    difference = plain(
        "",
        lambda value, limit: (
            f"monotonic and wall clock differ by {format_percent(value, 3)}, limit "
            f"{format_percent(limit, 1)}"
        ),
    )

    @reason(
        "rate",
        advice.always(
            "choose another clock source on the device, or update the device's firmware; list the "
            "clock sources: cat /sys/devices/system/clocksource/clocksource0/available_clocksource"
        ),
    )
    @staticmethod
    def rate(value: float, limit: float, *, error_ratio: float, is_slow: bool) -> str:
        direction = "slower" if is_slow else "faster"
        return (
            f"the device's clock runs {format_percent(value, 3)} "
            f"(±{format_percent(error_ratio, 3)}) {direction} than the "
            f"host's, limit {format_percent(limit, 1)}"
        )

    @reason("set")
    @staticmethod
    def was_set(
        value: float, limit: float, *, step_s: float, is_back: bool, error_ratio: float
    ) -> str:
        step = format_step(-step_s if is_back else step_s)
        return (
            f"the wall clock was set by {step} during the run; the monotonic clock, "
            "which times the inferences, agrees with the host's within "
            f"{format_percent(value + error_ratio, 3)}"
        )

    def check(self, evidence: Evidence) -> Ruling:
        before, after = evidence.worker.before, evidence.worker.after
        monotonic_ns = after.monotonic_ns - before.monotonic_ns
        if monotonic_ns <= 0:
            return holds(False, self.stood_still())
        # The monotonic clock stops while the device sleeps, which the rule `suspended` reports; the
        # migration of a virtual machine is reported as sleep, too, and stops no clock.
        slept_ns = (after.suspended_ns or 0) - (before.suspended_ns or 0)
        passed_ns = after.wall_ns - before.wall_ns - monotonic_ns
        step_ns = min(passed_ns, passed_ns - slept_ns, key=abs)
        error = abs(step_ns / monotonic_ns)
        clock = evidence.clock
        if clock is None or clock.span_ns < monotonic_ns:
            return at_most(error, self.limit, "ratio", self.difference())
        slope = min(clock.slope, clock.slope + slept_ns / clock.span_ns, key=abs)
        rounding = clock.slope_error
        is_kept = abs(slope) - rounding <= self.limit
        if is_kept and rounding >= self.limit:  # too uncertain to show that the rate is right
            return at_most(error, self.limit, "ratio", self.difference())
        found = self.rate(error_ratio=rounding, is_slow=slope < 0)
        if is_kept and error > self.limit:
            found = self.was_set(
                step_s=abs(step_ns) / 1e9, is_back=step_ns < 0, error_ratio=rounding
            )
        return holds(is_kept, found, value=abs(slope), limit=self.limit, unit="ratio")


class ClockRule(_ClockRule):
    """The device's clock runs at the host's rate."""

    id, severity, includes = "clock", INVALID, "clock_drift"
    cause = Cause.TIME
    limit = CLOCK_INVALID_RATIO


class ClockDriftRule(_ClockRule):
    """The rates of the device's clock and the host's clock differ by at most 0.1 %."""

    id, severity = "clock_drift", SUSPECT
    cause = Cause.TIME
    harms = TIMES
    limit = CLOCK_SUSPECT_RATIO


class SuspendedRule(Rule[Evidence]):
    """The device ran throughout the run: it neither slept nor was paused."""

    id, severity = "suspended", SUSPECT
    cause = Cause.PAUSED
    harms = TIMES
    advise = advice.again(
        f"keep the device awake (on a phone: {advice.AWAKE}), then measure again: {{}}"
    )
    resumed = advice.again(
        "do not pause or migrate the virtual machine or container, then measure again: {}"
    )
    not_reported = plain(
        "not_told", "the agent does not report for how long the device was suspended"
    )
    slept = plain(
        "",
        lambda value, limit: (
            f"the device was suspended for {value:.3g} s during the run, limit {limit:g} s"
        ),
    )
    stopped = plain(
        "stopped",
        lambda value, limit: (
            f"all clocks of the device stood still for {value:.3g} s of the host's time, limit "
            f"{limit:g} s: its virtual machine was paused"
        ),
        resumed,
    )
    paused = plain(
        "paused",
        lambda value, limit: (
            f"neither the model nor the sensor sampler ran for {value:.3g} s, limit {limit:g} s, "
            "while the clock went on: the device, its virtual machine or its container was paused"
        ),
        resumed,
    )

    def check(self, evidence: Evidence) -> Ruling:
        before, after = evidence.worker.before.suspended_ns, evidence.worker.after.suspended_ns
        slept_s = None if before is None or after is None else max(0, after - before) / 1e9
        if slept_s is not None and slept_s > SUSPEND_LIMIT_S:
            return at_most(slept_s, SUSPEND_LIMIT_S, "s", self.slept())
        # Before or after the loop, a clock may stop without harm, and so may the host's clock.
        loop = evidence.worker.before.monotonic_ns, evidence.worker.after.monotonic_ns
        jump = evidence.clock.jump if evidence.clock else None
        if jump is not None and jump.begin_ns < loop[1] and jump.end_ns > loop[0]:
            stopped_s = -jump.offset_ns / 1e9
            if stopped_s > SUSPEND_LIMIT_S:
                return at_most(stopped_s, SUSPEND_LIMIT_S, "s", self.stopped())
        paused_s = evidence.measured.paused_s or 0.0
        # Threads that wait for a CPU are reported by the rule `cpu_pressure`.
        shares = thread_shares(evidence)
        waited_s = shares.waiting_max * evidence.loop_s if shares else 0.0
        if paused_s - waited_s > PAUSE_LIMIT_S:
            return at_most(paused_s, PAUSE_LIMIT_S, "s", self.paused())
        if slept_s is None:
            return unknown(self.not_reported())
        return at_most(slept_s, SUSPEND_LIMIT_S, "s", self.slept())


CLOCK_RULES: tuple[Rule[Evidence], ...] = (ClockRule(), ClockDriftRule(), SuspendedRule())
"""The rules, in the order in which a person should read them."""
