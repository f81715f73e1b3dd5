"""Energy by the pulses of a board alone: 10 mW are 10.00 mW, whatever the clocks do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from support.energy import SECOND_NS
from support.pulsed import ACTIVE_W, IDLE_W, RATE_HZ, lpm01a_recording, sampled_j

from edgebench.host.analysis.energy.pulses import (
    PulsedResult,
    PulsedWindow,
    find_edges,
    pulsed_energy,
)
from edgebench.host.store.power import write_blocks
from edgebench.host.store.power_file import PowerFile
from edgebench.meters.base import (
    Capability,
    Channel,
    Header,
    LossReport,
    MeterInfo,
    SampleBlock,
)
from edgebench.meters.uncertainty import Kind, UncertaintyTerm, Unit
from edgebench.protocol.errors import MeasurementError

Floats = NDArray[np.float64]
PERIOD_NS = 1e9 / RATE_HZ


@dataclass(frozen=True)
class Bench:
    """A simulated board that runs five windows next to a meter."""

    edges_s: Floats
    """Ends of the windows on the meter's clock, shape (5, 2)."""
    other_s: Floats
    """Pulses that belong to no window."""
    windows: tuple[PulsedWindow, ...]
    energies_j: Floats
    """Energy of each sample, J, shape (n,)."""
    count: int


def bench_of(seed: int, *, window_s: float = 10.05, count: int = 700, gain: float = 1.0) -> Bench:
    """Return five windows with pauses between them, late lines and earlier pulses."""
    chance = np.random.default_rng(seed)
    at_s = 3.0 + float(chance.uniform(0, 1))
    other_s = np.array([0.5, 1.7]) + chance.uniform(0, 0.1, 2)
    edges: list[tuple[float, float]] = []
    for _ in range(5):
        edges.append((at_s, at_s + window_s * float(chance.uniform(1, 1.01))))
        at_s = edges[-1][1] + float(chance.uniform(0.4, 3.0))
    edges_s = np.array(edges)
    # The bridge has a clock of its own, and each line is read late by another time.
    late_s = chance.exponential(0.1, (5, 2))
    bridge_ns = ((edges_s * (1 + 80e-6) + 5000.0 + late_s) * SECOND_NS).astype(np.int64)
    windows = tuple(PulsedWindow(count, int(begin), int(end)) for begin, end in bridge_ns)
    samples_j = sampled_j(edges_s, chance, gain)
    return Bench(edges_s, other_s, windows, samples_j, count)


def recording_of(bench: Bench, folder: Path) -> PowerFile:
    """Return the recording of a bench."""
    return lpm01a_recording(bench.energies_j, [*bench.edges_s.reshape(-1), *bench.other_s], folder)


def analysed(power: PowerFile, windows: Sequence[PulsedWindow]) -> tuple[int, PulsedResult]:
    """Return the input with the pulses, and the energy between them."""
    period_ns = 1e9 / power.header.capability.rate_hz
    number, edges_ns = find_edges(windows, power.falling_edges(), period_ns)
    return number, pulsed_energy(power, windows, edges_ns)


def check(result: PulsedResult, bench: Bench) -> None:
    """Compare the median window with what was simulated."""
    median = result.median
    truth_j = ACTIVE_W * np.diff(bench.edges_s)[:, 0] / bench.count
    number = [window.window for window in result.windows].index(median.window)
    gross = median.energy_j_per_inference
    assert abs(gross.value - truth_j[number]) <= gross.u95_absolute
    assert truth_j[number] == pytest.approx(sorted(truth_j)[2], rel=1e-3)
    assert gross.u95_absolute < 0.06 * gross.value


@pytest.mark.parametrize("seed", range(20))
def test_ten_milliwatts_are_ten_milliwatts(seed: int, tmp_path: Path) -> None:
    """Otherwise windows would have wrong edges, or energy of the pauses, as on a busy machine."""
    bench = bench_of(seed)
    _, result = analysed(recording_of(bench, tmp_path), bench.windows)
    measured = result.median.measured
    assert f"{1e3 * measured.energy_j / measured.duration_s:.2f}" == "10.00"
    check(result, bench)
    found_s = np.array([window.edges_ns for window in result.windows]) / SECOND_NS
    assert np.abs(found_s - bench.edges_s).max() <= 1 / RATE_HZ


def test_time_without_a_sound_is_in_the_interval(tmp_path: Path) -> None:
    """Otherwise silence in a window would change its energy per inference, but not its interval."""
    bench = bench_of(3, count=300)
    power = recording_of(bench, tmp_path)
    gross = analysed(power, bench.windows)[1].median.energy_j_per_inference
    windows = [replace(window, pace_ns=32_000_000) for window in bench.windows]
    paced = analysed(power, windows)[1].median
    heard_ratio = 300 * 0.032 / paced.duration_s
    apart = abs(paced.energy_j_per_inference.u95_absolute**2 - gross.u95_absolute**2) ** 0.5
    assert paced.energy_j_per_inference.value == gross.value
    assert apart / gross.value == pytest.approx(1.96 * (1 - heard_ratio) / 3**0.5, rel=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_gain_of_the_meter_is_inside_the_interval(seed: int, tmp_path: Path) -> None:
    """Otherwise a meter that is wrong by what its data sheet allows would exclude the truth."""
    bench = bench_of(seed, gain=1.019 if seed % 2 else 0.981)
    check(analysed(recording_of(bench, tmp_path), bench.windows)[1], bench)


def test_logic_input_of_a_fast_meter_is_found_among_others(tmp_path: Path) -> None:
    """Otherwise the pulses would be sought on an input that carries something else."""
    rate_hz = 20_000
    chance = np.random.default_rng(3)
    edges_s = np.array([[1.0, 2.2], [2.5, 3.7], [4.1, 5.3]])
    time_s = np.arange(int(7 * rate_hz)) / rate_hz
    is_active = ((time_s[:, None] >= edges_s[:, 0]) & (time_s[:, None] < edges_s[:, 1])).any(axis=1)
    power_w = np.where(is_active, ACTIVE_W, IDLE_W) + chance.normal(0, 1e-4, len(time_s))
    digital = np.full(len(time_s), 0b110, np.uint8)
    for pulse_s in (0.3, *edges_s.reshape(-1)):
        digital[(time_s >= pulse_s) & (time_s < pulse_s + 1e-4)] &= 0b011
    digital[(time_s * 50).astype(int) % 2 == 0] |= 1  # mains hum on an open input
    meter = Header(
        driver="synthetic",
        info=MeterInfo(vendor="Example", model="Meter", serial="7"),
        capability=Capability(
            driver="synthetic",
            channels=(Channel("supply", "board"),),
            rate_hz=rate_hz,
            is_averaging=False,
            is_uniform=True,
            clock_domain="meter:7",
            digital_count=3,
            loss_detection="counter",
        ),
        uncertainty=(UncertaintyTerm(kind=Kind.GAIN, value=0.01, unit=Unit.RATIO),),
        facts={"supply_v": 3.3},
    )
    block = SampleBlock(
        channel=0,
        index0=0,
        time_ns=np.rint(time_s * SECOND_NS).astype(np.int64),
        power_w=power_w,
        flags=np.zeros(len(time_s), np.uint8),
        digital=digital,
    )
    write_blocks(tmp_path, meter, [block], lambda: LossReport(received_count=len(time_s)))
    windows = [
        PulsedWindow(100, int((begin + 77) * SECOND_NS), int((end + 77.05) * SECOND_NS))
        for begin, end in edges_s
    ]
    number, result = analysed(PowerFile.open(tmp_path), windows)
    assert number == 2
    for window in result.windows:
        energy = window.energy_j_per_inference
        assert abs(energy.value - ACTIVE_W * 1.2 / 100) <= energy.u95_absolute


def windows_at(*ends_s: tuple[float, float]) -> list[PulsedWindow]:
    """Return windows of these seconds."""
    return [PulsedWindow(1, int(a * SECOND_NS), int(b * SECOND_NS)) for a, b in ends_s]


def ns(*seconds: float) -> NDArray[np.int64]:
    """Return times of edges in nanoseconds."""
    return (np.array(seconds) * SECOND_NS).astype(np.int64)


def test_edges_of_windows_are_found_behind_and_before_others() -> None:
    """Otherwise a pulse at the start of the board would shift every window by one edge."""
    windows = windows_at((10, 20), (21, 31))
    found = {0: ns(1, 2), 7: ns(0.2, 1.5, 5, 15, 16, 26)}
    number, edges = find_edges(windows, found, PERIOD_NS)
    assert number == 7
    assert (edges / SECOND_NS).tolist() == [[5, 15], [16, 26]]


@pytest.mark.parametrize(
    ("edges", "text"),
    [
        ({}, r"no digital input has the 4 pulses of 2 windows.*\(falling edges: none\)"),
        ({3: ns(1, 2, 3)}, r"falling edges: input 3: 3"),
        ({3: ns(5, 9, 16, 22)}, r"a window lasts 10 s according to the board's output"),
        ({3: ns(0.2, 5, 15, 16)}, r"no digital input has the 4 pulses"),
        ({3: ns(0.2, 4, 5, 15, 16)}, r"no digital input has the 4 pulses"),
        ({3: ns(5, 15, 16, 26, 26.5)}, r"no digital input has the 4 pulses"),
        ({1: ns(5, 15, 16, 26), 2: ns(5, 15, 16, 26.5)}, r"inputs 1 and 2 both have pulses"),
    ],
)
def test_edges_that_fit_no_windows_are_refused(
    edges: dict[int, NDArray[np.int64]], text: str
) -> None:
    """Otherwise a glitch, or a missing pulse, would give the energy of a pause."""
    with pytest.raises(MeasurementError, match=text):
        find_edges(windows_at((10, 20), (21, 31)), edges, PERIOD_NS)


def test_lines_that_are_late_choose_no_other_edges() -> None:
    """Otherwise pauses would be taken for windows on a busy machine, because lines came late."""
    windows = windows_at((20.5, 20.5), (21.9, 33), (33, 43))
    edges = {0: ns(0, 10, 20, 21, 31, 32, 42)}
    _, found = find_edges(windows, edges, PERIOD_NS)
    assert (found / SECOND_NS).tolist() == [[10, 20], [21, 31], [32, 42]]
    doubled = {0: edges[0], 4: edges[0] + 10}
    assert find_edges(windows, doubled, PERIOD_NS)[0] == 0


@pytest.mark.parametrize("windows", [[], windows_at((10, 20))])
def test_windows_without_pauses_are_refused(windows: list[PulsedWindow]) -> None:
    """Otherwise numpy would raise an error, or any two edges would be a window."""
    with pytest.raises(MeasurementError, match=f"{len(windows)} windows are too few"):
        find_edges(windows, {0: ns(5, 15)}, PERIOD_NS)


def test_pauses_as_long_as_the_windows_are_refused() -> None:
    """Otherwise all edges would fit when shifted by one.

    Small inputs over 9600 baud take as long as a window.
    """
    windows = windows_at((0, 2.2), (4.3, 6.5), (8.6, 10.8))
    with pytest.raises(MeasurementError, match=r"windows of 2.2 s and pauses of 2.1 s are equal"):
        find_edges(windows, {0: ns(0, 2.2, 4.3, 6.5, 8.6, 10.8)}, PERIOD_NS)


@dataclass(frozen=True)
class PulseTrain:
    """Pulses of five windows and of a trial before them, and the lines read by the bridge."""

    edges_s: Floats
    """Ends of the windows on the meter's clock, shape (5, 2)."""
    trial_s: Floats
    """Pulses of a window that is not counted, shape (2,)."""
    windows: tuple[PulsedWindow, ...]

    def reported_j(self, pairs_s: Floats) -> float:
        """Return the median energy between pairs of edges, at the simulated power."""
        ends_s = np.concatenate([self.trial_s, self.edges_s.reshape(-1)])
        bounds_s = np.concatenate([[ends_s[0] - 100], ends_s, [ends_s[-1] + 100]])
        powers_w = np.resize([IDLE_W, ACTIVE_W], len(bounds_s) - 1)
        passed_j = np.concatenate([[0.0], np.cumsum(np.diff(bounds_s) * powers_w)])
        energies_j = np.diff(np.interp(pairs_s, bounds_s, passed_j))[:, 0]
        return float(np.sort(energies_j)[2])


def train_of(seed: int, window_s: float, pause_s: float) -> PulseTrain:
    """Return a train with late lines: most by up to what is allowed, some by seconds."""
    chance = np.random.default_rng(seed)
    windows_s = window_s * chance.uniform(1, 1.01, 5)
    pauses_s = pause_s * chance.uniform(1, 1.05, 5)
    trial_s = 3.0 + np.array([0.0, window_s * float(chance.uniform(0.1, 1))])
    steps_s = np.column_stack([pauses_s, windows_s]).reshape(-1)
    edges_s = (trial_s[1] + np.cumsum(steps_s)).reshape(5, 2)
    usual_s = [0.0, float(chance.uniform(0, 0.4)) * min(2.0, window_s / 2)]
    late_s = usual_s + chance.exponential(0.01, (5, 2))
    late_s[int(chance.integers(5)), int(chance.integers(2))] += float(chance.exponential(2))
    lines_s = np.maximum.accumulate((edges_s + late_s).reshape(-1)).reshape(5, 2)
    bridge_ns = ((lines_s * (1 + 80e-6) + 5000.0) * SECOND_NS).astype(np.int64)
    windows = tuple(PulsedWindow(700, int(begin), int(end)) for begin, end in bridge_ns)
    return PulseTrain(edges_s, trial_s, windows)


CHANGES = [*(f"lost {number}" for number in range(10)), "before", "inside", "behind", "none"]


@pytest.mark.parametrize("change", CHANGES)
def test_lost_and_extra_pulses_give_the_right_energy_or_none(change: str) -> None:
    """Otherwise a lost pulse would make the energy of pauses that of the windows."""
    refused_count = 0
    ratios = (0.02, 0.3, 0.5, 0.7, 0.9, 1.0, 1.1, 1.4, 1.7, 2.5, 6.0)
    cases = [(w, r, seed) for w in (1.0, 2.2, 10.05) for r in ratios for seed in range(12)]
    for window_s, ratio, seed in cases:
        train = train_of(seed, window_s, ratio * window_s)
        ends_s = train.edges_s.reshape(-1)
        last_s = float(ends_s[-1])
        others_s = {
            "before": [float(ends_s[0]) - 0.3 * ratio * window_s],
            "inside": [last_s - 0.4 * window_s],
            "behind": [last_s + min(ratio, 1.0) * window_s],
        }.get(change, [])
        if change.startswith("lost"):
            ends_s = np.delete(ends_s, int(change.split()[1]))
        pulses_s = np.sort(np.concatenate([train.trial_s, ends_s, others_s]))
        try:
            _, found = find_edges(train.windows, {0: ns(*pulses_s)}, PERIOD_NS)
        except MeasurementError:
            refused_count += 1
            # One line that is late by seconds moves those of all windows of a second.
            is_good = change in ("none", "before") and window_s > 10 and not 0.4 < ratio < 1.9
            assert not is_good, (ratio, seed)
        else:
            reported_j, truth_j = train.reported_j(found / 1e9), train.reported_j(train.edges_s)
            assert reported_j == pytest.approx(truth_j, rel=0.01), (window_s, ratio, seed)
    if change in ("inside", "behind", *(f"lost {number}" for number in range(1, 10))):
        assert refused_count == len(cases)
