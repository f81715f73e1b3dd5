"""Rules for a target that timed itself.

A microcontroller has no governor, no swap and nobody else's processes, so the rules about these
are not among them.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgebench.host.analysis.verdict.evidence import (
    Ruling,
    at_least,
    at_most,
    holds,
    not_applicable,
    unknown,
)
from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.facts import HostFacts
from edgebench.protocol.record import MeasuredRecord, Outcome, RunRecord, TargetRecord

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.analysis.windows import WindowMeasurement

MIN_WINDOWS = 5
"""Source: MLPerf Tiny run rules: the median of five windows."""
RANGE_LIMIT_RATIO = 0.01
"""Range of the times of the windows, over their median. A microcontroller has nothing else to do;
different inputs differ by tens of ticks in millions (saturation takes branches)."""
CLOCK_LIMIT_RATIO = 0.02
"""Difference of the target's counter and the clock beside it. An RC oscillator is off by 1 % over
temperature (STM32L4 data sheet, HSI16); a counter whose rate was told wrongly, or that has wrapped
around unnoticed, by far more."""


@dataclass(frozen=True, slots=True)
class TargetEvidence:
    """What the rules of targets look at."""

    record: RunRecord
    target: TargetRecord
    measured: WindowMeasurement
    facts: HostFacts
    energy: EnergyResult | None = None
    """None: no meter was asked for."""

    @property
    def measured_record(self) -> MeasuredRecord:
        """Record of the process that measured."""
        return self.target

    @property
    def is_counted(self) -> bool:
        """Whether the target is emulated, and its instructions are counted: no time is claimed."""
        return self.measured.instructions_per_inference is not None


def complete(evidence: TargetEvidence) -> Ruling:
    """The measurement went to its end."""
    record = evidence.record
    is_complete = record.outcome is Outcome.COMPLETED
    why = None if is_complete else record.error
    return holds(
        is_complete, "why" if why else None, facts={"ended": record.outcome.value, "why": why}
    )


def real_time(evidence: TargetEvidence) -> Ruling:
    """The times are those of a real processor; where instructions are counted, none is claimed."""
    if evidence.is_counted:
        return not_applicable("counted")
    is_emulated = evidence.target.firmware.emulator is not None
    return holds(not is_emulated, "emulated" if is_emulated else None)


def real_device(evidence: TargetEvidence) -> Ruling:
    """The device is no simulation; an emulated one that only counts does not pretend to be one."""
    if evidence.record.simulated:
        return holds(False, "simulated")
    return holds(True, "counted" if evidence.is_counted else None)


def enough_queries(evidence: TargetEvidence) -> Ruling:
    """The run has as many inferences as were requested."""
    if evidence.is_counted:
        return not_applicable("counted")
    return at_least(
        evidence.measured.summary.inference_count,
        evidence.record.spec.min_query_count,
        "count",
        facts={"counted": "inferences"},
    )


def enough_time(evidence: TargetEvidence) -> Ruling:
    """The windows took as long as was asked for, together."""
    if evidence.is_counted:
        return not_applicable("counted")
    took_s = evidence.measured.duration_s
    if took_s is None:
        return holds(False, "no_time" if evidence.target.pace_ns is None else "heard")
    return at_least(took_s, evidence.record.spec.duration_s, "s")


def enough_windows(evidence: TargetEvidence) -> Ruling:
    """The run has as many windows as a median needs."""
    if evidence.is_counted:
        return not_applicable("counted")
    return at_least(evidence.measured.summary.count, MIN_WINDOWS, "count")


def dataset_complete(evidence: TargetEvidence) -> Ruling:
    """Every sample of the data set was run that was to be."""
    check = evidence.target.check
    if evidence.record.spec.dataset_sha256 is None:
        return not_applicable("no_dataset")
    return at_least(
        check.dataset_sample_count,
        max(1, check.dataset_wanted_count),
        "count",
        "why" if check.dataset_error else None,
        facts={"why": check.dataset_error, "is_stopped": evidence.target.is_dataset_stopped},
    )


def known_model(evidence: TargetEvidence) -> Ruling:
    """The model is a file, so that it can be told from another one."""
    model = evidence.target.model
    if model.sha256 is None:
        return unknown("in_firmware", facts={"model": model.name})
    return holds(True)


def inputs_read_back(evidence: TargetEvidence) -> Ruling:
    """The inputs on the device are those that were sent to it."""
    if evidence.target.pace_ns is not None:
        return not_applicable("heard")
    return holds(True) if evidence.target.is_read_back else unknown("not_told")


def window_range(evidence: TargetEvidence) -> Ruling:
    """Each window would have given the same number."""
    if evidence.target.pace_ns is not None:
        return not_applicable("heard")
    if evidence.measured.summary.count < 2:
        return unknown("one")
    if evidence.measured.summary.range_ratio is None:
        return unknown("no_time")
    return at_most(evidence.measured.summary.range_ratio, RANGE_LIMIT_RATIO, "ratio")


def target_clock(evidence: TargetEvidence) -> Ruling:
    """The target's counter runs as fast as it is said to."""
    ratio = evidence.measured.summary.clock_ratio
    if ratio is None:
        if evidence.target.firmware.emulator is not None:
            return not_applicable("emulated")
        return not_applicable("no_time" if evidence.target.pace_ns is None else "heard")
    return at_most(abs(ratio - 1), CLOCK_LIMIT_RATIO, "ratio")


def thermal(evidence: TargetEvidence) -> Ruling:
    """The temperature of a microcontroller cannot be read."""
    return not_applicable("counted") if evidence.is_counted else unknown("no_sensor")
