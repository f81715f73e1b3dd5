"""Verdict of a recording that belongs to no run, such as a meter's session or an imported file.

invalid    a check failed: no energy is reported
suspect    the energy may be wrong by more than its uncertainty
valid      the true energy is within the uncertainty, which contains all assumptions
"""

from __future__ import annotations

from collections.abc import Sequence

from edgebench.host.analysis.energy.checks import IS_CALIBRATION_STATED
from edgebench.host.analysis.energy.in_step import MIN_INSTANTS_HZ
from edgebench.host.analysis.energy.trace import (
    IS_ASSUMED,
    IS_HELD,
    IS_STEADY,
    NOTES,
    assumptions_of,
    reading_of,
)
from edgebench.host.result.energy import ASSUMED_GAIN, MeterCheck, RecordingVerdict, TraceAssumption
from edgebench.host.result.reason import Reason, about
from edgebench.host.result.reasons import reading
from edgebench.host.result.verdict import State
from edgebench.meters.base import Header


def verdict_of(header: Header, checks: Sequence[MeterCheck]) -> RecordingVerdict:
    """Verdict of a recording, from its header and the results of its checks."""
    failed = [check for check in checks if check.is_passed is False]
    notes = reading_of(header.facts.get(NOTES, ()))
    if header.facts.get(IS_CALIBRATION_STATED, True):
        reasons = tuple(reason for check in failed for reason in about(check.id, check.reasons))
        return RecordingVerdict(State.INVALID if failed else State.VALID, reasons, reading=notes)
    doubts = () if failed else _doubts(header)
    reasons = tuple(reason for check in failed for reason in about(check.id, check.reasons))
    state = State.INVALID if failed else State.SUSPECT if doubts else State.VALID
    return RecordingVerdict(state, (*reasons, *doubts), _not_stated(header), notes)


def _doubts(header: Header) -> tuple[Reason, ...]:
    """Reasons why the energy of a file may be wrong by more than its uncertainty."""
    doubts: list[Reason] = []
    rate_hz = header.capability.rate_hz
    if not header.capability.is_averaging and rate_hz < MIN_INSTANTS_HZ:
        is_assumed = header.facts.get(IS_ASSUMED)
        few = reading.sample_kind_not_stated if is_assumed else reading.few_instants
        doubts.append(few(rate_hz=rate_hz, limit_hz=MIN_INSTANTS_HZ))
    if header.facts.get(IS_STEADY) is False and not header.facts.get(IS_HELD):
        doubts.append(reading.losses_not_excluded())
    return tuple(doubts)


def _not_stated(header: Header) -> tuple[Reason, ...]:
    """Reasons that name properties of the meter which neither the file nor the user states."""
    assumed = assumptions_of(header)
    reasons: list[Reason] = []
    if TraceAssumption.GAIN in assumed:
        reasons.append(reading.gain_assumed(gain_ratio=ASSUMED_GAIN))
    if TraceAssumption.OFFSET in assumed:
        reasons.append(reading.offset_not_stated())
    reasons.append(reading.boundary_not_stated())
    return tuple(reasons)
