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

IN_STEP = SimulatedDevice(active_ratio=0.005, work_w=1.0, duration_s=1.0)
INSTANTS = SimulatedMeter(is_averaging=False, rate_hz=20_000.0, drift_ppm=120.0, noise_w=1e-5)
PHASE_RATIO = 0.13
"""Part of the energy by which a phase moves it; the uncertainty from the phase is 30 %."""
SIDE = 6
"""Runs of each side: enough for a verdict."""


def run_with(number: int, outcome: Outcome, factor: float) -> Run:
    """Return a run with this energy, times a factor."""
    worker = worker_record(latencies())
    made = analyse_run(
        run_record(worker), traces_of(latencies()), created_utc=CREATED_UTC, clock=None
    )
    valid = Verdict(state=State.VALID, rules=())
    measured_j = outcome.energy.gross_j_per_inference
    assert measured_j is not None, outcome.energy.refused
    energy = replace(outcome.energy, supply_v=None, gross_j_per_inference=factor * measured_j)
    return changed(
        made,
        {"run_id": f"20260102-030405-{number:08d}", "metrics.energy": energy, "verdict": valid},
    )


def test_phase_of_the_samples_is_no_change_of_the_energy() -> None:
    """Otherwise a phase error would be called a regression.

    One device reads 13 % more in six runs and 13 % less in six others.
    """
    outcomes = [simulate(IN_STEP, INSTANTS, seed) for seed in range(SIDE)]
    low, high = (
        [run_with(first + seed, outcome, factor) for seed, outcome in enumerate(outcomes)]
        for first, factor in ((0, 1 - PHASE_RATIO), (SIDE, 1 + PHASE_RATIO))
    )
    [found] = compare_groups([(low, high)], metrics=["energy_j"])
    assert found.result.candidate_median > 1.2 * found.result.baseline_median
    assert found.result.p_adjusted < 0.05, "by the spread between runs alone it is significant"
    assert found.result.outcome is ComparisonOutcome.INCONCLUSIVE, found.result.reason
