"""A board in energy mode behind its interface board, next to a meter: from commands to joules.

Time is virtual; the bridge, the meter's decoder and the analysis are real.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.board_double import BoardDouble, BoardHabits, InterfaceDouble, VirtualLine
from support.pulsed import ACTIVE_W, RATE_HZ, lpm01a_recording, sampled_j

from edgebench.firmware_bridge.board import Board
from edgebench.host.analysis.energy.pulses import PulsedWindow, find_edges, pulsed_energy

COUNT = 700
INPUT = bytes(49)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("is_behind", [False, True])
def test_board_that_takes_ten_milliwatts_has_the_joules_of_its_windows(
    seed: int, is_behind: bool, tmp_path: Path
) -> None:
    """Otherwise bridge and analysis could differ in the edges: pulses of the start or a request."""
    double = BoardDouble(BoardHabits(is_energy=True, inference_us=14_500 + 13 * seed))
    line = VirtualLine(InterfaceDouble(double) if is_behind else double)
    board = Board(line)
    board.connect()
    windows = []
    for _ in range(5):
        board.load_input(INPUT)
        window = board.window(COUNT, warmup_count=10)
        windows.append(PulsedWindow(window.count, window.began_ns, window.ended_ns))
    chance = np.random.default_rng(seed)
    meter_s = np.array(line.pulses_ns) / 1e9 * (1 + chance.normal(0, 50e-6)) + chance.uniform(0, 1)
    edges_s = meter_s[-10:].reshape(5, 2)
    power = lpm01a_recording(sampled_j(edges_s, chance), list(meter_s), tmp_path)
    _, edges_ns = find_edges(windows, power.falling_edges(), 1e9 / RATE_HZ)
    result = pulsed_energy(power, windows, edges_ns)
    measured = result.median.measured
    assert f"{1e3 * measured.energy_j / measured.duration_s:.2f}" == "10.00"
    energy = result.median.energy_j_per_inference
    truth_j = ACTIVE_W * double.habits.inference_us / 1e6
    assert abs(energy.value - truth_j) <= energy.u95_absolute
    assert energy.value == pytest.approx(truth_j, rel=3e-4)
