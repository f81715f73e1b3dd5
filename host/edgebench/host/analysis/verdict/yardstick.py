"""Rules about the yardstick, which is fixed work that is timed before and after each run.

The rules need no sensor, so they detect a change of the clock on devices that hide it. They detect
neither a clock that is low in all runs nor heat.
"""

from __future__ import annotations

from collections.abc import Sequence

from edgebench.host.analysis.thermal.delegation import uses_accelerator
from edgebench.host.analysis.verdict import advice
from edgebench.host.analysis.verdict.cause import DISTURBANCES, Cause
from edgebench.host.analysis.verdict.evidence import Evidence
from edgebench.host.analysis.verdict.rule import (
    LOOP,
    SUSPECT,
    TIMES,
    Rule,
    Ruling,
    WatchedQuantity,
    at_most,
    not_applicable,
    plain,
    reason,
    unknown,
)
from edgebench.host.analysis.verdict.run_set import OUTVOTED_RATIO, SetEvidence, TimedSetRule
from edgebench.host.analysis.yardstick import integer_ns, memory_bytes_per_s
from edgebench.protocol.percent import format_percent
from edgebench.protocol.record import Yardstick

INTEGER_LIMIT_RATIO = 0.03
"""Largest difference of the time of integer work. Measured on a shared machine of two CPUs at a
load of 10 (EPYC, KVM): 95 % of 181 pairs of readings differed by at most 0.24 %. The readings of 24
successive processes differed by at most 1.7 %."""
MEMORY_LIMIT_RATIO = 0.5
"""Largest difference of the time of a copy in memory. Other programs and machines change the time
of a copy far more than the time of integer work. Measured on the same machine at a load of 2: half
of 50 pairs of readings differed by more than 5 %, a tenth by more than 18 %. The copy takes several
times as long if a memory controller lowers its clock."""
LEAST_FIGURE = 1.0
"""A reading below this figure, which is 1 ns per unit or 1 byte/s, counts as not measured."""


class YardstickRule(Rule[Evidence]):
    """Fixed work took no longer after the run than before it.

    If the work took longer before the run than after it, a disturbance ended before the run, and
    the rule passes. If the device becomes faster during the loop, its latencies change; the rule
    `steady_state` detects this change. If neither the clock nor heat explains a difference, another
    process or machine shares the core, so a further run of a set may replace this run.
    """

    id, severity = "yardstick", SUSPECT
    cause = Cause.UNKNOWN_SLOWDOWN
    effect_of = DISTURBANCES
    harms = LOOP
    advise = advice.governor
    not_measured = plain(
        "not_measured", "fixed work was not measured both before and after the run"
    )
    on_accelerator = plain("on_accelerator", "the model did not run on the CPU")

    integer = plain("", lambda value, limit: _of_ends("integer work", value, limit))
    memory = plain(
        "memory",
        lambda value, limit: _of_ends("copy in memory", value, limit),
        advice.alone,
        Cause.OTHER_PROGRAMS,
    )

    def check(self, evidence: Evidence) -> Ruling:
        if uses_accelerator(evidence.worker.placement):
            return not_applicable(self.on_accelerator())
        yardstick = evidence.worker.yardstick
        if yardstick is None or not _is_measured(yardstick):
            return unknown(self.not_measured())
        before, after = yardstick.before, yardstick.after
        integer = after.integer_ns_per_unit / before.integer_ns_per_unit - 1
        rates = before.memory_bytes_per_s, after.memory_bytes_per_s
        copy = rates[0] / rates[1] - 1 if rates[0] and rates[1] else 0.0
        if copy / MEMORY_LIMIT_RATIO > integer / INTEGER_LIMIT_RATIO:
            return at_most(max(copy, 0.0), MEMORY_LIMIT_RATIO, "ratio", self.memory())
        return at_most(max(integer, 0.0), INTEGER_LIMIT_RATIO, "ratio", self.integer())


class YardstickOfSetRule(TimedSetRule):
    """Fixed work took as long in the slowest run of the set as in the fastest.

    Each run counts with its faster reading. The slowest runs are left out, as many as the other
    runs can outvote. So the rule detects a device that is slower from the second run onwards, or in
    the last half of the runs. It does not detect a device that was disturbed during one run of
    eight. The rule does not show the reason. If the clock was read and differs, `set_clock` fails,
    too, and the failure of this rule counts as an effect of the clock. On a virtual machine,
    another machine on the same core slows the work down as a lower clock does.
    """

    id, severity = "set_yardstick", SUSPECT
    cause = Cause.UNKNOWN_SLOWDOWN
    effect_of = DISTURBANCES
    harms = TIMES
    watches = WatchedQuantity.CLOCK
    advise = advice.governor
    not_measured = plain(
        "not_measured",
        "not all runs measured the fixed work on the same CPUs and with the same Python",
    )

    @reason("")
    @staticmethod
    def integer(value: float, limit: float, *, last_to_first_ratio: float) -> str:
        return _of_runs("integer work", value, limit, last_to_first_ratio)

    @reason("memory", advice.alone, Cause.OTHER_PROGRAMS)
    @staticmethod
    def memory(value: float, limit: float, *, last_to_first_ratio: float) -> str:
        return _of_runs("copy in memory", value, limit, last_to_first_ratio)

    def check_times(self, evidence: SetEvidence) -> Ruling:
        runs = [
            yardstick
            for yardstick in evidence.yardsticks
            if yardstick is not None and _is_measured(yardstick)
        ]
        if len(runs) < max(2, len(evidence.yardsticks)):
            return unknown(self.not_measured())
        integers_ns = list(map(integer_ns, runs))
        rates = list(map(memory_bytes_per_s, runs))
        copies_ns = [1e9 / rate for rate in rates if rate]
        integer = _range_ratio(integers_ns)
        copy = _range_ratio(copies_ns) if len(copies_ns) == len(runs) else 0.0
        if copy / MEMORY_LIMIT_RATIO > integer / INTEGER_LIMIT_RATIO:
            memory = self.memory(last_to_first_ratio=copies_ns[-1] / copies_ns[0])
            return at_most(copy, MEMORY_LIMIT_RATIO, "ratio", memory)
        found = self.integer(last_to_first_ratio=integers_ns[-1] / integers_ns[0])
        return at_most(integer, INTEGER_LIMIT_RATIO, "ratio", found)


def _of_ends(work: str, value: float, limit: float) -> str:
    return (
        f"the same {work} took {format_percent(value, 1)} longer after the run than before "
        f"it, limit {format_percent(limit)}"
    )


def _of_runs(work: str, value: float, limit: float, last_to_first_ratio: float) -> str:
    change = last_to_first_ratio - 1
    longer = "longer" if change > 0 else "shorter"
    return (
        f"the same {work} took {format_percent(value, 1)} longer in the slowest run than "
        "in the fastest, limit "
        f"{format_percent(limit)}; it took {format_percent(abs(change), 1)} {longer} in the last "
        "run than in the first"
    )


def _is_measured(yardstick: Yardstick) -> bool:
    figures = [
        figure
        for reading in (yardstick.before, yardstick.after)
        for figure in (reading.integer_ns_per_unit, reading.memory_bytes_per_s)
        if figure is not None
    ]
    return min(figures) >= LEAST_FIGURE


def _range_ratio(times_ns: Sequence[float]) -> float:
    """Additional time of the slowest run that counts, relative to the time of the fastest run."""
    ordered = sorted(times_ns)
    return ordered[-1 - int(OUTVOTED_RATIO * len(ordered))] / ordered[0] - 1
