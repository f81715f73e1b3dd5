"""Energies in step with the meter's samples: what differs is the phase, not the device."""

from __future__ import annotations

from dataclasses import replace

from support.changes import changed
from support.energy_simulation import Outcome, SimulatedDevice, SimulatedMeter, simulate
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.compare.comparison import ComparisonOutcome
from edgebench.host.analysis.compare.runs import compare_groups
from edgebench.host.analysis.run import analyse_run
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import State, Verdict

TICKING = SimulatedDevice(tick_s=1e-3, tick_active_s=7.5e-5, tick_w=1.0, duration_s=0.5)
INSTANTS = SimulatedMeter(is_averaging=False, rate_hz=20_000.0, noise_w=1e-5)
SIDE = 6
"""Runs of each side: enough for a verdict."""


def run_with(number: int, outcome: Outcome) -> Run:
    """Return a run with this energy."""
    worker = worker_record(latencies())
    made = analyse_run(
        run_record(worker), traces_of(latencies()), created_utc=CREATED_UTC, clock=None
    )
    valid = Verdict(state=State.VALID, rules=())
    energy = replace(outcome.energy, supply_v=None)
    return changed(
        made,
        {"run_id": f"20260102-030405-{number:08d}", "metrics.energy": energy, "verdict": valid},
    )


def test_phase_of_the_samples_is_no_change_of_the_energy() -> None:
    """Otherwise a phase error would be called a regression.

    One device reads 20 % more in six runs and 20 % less in six others.
    """
    low: list[Run] = []
    high: list[Run] = []
    for seed in range(40):
        outcome = simulate(TICKING, INSTANTS, seed)
        side = low if outcome.off_ratio < 0 else high
        if len(side) < SIDE:
            side.append(run_with(seed, outcome))
        if len(low) == len(high) == SIDE:
            break
    [found] = compare_groups([(low, high)], metrics=["energy_j"])
    assert found.result.candidate_median > 1.2 * found.result.baseline_median
    assert found.result.p_adjusted < 0.05, "by the spread between runs alone it is significant"
    assert found.result.outcome is ComparisonOutcome.INCONCLUSIVE, found.result.reason
