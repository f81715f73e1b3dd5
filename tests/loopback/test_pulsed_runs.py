"""Boards in energy mode with meters that record their pulses: runs with energy per inference."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.pulse_bench import PulseBench, pulse_bench
from support.pulse_instruments import PIN_INPUT

from edgebench.host.bench.verify import verify
from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.metrics import GROSS_ENERGY, headline
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import RuleOutcome
from edgebench.host.show.energy import energy_lines
from edgebench.protocol.spec import SpecChanges

pytestmark = pytest.mark.alone  # a meter's bytes that come late are lost, as on a real one

MODEL = "digits_int8.tflite"
SHORT: SpecChanges = {
    "duration_s": 5.0,
    "max_query_count": 10**9,
    "warmup_query_count": 1,
    "warmup_duration_s": 0.0,
}
IDLE_S = 1.0
"""The last edges reach the host some time after the last inference."""
ATTEMPTS = 3
"""A recording of a few seconds is refused, and rightly, where its bytes come milliseconds late, or
lines of the board a good part of a second."""


@pytest.fixture(scope="module")
def bench() -> Iterator[PulseBench]:
    """A board behind its interface board."""
    with pulse_bench(is_behind_interface=True) as made:
        yield made


def measured(bench: PulseBench, meter: str) -> Run:
    """A run of the model on the board."""
    for _ in range(ATTEMPTS):
        (stored,) = bench.host.lab.bench(
            MODEL, on=[bench.device], runs=1, meter=meter, idle_duration_s=IDLE_S, **SHORT
        )
        run = stored.result
        if run.metrics.energy is None or run.metrics.energy.refused is None:
            break
    return run


def energy_of(run: Run, bench: PulseBench) -> EnergyResult:
    """Energy of a run, which must be right."""
    assert run.metrics.energy is not None
    assert bench.errors_of(run.metrics.energy) == []
    return run.metrics.energy


def test_board_behind_its_interface_board_has_an_energy(bench: PulseBench) -> None:
    """Otherwise a board's joules would be those of other pulses, or its run have no number."""
    run = measured(bench, bench.new_lpm01a())
    energy = energy_of(run, bench)
    assert run.metrics.windows is not None
    assert run.metrics.windows.is_timed_by_meter
    assert run.metrics.latency_ns is None
    assert headline(run).path == GROSS_ENERGY
    outcomes = {rule.id: rule.outcome for rule in run.verdict.rules}
    assert outcomes["energy_windows"] is RuleOutcome.FAIL, "windows of a second"
    assert outcomes["energy"] is outcomes["meter"] is RuleOutcome.PASS
    assert verify(bench.host.lab.store, run.run_id) == []
    shown = " ".join(text for _, text in energy_lines(energy))
    assert "median of 5 windows between edges at input 0" in shown


def test_logic_input_of_a_ppk2_beside_the_agent_has_the_pulses(bench: PulseBench) -> None:
    """Otherwise pulses would be searched at an input with mains hum, or the board have no meter."""
    assert energy_of(measured(bench, bench.ppk2), bench).edge_input == PIN_INPUT
