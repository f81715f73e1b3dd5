"""Rules for a target, such as a microcontroller, that timed itself.

A microcontroller has no governor, no swap and no other processes, so the rules about these are
left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgebench.host.analysis.verdict import advice
from edgebench.host.analysis.verdict.cause import SLOWDOWNS, Cause
from edgebench.host.analysis.verdict.latency import ProfileRule
from edgebench.host.analysis.verdict.rule import (
    INVALID,
    LOOP,
    SUSPECT,
    Rule,
    Ruling,
    WatchedQuantity,
    at_least,
    at_most,
    holds,
    not_applicable,
    plain,
    reason,
    unknown,
)
from edgebench.host.analysis.verdict.run import (
    COUNTED,
    DurationRule,
    NoSimulationRule,
    QueryCountRule,
    RealProcessorRule,
    RunEndRule,
)
from edgebench.host.analysis.verdict.thermal import SlowdownRule
from edgebench.host.options.command import command
from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.facts import HostFacts
from edgebench.host.result.verdict import Finding, NumberKind, RuleOutcome
from edgebench.protocol.percent import format_percent
from edgebench.protocol.record import MeasuredRecord, Outcome, RunRecord, TargetRecord

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.analysis.windows import WindowMeasurement

MIN_TARGET_WINDOWS = 5
"""Minimum number of windows. Source: MLPerf Tiny run rules, which take the median of five."""
RANGE_LIMIT_RATIO = 0.01
"""Largest range of the times of the windows, relative to their median. A microcontroller has no
other load; the times of different inputs differ by tens of ticks in millions (saturation takes
branches)."""
CLOCK_LIMIT_RATIO = 0.02
"""Largest relative difference between the target's counter and the clock of the machine that it is
connected to. An RC oscillator deviates by 1 % over temperature (STM32L4 data sheet, HSI16). A
counter deviates by far more if its rate is stated wrongly, or if it wrapped around undetected."""

PROFILE_SUM_LIMIT_RATIO = 0.001
"""Largest difference between the operators' sum and the whole inference, relative to the whole, in
addition to two ticks of the counter. On QEMU's boards the difference is 1 to 60 ppm
(test_firmware_on_qemu.py)."""


@dataclass(frozen=True, slots=True)
class TargetEvidence:
    """Evidence for the rules of targets."""

    record: RunRecord
    target: TargetRecord
    measured: WindowMeasurement
    facts: HostFacts
    energy: EnergyResult | None = None
    """Energy of the run; None if no meter was requested."""

    @property
    def measured_record(self) -> MeasuredRecord:
        """Record of the process that measured."""
        return self.target

    @property
    def is_counted(self) -> bool:
        """Whether instructions of an emulated target are counted; it then reports no times."""
        return self.measured.instructions_per_inference is not None


_BY_METER = ("--meter", "METER")


class TargetCompleteRule(RunEndRule[TargetEvidence]):
    """The measurement ran to completion."""

    def check(self, evidence: TargetEvidence) -> Ruling:
        record = evidence.record
        why = None if record.outcome is Outcome.COMPLETED else record.error
        return self.ruling(record.outcome, why)


class TargetRealTimeRule(RealProcessorRule[TargetEvidence]):
    """The times come from a real processor; counts of instructions have no times."""

    counted = plain("counted", "instructions are counted, and no time is reported")

    def check(self, evidence: TargetEvidence) -> Ruling:
        if evidence.is_counted:
            return not_applicable(self.counted())
        is_emulated = evidence.target.firmware.emulator is not None
        return holds(not is_emulated, self.emulated() if is_emulated else self.real())


class TargetRealDeviceRule(NoSimulationRule[TargetEvidence]):
    """The device is not simulated; an emulated device that only counts instructions passes."""

    counted = plain(
        "counted", "the device is emulated: its instructions are counted, and no time is reported"
    )

    def check(self, evidence: TargetEvidence) -> Ruling:
        if evidence.record.simulated:
            return holds(False, self.simulated())
        return holds(True, self.counted() if evidence.is_counted else self.real())


class TargetEnoughQueriesRule(QueryCountRule[TargetEvidence]):
    """The run has at least the requested number of inferences."""

    uncounted = plain("counted", COUNTED)

    def check(self, evidence: TargetEvidence) -> Ruling:
        if evidence.is_counted:
            return not_applicable(self.uncounted())
        count, least = (
            evidence.measured.summary.inference_count,
            evidence.record.spec.min_query_count,
        )
        return at_least(count, least, "count", self.issued(counted="inferences"))


class TargetEnoughTimeRule(DurationRule[TargetEvidence]):
    """The windows together took at least the requested duration."""

    counted = plain("counted", COUNTED)
    no_time = plain(
        "no_time",
        "the device is in energy mode and reports no time, and no meter recorded window edges",
        advice.again(
            "wire the meter to the board's pin, see docs/bring-your-own-board.md; then "
            "measure again: {}",
            *_BY_METER,
        ),
    )
    untimed = plain(
        "heard",
        "the firmware prints no time, and no interface board or meter timed the windows",
        advice.again("time the windows by a meter: {}", *_BY_METER),
    )

    def check(self, evidence: TargetEvidence) -> Ruling:
        if evidence.is_counted:
            return not_applicable(self.counted())
        took_s = evidence.measured.duration_s
        if took_s is None:
            is_silent = evidence.target.pace_ns is None
            return holds(False, self.no_time() if is_silent else self.untimed())
        return at_least(took_s, evidence.record.spec.duration_s, "s", self.took())


class EnoughWindowsRule(Rule[TargetEvidence]):
    """The run has enough windows for a median."""

    id, severity = "enough_windows", SUSPECT
    cause = Cause.TOO_SHORT
    harms = LOOP
    advise = advice.longer
    counted = plain("counted", COUNTED)
    windows = plain("", lambda value, limit: f"{value:.0f} windows, at least {limit:.0f} needed")

    def check(self, evidence: TargetEvidence) -> Ruling:
        if evidence.is_counted:
            return not_applicable(self.counted())
        return at_least(
            evidence.measured.summary.count, MIN_TARGET_WINDOWS, "count", self.windows()
        )


class DatasetCompleteRule(Rule[TargetEvidence]):
    """All requested samples of the data set were run."""

    id, severity = "dataset_complete", SUSPECT
    cause = Cause.TOO_SHORT
    harms = frozenset({NumberKind.OUTPUTS})
    advise = advice.more("allow the data set more time: {}", "dataset_limit_s", 86400.0, "accuracy")
    no_dataset = plain("no_dataset", "no data set was given")

    @reason("")
    @staticmethod
    def all_run(value: float, limit: float, *, why: str | None, is_stopped: bool) -> str:
        return f"{value:.0f} of {limit:.0f} samples of the data set were run"

    @reason("why")
    @staticmethod
    def cut_off(value: float, limit: float, *, why: str | None, is_stopped: bool) -> str:
        return f"{value:.0f} of {limit:.0f} samples of the data set were run: {why}"

    def check(self, evidence: TargetEvidence) -> Ruling:
        check = evidence.target.check
        if evidence.record.spec.dataset_sha256 is None:
            return not_applicable(self.no_dataset())
        kind = self.cut_off if check.dataset_error else self.all_run
        found = kind(why=check.dataset_error, is_stopped=evidence.target.is_dataset_stopped)
        wanted = max(1, check.dataset_wanted_count)
        return at_least(check.dataset_sample_count, wanted, "count", found)

    @classmethod
    def was_stopped(cls, finding: Finding) -> bool:
        """Whether the finding states that the run of a data set was stopped."""
        return finding.id == cls.id and finding.facts.get("is_stopped") is True


class KnownModelRule(Rule[TargetEvidence]):
    """The model is a file, so that its hash identifies it."""

    id, severity = "known_model", SUSPECT
    cause = Cause.NOT_VERIFIED
    advise = advice.again("measure a model file instead, if the firmware accepts model files: {}")
    of_file = plain("", "the model is a file with a recorded hash")

    @reason("in_firmware")
    @staticmethod
    def in_firmware(value: float, limit: float, *, model: str) -> str:
        return (
            f"{model} is built into the device's firmware: neither file nor hash distinguishes it "
            "from another model of that name"
        )

    def check(self, evidence: TargetEvidence) -> Ruling:
        model = evidence.target.model
        if model.sha256 is None:
            return unknown(self.in_firmware(model=model.name))
        return holds(True, self.of_file())


class InputsReadBackRule(Rule[TargetEvidence]):
    """The inputs on the device are equal to the inputs that were sent."""

    id, severity = "inputs_read_back", SUSPECT
    cause = Cause.NOT_VERIFIED
    advise = advice.always(
        "check the connection to the board: {}", command("bridge", "console", "BOARD")
    )
    equal = plain("", "the inputs on the device are those that were sent")
    not_reported = plain("not_told", "the firmware does not report its input")
    live = plain("heard", "the device runs on live audio: no inputs are sent to it")

    def check(self, evidence: TargetEvidence) -> Ruling:
        if evidence.target.pace_ns is not None:
            return not_applicable(self.live())
        return (
            holds(True, self.equal())
            if evidence.target.is_read_back
            else unknown(self.not_reported())
        )


class WindowRangeRule(Rule[TargetEvidence]):
    """All windows took about the same time."""

    id, severity = "window_range", SUSPECT
    cause = Cause.VARIATION
    effect_of = SLOWDOWNS
    harms = LOOP
    advise = advice.longer
    single = plain("one", "a single window has no range")
    no_time = plain("no_time", "the windows were not timed")
    live = plain("heard", "windows are as long as the audio that the device receives")
    times = plain(
        "",
        lambda value, limit: (
            f"times of the windows range over {format_percent(value, 3)} of their median, "
            f"limit {format_percent(limit)}"
        ),
    )

    def check(self, evidence: TargetEvidence) -> Ruling:
        summary = evidence.measured.summary
        if evidence.target.pace_ns is not None:
            return not_applicable(self.live())
        if summary.count < 2:
            return unknown(self.single())
        if summary.range_ratio is None:
            return unknown(self.no_time())
        return at_most(summary.range_ratio, RANGE_LIMIT_RATIO, "ratio", self.times())


class TargetClockRule(Rule[TargetEvidence]):
    """The target's counter runs at the rate that its firmware states."""

    id, severity, watches = "target_clock", INVALID, WatchedQuantity.CLOCK
    cause = Cause.TIME
    advise = advice.again(
        "state the rate of the board's counter in its firmware, see docs/firmware.md; then measure "
        "again: {}"
    )
    emulated = plain("emulated", "an emulator's counter does not follow a clock")
    no_time = plain("no_time", "the device is in energy mode, and reports no time")
    untimed = plain("heard", "the firmware prints no time: there is no counter to check")
    difference = plain(
        "",
        lambda value, limit: (
            "the device's counter differs from the clock of the machine to which it is connected "
            f"by {format_percent(value, 3)}, limit {format_percent(limit)}"
        ),
    )

    def check(self, evidence: TargetEvidence) -> Ruling:
        ratio = evidence.measured.summary.clock_ratio
        if ratio is None:
            if evidence.target.firmware.emulator is not None:
                return not_applicable(self.emulated())
            is_silent = evidence.target.pace_ns is None
            return not_applicable(self.no_time() if is_silent else self.untimed())
        return at_most(abs(ratio - 1), CLOCK_LIMIT_RATIO, "ratio", self.difference())


class TargetProfileRule(ProfileRule[TargetEvidence]):
    """The run has the operator profile that was requested, and its times add up to the inference.

    Times that do not add up make the run suspect.
    """

    advise = advice.again("profile again: {}")
    difference = plain(
        "sum",
        lambda value, limit: (
            f"the sum of the operators' times differs from the time of the inference by "
            f"{format_percent(value, 3)}, limit {format_percent(limit, 2)}"
        ),
    )

    def check(self, evidence: TargetEvidence) -> Ruling:
        from edgebench.host.analysis.profile import (  # only here: it loads numpy
            profile_of_target,
            sum_difference,
        )

        ruling = self.ruling(evidence.record.spec, evidence.target.check)
        if ruling.outcome is not RuleOutcome.PASS:
            return ruling
        found = sum_difference(profile_of_target(evidence.target, evidence.measured))
        if found is None:
            return ruling
        ratio, resolution_ratio = found
        limit_ratio = PROFILE_SUM_LIMIT_RATIO + resolution_ratio
        ruling = at_most(ratio, limit_ratio, "ratio", self.difference())
        return replace(ruling, severity=SUSPECT)


class KeepsPaceRule(Rule[TargetEvidence]):
    """Streaming firmware processes an audio frame before the next frame is complete.

    A failure is a property of board and model. The times of the frames are right, but frames were
    skipped, so outputs and energy do not represent the whole audio.
    """

    id, severity = "keeps_pace", SUSPECT
    cause = Cause.ARRIVALS
    effect_of = SLOWDOWNS
    harms = frozenset({NumberKind.OUTPUTS, NumberKind.ENERGY})
    advise = advice.again(
        "give the board a smaller model, faster kernels or a higher clock frequency; then measure "
        "again: {}"
    )
    on_request = plain("on_request", "the device runs inferences on request")
    untimed = plain("untimed", "audio frames were not timed")

    @reason("")
    @staticmethod
    def longest(value: float, limit: float) -> str:
        if value > limit:
            return (
                f"too slow for real time: an audio frame took up to {value * 1e3:.4g} ms, and "
                f"frames arrive every {limit * 1e3:g} ms"
            )
        return f"an audio frame took up to {value * 1e3:.4g} ms of the available {limit * 1e3:g} ms"

    def check(self, evidence: TargetEvidence) -> Ruling:
        pace_ns, latency = evidence.target.pace_ns, evidence.measured.latency
        if pace_ns is None:
            return not_applicable(self.on_request())
        if latency is None:
            return not_applicable(self.untimed())
        return at_most(latency.max / 1e9, pace_ns / 1e9, "s", self.longest())


class TargetThermalRule(SlowdownRule[TargetEvidence]):
    """The temperature of a microcontroller cannot be read, so slowdowns are unknown."""

    counted = plain("counted", "heat does not change counts of instructions")

    def check(self, evidence: TargetEvidence) -> Ruling:
        return not_applicable(self.counted()) if evidence.is_counted else unknown(self.no_sensor())


RULES_OF_RUN: tuple[Rule[TargetEvidence], ...] = (
    TargetCompleteRule(),
    TargetRealTimeRule(),
    TargetRealDeviceRule(),
    TargetEnoughQueriesRule(),
    TargetEnoughTimeRule(),
    EnoughWindowsRule(),
)
RULES_OF_DEVICE: tuple[Rule[TargetEvidence], ...] = (
    KnownModelRule(),
    InputsReadBackRule(),
    WindowRangeRule(),
    TargetClockRule(),
    TargetProfileRule(),
    KeepsPaceRule(),
    TargetThermalRule(),
)
"""The rules, in the order in which a person should read them. A rule that shares its name with a
rule of other devices checks the same condition."""
