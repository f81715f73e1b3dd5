"""Load codes of a run in a trace whose clock is unknown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from support.energy import SECOND_NS

from edgebench.agent.worker.load_code import chips_of
from edgebench.host.analysis.energy.integrate import Floats, Nanoseconds
from edgebench.host.analysis.energy.sync import find_codes as finder
from edgebench.host.analysis.energy.sync.find_codes import choose_place, find_codes
from edgebench.host.analysis.energy.sync.load_code import Cumulative
from edgebench.protocol.errors import CodesNotFound, MeasurementError
from edgebench.protocol.record import LoadCode

CHIP_NS = 20_000_000
RATE_HZ = 1000.0


OLD_CHIPS = tuple(chip == "1" for chip in "1111001101001000010101110110001")
"""The chips that agents of the first versions played in all runs: an m-sequence."""


def code(begin_s: float, chips: tuple[bool, ...] = OLD_CHIPS) -> LoadCode:
    """Return a code as a worker plays it, at this second of the device's clock."""
    first_ns = round(begin_s * SECOND_NS)
    edges = tuple(first_ns + chip * CHIP_NS for chip in range(len(chips) + 1))
    return LoadCode(edges, chips)


def codes_of(run: str, *begins_s: float) -> list[LoadCode]:
    """Return the codes of a run, at these seconds."""
    return [code(begin_s, chips_of(run, number)) for number, begin_s in enumerate(begins_s)]


def trace(
    codes: Sequence[LoadCode],
    length_s: float,
    *,
    zero_ns: int = 0,
    drift: float = 0.0,
    noise_w: float = 0.05,
    work_w: float = 2.0,
    seed: int = 1,
) -> tuple[Cumulative, tuple[int, int]]:
    """Return the energy of a device that is idle except for its codes, by the clock of a file."""
    count = round(length_s * RATE_HZ)
    grid_s = np.arange(count) / RATE_HZ
    power_w = np.ones(count) + np.random.default_rng(seed).normal(0, noise_w, count)
    for one in codes:
        for edge_ns, is_busy in zip(one.edges_ns, one.is_busy, strict=False):
            begin_s = edge_ns / 1e9 * (1 + drift)
            inside = (grid_s >= begin_s) & (grid_s < begin_s + CHIP_NS / 1e9 * (1 + drift))
            power_w[inside] += (work_w - 1.0) if is_busy else 0.0
    energy_j = np.concatenate([[0.0], np.cumsum(power_w / RATE_HZ)])
    times_ns = zero_ns + np.arange(count + 1) * round(1e9 / RATE_HZ)

    def cumulative(at_ns: Nanoseconds) -> Floats:
        return np.interp(at_ns - zero_ns, times_ns - zero_ns, energy_j)

    return cumulative, (int(times_ns[0]), int(times_ns[-1]))


@pytest.mark.parametrize("zero_ns", [0, -(10**12), 1_763_800_000 * SECOND_NS])
@pytest.mark.parametrize("drift", [0.0, 2e-4, -8e-4])
@pytest.mark.parametrize("codes", [[code(40.0), code(100.0)], codes_of("run", 40.0, 100.0)])
def test_codes_are_found_whatever_clock_a_file_has(
    codes: list[LoadCode], zero_ns: int, drift: float
) -> None:
    """Otherwise a file that begins in 1970, or has a slow clock, would give no run's energy."""
    cumulative, span_ns = trace(codes, 150.0, zero_ns=zero_ns, drift=drift)
    places, _ = find_codes(codes, cumulative, span_ns)
    assert len(places) == 1
    for one in codes:
        off_ns = int(places[0].line.to_meter(one.edges_ns[0])) - zero_ns
        assert off_ns == pytest.approx(one.edges_ns[0] * (1 + drift), abs=CHIP_NS / 3)


@pytest.mark.parametrize("seed", range(10))
def test_noise_is_no_code(seed: int) -> None:
    """Otherwise ten minutes of another device would be taken for the run."""
    cumulative, span_ns = trace([], 600.0, noise_w=1.0, seed=seed)
    with pytest.raises(MeasurementError, match="load codes are not in the trace"):
        find_codes([code(40.0), code(100.0)], cumulative, span_ns)


def test_codes_that_are_further_apart_are_of_another_run() -> None:
    """Otherwise a run of 60 s would be aligned with a run of 61 s next to it."""
    played = [code(40.0), code(101.0)]
    cumulative, span_ns = trace(played, 150.0)
    with pytest.raises(MeasurementError, match="load codes are not in the trace"):
        find_codes([code(40.0), code(100.0)], cumulative, span_ns)


@pytest.mark.parametrize("noise_w", [0.05, 0.5])
def test_file_of_one_run_contains_no_other_run(noise_w: float) -> None:
    """Otherwise a file of another run, with equal times, would give this run its energy."""
    runs = [codes_of(f"run-{number}", 10.0, 22.0) for number in range(10)]
    for number, run in enumerate(runs):
        cumulative, span_ns = trace(run, 35.0, noise_w=noise_w, seed=number)
        (place,), _ = find_codes(run, cumulative, span_ns)
        assert abs(int(place.line.to_meter(run[0].edges_ns[0])) - 10 * SECOND_NS) < CHIP_NS / 3
        for other in (one for one in runs if one is not run):
            with pytest.raises(CodesNotFound, match="load codes are not in the trace"):
                find_codes(other, cumulative, span_ns)


def test_runs_of_a_set_are_each_found_in_its_file() -> None:
    """Otherwise a set whose runs are equally long would need to be cut into its runs."""
    begins_s = (10.0, 31.2, 52.9, 74.1, 96.0)
    runs = [codes_of(f"run-{begin_s}", begin_s, begin_s + 12.0) for begin_s in begins_s]
    cumulative, span_ns = trace([one for run in runs for one in run], 120.0)
    for run in runs:
        (place,), _ = find_codes(run, cumulative, span_ns)
        off_ns = int(place.line.to_meter(run[0].edges_ns[0])) - run[0].edges_ns[0]
        assert abs(off_ns) < CHIP_NS / 3


def test_place_among_runs_of_one_kind_follows_from_the_others() -> None:
    """Otherwise the second of five launches in one file would get the energy of the fourth."""
    begins_s = (10.0, 31.2, 52.9, 74.1, 96.0)
    runs = [[code(begin_s), code(begin_s + 12.0)] for begin_s in begins_s]
    cumulative, span_ns = trace([one for run in runs for one in run], 120.0)
    for number, run in enumerate(runs):
        places, search = find_codes(run, cumulative, span_ns)
        assert len(places) == len(runs)
        others = [one for other in runs if other is not run for one in other]
        line = choose_place(places, search, others).line
        off_s = (int(line.to_meter(run[0].edges_ns[0])) - run[0].edges_ns[0]) / 1e9
        assert abs(off_s) < CHIP_NS / 3e9, number
        with pytest.raises(MeasurementError, match=r"at 5 positions of the trace, 10 s, 31\.2 s"):
            choose_place(places, search, [])


def test_trace_that_is_too_short_or_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a day at 100 kS/s would use up the memory, and a second would only lack a code."""
    codes = [code(1.0), code(3.0)]
    cumulative, span_ns = trace(codes, 6.0)
    with pytest.raises(MeasurementError, match=r"the trace lasts 100 ms, shorter than the load"):
        find_codes(codes, cumulative, (0, SECOND_NS // 10))
    monkeypatch.setattr(finder, "MAX_STEPS", 1000)
    with pytest.raises(
        MeasurementError, match=r"too long to search for a load code .*: cut the trace to the run"
    ):
        find_codes(codes, cumulative, span_ns)


def test_a_single_code_is_not_enough() -> None:
    """A single code does not give the rate of a file's clock, which may be off by a percent."""
    cumulative, span_ns = trace([code(1.0)], 6.0)
    with pytest.raises(MeasurementError, match="played 1 load codes, 2 are needed"):
        find_codes([code(1.0)], cumulative, span_ns)


def test_power_that_stands_still_has_no_code() -> None:
    """Otherwise the search would divide by a variance of zero."""
    cumulative, span_ns = trace([], 60.0, noise_w=0.0)
    with pytest.raises(MeasurementError, match=r"correlation 0\.00"):
        find_codes([code(10.0), code(30.0)], cumulative, span_ns)
