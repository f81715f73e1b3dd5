"""Activity between instants, bounded by how far the samples moved along it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from edgebench.agent.worker.load_code import CHIP_COUNT, chips_of, shifts_of
from edgebench.host.analysis.energy.in_step import ONE_MOMENT
from edgebench.host.analysis.energy.refusal import EnergyRefused
from edgebench.host.analysis.energy.sync.alignment import Alignment, ClockLine
from edgebench.host.analysis.energy.sync.load_code import ONE_CODE_DRIFT
from edgebench.host.analysis.energy.uncertainty import (
    COVERAGE,
    EnergyWindow,
    RangePart,
    without_gaps,
)
from edgebench.host.analysis.energy.unsampled import (
    BURST_W,
    ClockDifference,
    IdleChips,
    PowerLevels,
    assumed_w,
    common_error_s,
    unsampled_w,
)
from edgebench.host.result.energy import SyncMethod
from edgebench.protocol.record import LoadCode

MS = 1e-3


def level(*power_w: float, duration_s: float = 10.0, noise_w: float = 0.0) -> PowerLevels:
    """A window with these levels, or with one level."""
    powers = power_w if len(power_w) > 1 else power_w * 4
    return PowerLevels(np.array(powers), noise_w, duration_s)


@pytest.mark.parametrize(
    ("ppm", "deviation_ppm", "expected"),
    [
        (0.0, 0.0, 0.0),
        (30.0, 0.0, 0.3),  # 10 s at 30 ppm: 0.3 of a millisecond
        (-30.0, 0.0, 0.3),
        (100.0, 20.0, 0.6),
        (30.0, 50.0, 0.0),
    ],
)
def test_samples_move_by_the_least_difference_of_the_clocks(
    ppm: float, deviation_ppm: float, expected: float
) -> None:
    """Otherwise what samples in step miss would be too small, or never vanish."""
    clocks = ClockDifference(ppm * 1e-6, deviation_ppm * 1e-6)
    assert clocks.beats(10.0, 1000.0) == pytest.approx(expected)


def test_many_instants_count_as_in_step_only_if_the_clocks_are_shown_to_agree() -> None:
    """Otherwise a run of a second with a fast meter would have no energy."""
    unknown = ClockDifference(10e-6, 75e-6)
    assert unsampled_w(unknown, level(0.5, duration_s=1.0), [], 100_000.0) == 0.0
    with pytest.raises(EnergyRefused, match="may miss periodic activity"):
        unsampled_w(ClockDifference(0.0, 1e-6), level(0.5, duration_s=1.0), [], 100_000.0)


def test_unseen_activity_is_as_high_as_the_recording() -> None:
    """Otherwise a tick on a load of 2 W would exceed what is stated."""
    in_step = ClockDifference(0.0, 0.0)
    found = unsampled_w(in_step, level(2.0), [level(0.5), level(0.5)], 1000.0)
    assert found == pytest.approx(ONE_MOMENT * 2.0)
    swept = ClockDifference(200e-6, 1e-6)
    assert unsampled_w(swept, level(2.0), [level(0.5)], 1000.0) < 1e-6


def test_energy_may_be_that_of_an_activity_that_every_sample_met() -> None:
    """Otherwise a tick of 1 W in every sample of a loop of 50 mW would be printed as its energy."""
    in_step = ClockDifference(0.0, 0.0)
    found = unsampled_w(in_step, level(2.0), [level(1.7), level(1.7)], 1000.0)
    assert COVERAGE * found == pytest.approx(1.7)
    with pytest.raises(EnergyRefused, match="takes up to 96 % of the energy, limit 90 %"):
        unsampled_w(in_step, level(1.05), [level(1.01)], 1000.0)


def test_activity_that_may_exceed_the_energy_is_refused() -> None:
    """Otherwise 60 mW would be printed where a radio may take 1 W between the samples."""
    with pytest.raises(EnergyRefused, match="may miss periodic activity"):
        unsampled_w(ClockDifference(0.0, 0.0), level(0.06), [level(0.01)], 1000.0)
    assert assumed_w(0.06, 1000.0) == BURST_W
    # Pulses of a regulator, which are shorter than the interval of fast samples.
    assert assumed_w(0.5, 25_000.0) == 2.0


@pytest.mark.parametrize(
    ("loop", "idles"),
    [
        (level(2.0, 2.0, 2.4, 2.4), [level(0.5), level(0.5)]),
        (level(2.0), [level(0.5), level(0.9)]),
        (level(2.0), [level(0.5, 0.9, 0.9, 0.5), level(0.7)]),
    ],
)
def test_activity_that_is_seen_for_a_time_counts_in_full(
    loop: PowerLevels, idles: list[PowerLevels]
) -> None:
    """Otherwise a beat that covers the loop only in part would be printed as its mean."""
    # Over the whole recording, the samples moved by 1.5 intervals, within the loop by 0.5.
    clocks = ClockDifference(50e-6, 0.0)
    assert unsampled_w(clocks, loop, idles, 1000.0) == pytest.approx(ONE_MOMENT * 0.4)


@pytest.mark.parametrize(("ppm", "expected_w"), [(11.0, ONE_MOMENT * 1.0), (13.0, 0.0)])
def test_idle_chips_show_an_activity_that_only_the_loop_met(ppm: float, expected_w: float) -> None:
    """Otherwise a regulator in step would be 20 % off at a printed 0.4 %.

    Once the samples moved by an interval from the loop to an idle phase, that phase shows it.
    """
    chips = IdleChips(np.array([0.5, 1.5]), np.zeros(2), apart_s=4.0)
    idle = level(0.5, duration_s=1.5)
    clocks = ClockDifference(ppm * 1e-6, 0.0)
    found = unsampled_w(clocks, level(2.0, duration_s=2.0), [idle, idle], 20_000.0, chips)
    assert found == pytest.approx(expected_w)


def test_noise_of_idle_chips_is_no_activity() -> None:
    """Otherwise the largest of 30 short chips would make the interval of a noisy meter wider."""
    in_step = ClockDifference(0.0, 0.0)
    noise_w = level(0.5, duration_s=2.0, noise_w=2e-3).noise_within_w(np.full(30, 5e-3))
    assert noise_w == pytest.approx(np.full(30, 0.02))
    for seed in range(5):
        noise = np.random.default_rng(seed).normal(0.0, 0.02, 30)
        quiet, met = IdleChips(0.5 + noise, noise_w, 4.0), IdleChips(1.0 + noise, noise_w, 4.0)
        assert np.abs(noise).max() > 0.03
        assert quiet.change_w(in_step, [0.5], 20_000.0) < 0.01
        # An activity is found by its height, but for the noise of the chip that shows it.
        assert met.change_w(in_step, [0.5], 20_000.0) == pytest.approx(0.5, abs=0.05)


def test_noise_is_no_change_of_the_level() -> None:
    """Otherwise every noisy meter would be in step with something."""
    assert level(2.0, 2.1, 2.0, 2.1, noise_w=0.03).change_w == 0.0
    assert level(2.0, 2.1, 2.0, 2.1, noise_w=0.01).change_w == pytest.approx(0.064)


def test_rate_of_marks_is_known_to_a_sample() -> None:
    """Otherwise edges in step with the samples would pass for an exactly known rate."""
    line = ClockLine(0, 0.0, 30e-6)
    marks = Alignment(SyncMethod.CODED_LOAD, line, 1e5, residual_ns=0.0, mark_count=60)
    found = ClockDifference.of(marks, [], 10.0, MS)
    assert found.ratio == 30e-6
    assert found.deviation == pytest.approx(math.sqrt(2 / 12) * MS / 10.0)
    arrivals = Alignment(SyncMethod.ARRIVAL, line, 2e6)
    assert ClockDifference.of(arrivals, [], 10.0, MS).deviation == pytest.approx(163e-6, rel=0.01)


def test_shifted_edges_of_a_code_give_the_rate_to_a_part_of_a_sample() -> None:
    """Otherwise clocks that agree could not be told from clocks that differ by 10 ppm."""
    line = ClockLine(0, 0.0)
    marks = Alignment(SyncMethod.CODED_LOAD, line, 1e5, residual_ns=0.0, mark_count=60)
    chips = [chips_of("a run", number) for number in range(2)]
    even_ns = np.arange(CHIP_COUNT + 1) * 20_000_000

    def deviation(shifts: Sequence[Sequence[float]]) -> float:
        codes = [
            LoadCode(tuple((even_ns + np.rint(20e6 * np.array(each))).astype(int).tolist()), chip)
            for each, chip in zip(shifts, chips, strict=True)
        ]
        return ClockDifference.of(marks, codes, 10.0, MS).deviation

    in_step = deviation([np.zeros(CHIP_COUNT + 1).tolist()] * 2)
    assert in_step == pytest.approx(math.sqrt(2 / 12) * MS / 10.0, rel=0.02)
    assert deviation([shifts_of("a run", number) for number in range(2)]) < 0.5 * in_step


@pytest.mark.parametrize("phase_count", [1, 2, 5])
def test_error_of_sampled_edges_follows_from_their_phases(phase_count: int) -> None:
    """Edges at n phases, evenly apart, have the error of a sawtooth of a part of the interval."""
    edge_ns = np.arange(60) * 7_000_000 + np.arange(60) % phase_count * 1_000_000 // phase_count
    expected = MS / phase_count / math.sqrt(12)
    assert common_error_s(edge_ns, MS) == pytest.approx(expected, rel=0.1)


def test_rate_of_a_single_code_is_known_to_that_of_arrivals() -> None:
    """Otherwise a code without the second one would state its rate to 10 instead of 50 ppm."""
    line = ClockLine(0, 0.0)
    single = Alignment(
        SyncMethod.CODED_LOAD, line, 1e5, residual_ns=1e4, mark_count=15, rate_error=ONE_CODE_DRIFT
    )
    found = ClockDifference.of(single, [], 10.0, MS)
    assert 2 * found.deviation == ONE_CODE_DRIFT == 50e-6


@pytest.mark.parametrize("gap_w", [0.5, 1.0, 2.0])
def test_energy_of_gaps_is_subtracted(gap_w: float) -> None:
    """Otherwise the energy of an inference would contain idle time, or lack it."""
    energy_j = 9.9 * 2.0 + 0.1 * gap_w
    window = EnergyWindow(
        energy_j=energy_j,
        duration_s=10.0,
        sample_count=1000,
        supply_v=5.0,
        edge_power_w=(2.0, 2.0),
        ranges={1: RangePart(energy_j=energy_j, duration_s=10.0)},
    )
    kept = without_gaps(window, 0.1, 0.5)
    assert kept.duration_s == pytest.approx(9.9)
    assert abs(kept.energy_j - 9.9 * 2.0) <= 2 * kept.gaps_j
    assert kept.ranges[1].energy_j == pytest.approx(kept.energy_j)
    assert kept.ranges[1].duration_s == pytest.approx(9.9)
