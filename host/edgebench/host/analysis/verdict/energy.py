"""Rules about energy: a meter that failed costs no latency, and gives no joules."""

from __future__ import annotations

from edgebench.host.analysis.energy.sync.alignment import SyncMethod
from edgebench.host.analysis.verdict.evidence import Evidence

_NO_METER = "no meter was asked for"
IDLE_LIMIT_RATIO = 0.1
"""Of the net power, by which idle before and after may differ …"""
IDLE_STEADY_RATIO = 0.02
"""… or of the idle power itself: where the model takes next to nothing, net says so."""


def meter(evidence: Evidence) -> tuple[bool | None, str]:
    """The recording is complete, calibrated, without losses and not at the end of a range."""
    energy = evidence.energy
    if energy is None:
        return None, _NO_METER
    if not energy.checks:
        return False, energy.refused or "nothing was recorded"
    failed = [check for check in energy.checks if check.is_passed is False]
    if failed:
        return False, "; ".join(f"{check.id}: {check.detail}" for check in failed)
    return True, "; ".join(f"{check.id}: {check.detail}" for check in energy.checks)


def sync(evidence: Evidence) -> tuple[bool | None, str]:
    """The meter's clock was laid over the device's, and it sees what the device does."""
    energy = evidence.energy
    if energy is None:
        return None, _NO_METER
    if energy.sync is None:
        return None, "not tried, as the recording cannot be used"
    best = energy.sync.best
    if best is None:
        return False, energy.sync.refusal
    text = f"{best.method.value}, within {best.error_ns / 1e6:.3g} ms"
    codes = [one for one in energy.sync.tried if one.method is SyncMethod.CODED_LOAD]
    is_unseen = bool(evidence.worker.sync.codes) and any(one.reason for one in codes)
    if best.method is SyncMethod.ARRIVAL and is_unseen:
        return False, f"{text}: the meter does not see the device work; is it wired to this device?"
    return True, text


def idle(evidence: Evidence) -> tuple[bool | None, str]:
    """The device took as much when idle before the run as after it."""
    numbers = evidence.energy.numbers if evidence.energy else None
    if numbers is None:
        return None, _NO_METER if evidence.energy is None else "no power can be used"
    before_w, after_w = numbers.power_w_idle_before, numbers.power_w_idle_after
    if before_w is None or after_w is None or numbers.power_w_idle is None:
        return None, numbers.net_refused or "idle was recorded on one side of the run only"
    net_w = abs(numbers.power_w.value - numbers.power_w_idle)
    limit_w = max(IDLE_LIMIT_RATIO * net_w, IDLE_STEADY_RATIO * numbers.power_w_idle)
    text = f"idle took {before_w:.4g} W before and {after_w:.4g} W after, limit {limit_w:.2g} apart"
    return abs(after_w - before_w) <= limit_w, text


def energy(evidence: Evidence) -> tuple[bool | None, str]:
    """There is a number, if one was asked for."""
    found = evidence.energy
    if found is None:
        return None, _NO_METER
    if found.numbers is None:
        return False, f"refused: {found.refused}"
    gross = found.numbers.gross
    share = f" ±{gross.u95_absolute / gross.value:.2%}" if gross.value > 0 else ""
    return True, f"{gross.value:.3g} J{share} an inference, gross"
