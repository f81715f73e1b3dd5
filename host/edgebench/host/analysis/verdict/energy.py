"""Rules about energy: a meter that failed costs no latency, and gives no joules."""

from __future__ import annotations

from edgebench.host.analysis.verdict.evidence import (
    Evidence,
    MeteredEvidence,
    Ruling,
    at_least,
    at_most,
    holds,
    not_applicable,
    unknown,
)
from edgebench.host.result.energy import SYNTHETIC, SyncMethod

IDLE_LIMIT_RATIO = 0.1
"""Share of the net power by which idle before and after may differ …"""
IDLE_STEADY_RATIO = 0.02
"""… or of the idle power itself: where the model takes next to nothing, net says so."""

EDGE_WINDOW_MIN_S = 10.0
"""Source: MLPerf Tiny run rules, energy: windows of ten seconds or more."""


def meter(evidence: MeteredEvidence) -> Ruling:
    """The recording is complete, calibrated, without losses and not at the end of a range."""
    energy = evidence.energy
    if energy is None:
        return not_applicable("no_meter")
    if not energy.checks:
        return holds(
            False, "nothing_recorded", facts={"why": energy.refused or "nothing was recorded"}
        )
    failed = [check for check in energy.checks if check.is_passed is False]
    checks = "; ".join(f"{check.id}: {check.detail}" for check in failed or energy.checks)
    return holds(not failed, facts={"checks": checks})


def sync(evidence: Evidence) -> Ruling:
    """The meter's clock is aligned with the device's; that needs marks which the meter sees."""
    energy = evidence.energy
    if energy is None:
        return not_applicable("no_meter")
    sync = energy.sync
    if sync is None:
        return unknown("not_tried")
    codes = [one for one in sync.tried if one.method is SyncMethod.CODED_LOAD]
    is_unseen = bool(evidence.worker.sync.codes) and any(one.reason for one in codes)
    if sync.method is None or sync.error_ns is None:
        return holds(False, "blind" if is_unseen else "no_method", facts={"why": sync.refusal})
    is_blind = sync.method is SyncMethod.ARRIVAL and is_unseen  # made-up power
    return holds(
        not is_blind,
        "not_seen" if is_blind else None,
        value=sync.error_ns / 1e9,
        unit="s",
        facts={"method": sync.method.value},
    )


def idle(evidence: Evidence) -> Ruling:
    """The device took as much when idle before the run as after it."""
    energy = evidence.energy
    if energy is None:
        return not_applicable("no_meter")
    before_w, after_w = energy.power_w_idle_before, energy.power_w_idle_after
    if energy.power_w_mean is None:
        return unknown("no_power")
    if before_w is None or after_w is None or energy.power_w_idle is None:
        return unknown(
            "one_side",
            facts={"why": energy.net_refused or "idle was recorded on one side of the run only"},
        )
    net_w = abs(energy.power_w_mean - energy.power_w_idle)
    limit_w = max(IDLE_LIMIT_RATIO * net_w, IDLE_STEADY_RATIO * energy.power_w_idle)
    return at_most(
        abs(after_w - before_w), limit_w, "w", facts={"before_w": before_w, "after_w": after_w}
    )


def energy(evidence: MeteredEvidence) -> Ruling:
    """There is a number, if one was requested and measured."""
    result = evidence.energy
    if result is None:
        return not_applicable("no_meter")
    gross_j, u95_j = result.gross_j_per_inference, result.u95_absolute_j
    if gross_j is None or u95_j is None:
        return holds(False, "refused", facts={"why": result.refused})
    if gross_j <= 0:
        return holds(True, "not_positive", value=gross_j, unit="j")
    is_made_up = result.boundary == SYNTHETIC
    return holds(
        not is_made_up,
        "simulated" if is_made_up else None,
        value=gross_j,
        unit="j",
        facts={"u95_ratio": u95_j / gross_j},
    )


def energy_windows(evidence: MeteredEvidence) -> Ruling:
    """Each window between two edges of the meter is as long as the benchmark's rules ask."""
    result = evidence.energy
    if result is None:
        return not_applicable("no_meter")
    if not result.edge_windows:
        return unknown("no_edges")
    return at_least(min(one.duration_s for one in result.edge_windows), EDGE_WINDOW_MIN_S, "s")
