"""Times of the operators in a profile, and their shares with the error of the timer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.host.result.measured import ProfileResult
from edgebench.host.result.units import format_instructions, format_ns
from edgebench.protocol.percent import format_percent
from edgebench.protocol.record import OperatorTime

_TIMER_NS = 1000
"""Timer resolution of the profilers of onnxruntime and LiteRT: 1 µs."""


@dataclass(frozen=True, slots=True)
class OperatorLine:
    """An operator, and its numbers as text."""

    operator: OperatorTime
    time: str
    """Time of the operator in an inference, or its instructions or cycles if the target counts
    them."""
    share: str
    share_ratio: float
    """Share of the sum of the typical times of all operators."""


@dataclass(frozen=True, slots=True)
class OperatorLines:
    """Operators of a profile in order of execution, with the titles of their columns."""

    lines: tuple[OperatorLine, ...]
    time_title: str
    share_title: str
    """Title of the shares; states their error due to the timer, in percentage points."""


def operator_lines(profile: ProfileResult) -> OperatorLines:
    """Operators as text.

    Times are medians, and shares are relative to the sum of medians, because means include the time
    of programs that preempted the model.
    """
    operators = profile.operators
    has_medians = all(operator.p50_ns is not None for operator in operators)
    total_ns = sum(operator.typical_ns * operator.count for operator in operators)
    resolution_ns, resolution_ratio = profile.resolution_ns, 0.0
    if has_medians or resolution_ns is not None:
        resolution_ratio = _resolution_ratio(
            operators, total_ns, resolution_ns and resolution_ns * profile.run_count
        )
    lines, error = [], format_percent(resolution_ratio, 1)
    for operator in operators:
        ratio = operator.typical_ns * operator.count / (total_ns or 1)
        share = format_percent(ratio, 1) if ratio or not resolution_ratio else f"< {error}"
        lines.append(OperatorLine(operator, _time(operator), share, ratio))
    return OperatorLines(
        tuple(lines),
        _time_title(profile),
        f"share ±{error}" if resolution_ratio >= 0.0005 else "share",
    )


def _time(operator: OperatorTime) -> str:
    count = operator.cycles if operator.instructions is None else operator.instructions
    if count is not None:
        return format_instructions(count)
    return format_ns(operator.typical_ns) if operator.typical_ns else "< 1 µs"


def _time_title(profile: ProfileResult) -> str:
    """Title of the times or counts, with the error due to the resolution of a target's counter."""
    sum_ns, resolution_ns = profile.sum_ns_per_inference, profile.resolution_ns
    for unit, total in (
        ("instructions", profile.sum_instructions_per_inference),
        ("cycles", profile.sum_cycles_per_inference),
    ):
        if total and sum_ns and resolution_ns:
            return f"{unit} ±{format_instructions(total * resolution_ns / sum_ns)}"
    has_medians = all(operator.p50_ns is not None for operator in profile.operators)
    return "median time" if has_medians else "mean time"


def _resolution_ratio(
    operators: Sequence[OperatorTime], total_ns: float, resolution_ns: float | None
) -> float:
    """Largest error of a share, caused by a target's counter or by a timer in microseconds.

    The result is 0 if the timer is finer than a microsecond.
    """
    if resolution_ns is not None:
        return min(1.0, resolution_ns / total_ns) if total_ns else 1.0
    if any(operator.typical_ns % _TIMER_NS for operator in operators):
        return 0.0
    most = max((operator.count for operator in operators), default=0)
    return min(1.0, most * _TIMER_NS / total_ns) if total_ns else 1.0
