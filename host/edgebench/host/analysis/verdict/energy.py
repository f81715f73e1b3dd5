"""Rules about energy. If the meter fails, the run keeps its latency, but has no energy."""

from __future__ import annotations

from itertools import chain

from edgebench.host.analysis.energy.checks import COMPLETE
from edgebench.host.analysis.verdict import advice
from edgebench.host.analysis.verdict.advice import Advice, Situation
from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.evidence import Evidence, MeteredEvidence
from edgebench.host.analysis.verdict.rule import (
    SUSPECT,
    EvidenceT,
    Rule,
    Ruling,
    at_least,
    at_most,
    holds,
    not_applicable,
    plain,
    reason,
    unknown,
)
from edgebench.host.options.command import command
from edgebench.host.result.energy import SYNTHETIC, SyncMethod
from edgebench.host.result.reason import Reason, about
from edgebench.host.result.reasons.energy import (
    energy_uncertain,
    idle_on_one_side,
    unsampled_activity,
)
from edgebench.host.result.reasons.table import sentence_of
from edgebench.host.result.units import format_joules
from edgebench.host.result.verdict import NumberKind
from edgebench.protocol.percent import format_percent

IDLE_LIMIT_RATIO = 0.1
"""Largest change of the idle power from before to after the run, as a share of the net power."""
IDLE_STEADY_RATIO = 0.02
"""Largest change of the idle power, as a share of the idle power itself. This limit or that of
`IDLE_LIMIT_RATIO` applies, whichever allows more, because the net power may be close to zero."""

EDGE_WINDOW_MIN_S = 10.0
"""Minimum length of a window, s. Source: MLPerf Tiny run rules, energy."""


class _EnergyRule(Rule[EvidenceT]):
    """A rule about the energy of a run."""

    harms = frozenset({NumberKind.ENERGY})
    no_meter = plain("no_meter", "no meter was requested")


class MeterRule(_EnergyRule[MeteredEvidence]):
    """The recording is complete, calibrated, without lost samples and within the meter's range."""

    id, severity = "meter", SUSPECT
    cause = Cause.METER
    effect_of = frozenset({Cause.STOPPED})
    advise = advice.check_meter

    @reason("")
    @staticmethod
    def checked(value: float, limit: float, *, checks: str | tuple[Reason, ...]) -> str:
        return sentence_of(checks)

    @reason(
        "incomplete",
        advice.again("check the meter's cable and power supply, then measure again: {}"),
    )
    @staticmethod
    def incomplete(value: float, limit: float, *, checks: str | tuple[Reason, ...]) -> str:
        return sentence_of(checks)

    @reason("nothing_recorded")
    @staticmethod
    def nothing_recorded(value: float, limit: float, *, why: str | tuple[Reason, ...]) -> str:
        return sentence_of(why)

    def check(self, evidence: MeteredEvidence) -> Ruling:
        energy = evidence.energy
        if energy is None:
            return not_applicable(self.no_meter())
        if not energy.checks:
            return holds(False, self.nothing_recorded(why=energy.refusal))
        failed = [check for check in energy.checks if check.is_passed is False]
        reasons = chain.from_iterable(
            about(check.id, check.reasons) for check in failed or energy.checks
        )
        is_incomplete = any(check.id == COMPLETE for check in failed)
        kind = self.incomplete if is_incomplete else self.checked
        return holds(not failed, kind(checks=tuple(reasons)))


_SYNC = advice.again("align the meter's clock by a coded load: {}", sync="coded_load")
_SEE_WIRES = advice.again(
    "check that the meter is wired to this device; then align the meter's clock by a coded load: "
    "{}",
    sync="coded_load",
)


class EnergySyncRule(_EnergyRule[Evidence]):
    """The meter's clock is aligned with the device's clock by marks in the recording."""

    id, severity = "energy_sync", SUSPECT
    cause = Cause.METER
    effect_of = frozenset({Cause.STOPPED, Cause.TOO_MANY_THREADS, Cause.OTHER_PROGRAMS})
    advise = _SYNC
    not_tried = plain("not_tried", "not tried: the recording cannot be used")

    @reason("")
    @staticmethod
    def aligned(value: float, limit: float, *, method: str) -> str:
        return f"{method}, within {1e3 * value:.3g} ms"

    @reason("not_seen", _SEE_WIRES)
    @staticmethod
    def not_seen(value: float, limit: float, *, method: str) -> str:
        within = f"{method}, within {1e3 * value:.3g} ms"
        return f"{within}: the recording lacks the load code; is the meter wired to this device?"

    @reason("blind", _SEE_WIRES)
    @staticmethod
    def blind(value: float, limit: float, *, why: str | tuple[Reason, ...] | None) -> str:
        return f"{sentence_of(why)}; is the meter wired to this device?"

    @reason("no_method")
    @staticmethod
    def no_method(value: float, limit: float, *, why: str | tuple[Reason, ...] | None) -> str:
        return sentence_of(why)

    def check(self, evidence: Evidence) -> Ruling:
        energy = evidence.energy
        if energy is None:
            return not_applicable(self.no_meter())
        sync = energy.sync
        if sync is None:
            return unknown(self.not_tried())
        codes = [attempt for attempt in sync.tried if attempt.method is SyncMethod.CODED_LOAD]
        is_unseen = bool(evidence.worker.sync.codes) and any(code.reasons for code in codes)
        if sync.method is None or sync.error_ns is None:
            kind = self.blind if is_unseen else self.no_method
            return holds(False, kind(why=sync.refusal))
        is_blind = sync.method is SyncMethod.ARRIVAL and is_unseen  # made-up power
        found = self.not_seen if is_blind else self.aligned
        return holds(
            not is_blind, found(method=sync.method.value), value=sync.error_ns / 1e9, unit="s"
        )


class EnergyIdleRule(_EnergyRule[Evidence]):
    """The idle power of the device is the same before and after the run."""

    id, severity = "energy_idle", SUSPECT
    cause = Cause.NOT_IDLE
    effect_of = frozenset({Cause.STOPPED, Cause.HEAT, Cause.OTHER_PROGRAMS})
    advise = advice.more(
        "end other programs on the device, and use a longer idle time before and after each run: "
        "{}",
        "idle_duration_s",
        10.0,
        "meter",
    )
    no_power = plain("no_power", "the recording contains no power")

    @reason("")
    @staticmethod
    def difference(value: float, limit: float, *, before_w: float, after_w: float) -> str:
        idle = f"idle power {before_w:.4g} W before and {after_w:.4g} W after the run"
        return f"{idle}; limit on the difference {limit:.2g} W"

    @reason("one_side")
    @staticmethod
    def one_side(value: float, limit: float, *, why: str | tuple[Reason, ...]) -> str:
        return sentence_of(why)

    def check(self, evidence: Evidence) -> Ruling:
        energy = evidence.energy
        if energy is None:
            return not_applicable(self.no_meter())
        before_w, after_w = energy.power_w_idle_before, energy.power_w_idle_after
        if energy.power_w_mean is None:
            return unknown(self.no_power())
        if before_w is None or after_w is None or energy.power_w_idle is None:
            why = energy.net_refusal or (idle_on_one_side(),)
            return unknown(self.one_side(why=why))
        net_w = abs(energy.power_w_mean - energy.power_w_idle)
        limit_w = max(IDLE_LIMIT_RATIO * net_w, IDLE_STEADY_RATIO * energy.power_w_idle)
        found = self.difference(before_w=before_w, after_w=after_w)
        return at_most(abs(after_w - before_w), limit_w, "w", found)


def _use_real_meter(to: Situation) -> Advice:
    text = "measure with a real meter: {}; list the meters: {}"
    return advice.do(text, to.given.bench("--meter", "METER"), command("meters"))


def _use_finer_meter(to: Situation) -> Advice:
    text = (
        "use a smaller range of the meter, or a meter for smaller powers: {}; list the meters: {}"
    )
    return advice.do(text, to.given.bench("--meter", "METER"), command("meters"))


_measure_longer = advice.more("measure for longer: {}", "duration_s", 120.0, "meter")


class EnergyRule(_EnergyRule[MeteredEvidence]):
    """The energy of the run was measured if it was requested."""

    id, severity = "energy", SUSPECT
    cause = Cause.METER
    effect_of = frozenset({Cause.STOPPED})
    advise = advice.check_meter

    @reason("")
    @staticmethod
    def measured(value: float, limit: float, *, u95_ratio: float) -> str:
        return f"{format_joules(value)} ±{format_percent(u95_ratio, 2)} per inference, gross"

    @reason("simulated", advice.Advise(_use_real_meter), Cause.NOT_REAL)
    @staticmethod
    def made_up(value: float, limit: float, *, u95_ratio: float) -> str:
        return "the energy is simulated, not measured: the meter computes the power"

    @reason("refused")
    @staticmethod
    def refused(value: float, limit: float, *, why: str | tuple[Reason, ...] | None) -> str:
        return f"refused: {sentence_of(why)}"

    @refused.advice
    @staticmethod
    def _(_: float, to: Situation, *, why: str | tuple[Reason, ...] | None) -> Advice:
        reason = why[0] if isinstance(why, tuple) and why else None
        if reason is None or reason.id not in (energy_uncertain.id, unsampled_activity.id):
            return advice.check_meter(to)
        if reason.facts.get("is_of_instrument"):
            return _use_finer_meter(to)
        return _measure_longer(to)

    def check(self, evidence: MeteredEvidence) -> Ruling:
        result = evidence.energy
        if result is None:
            return not_applicable(self.no_meter())
        gross_j, u95_j = result.gross_j_per_inference, result.u95_absolute_j
        if gross_j is None or u95_j is None:
            return holds(False, self.refused(why=result.refusal))
        is_made_up = result.boundary == SYNTHETIC
        kind = self.made_up if is_made_up else self.measured
        return holds(not is_made_up, kind(u95_ratio=u95_j / gross_j), value=gross_j, unit="j")


class EnergyWindowsRule(_EnergyRule[MeteredEvidence]):
    """Each window between two edges of the meter is as long as the benchmark's rules require."""

    id, severity = "energy_windows", SUSPECT
    cause = Cause.TOO_SHORT
    advise = advice.more("make the windows longer: {}", "duration_s", 120.0, "meter")
    no_edges = plain("no_edges", "the recording lacks the edges that mark the timed windows")
    shortest = plain(
        "",
        lambda value, limit: (
            f"the shortest window lasts {value:.3f} s, at least {limit:g} s needed"
        ),
    )

    def check(self, evidence: MeteredEvidence) -> Ruling:
        result = evidence.energy
        if result is None:
            return not_applicable(self.no_meter())
        if not result.edge_windows:
            return unknown(self.no_edges())
        shortest_s = min(edge_window.duration_s for edge_window in result.edge_windows)
        return at_least(shortest_s, EDGE_WINDOW_MIN_S, "s", self.shortest())


ENERGY_RULES: tuple[Rule[Evidence], ...] = (
    MeterRule(),
    EnergySyncRule(),
    EnergyIdleRule(),
    EnergyRule(),
)
METERED_TARGET_RULES: tuple[Rule[MeteredEvidence], ...] = (
    MeterRule(),
    EnergyWindowsRule(),
    EnergyRule(),
)
"""Rules for a target, whose windows have edges in the recording of a meter."""
