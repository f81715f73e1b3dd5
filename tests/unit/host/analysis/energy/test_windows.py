"""What the ends of a window cost where they are misplaced: a lone burst of work."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm
from support.energy import SECOND_NS, header, recorded, steps, with_term
from support.tools import need_shared

from edgebench.host.analysis.energy.in_step import ONE_MOMENT
from edgebench.host.analysis.energy.refusal import WindowTooShort
from edgebench.host.analysis.energy.site import site_of
from edgebench.host.analysis.energy.sync.alignment import Alignment, ClockLine
from edgebench.host.analysis.energy.uncertainty import COVERAGE, MeterErrors
from edgebench.host.analysis.energy.windows import EDGE_LIMIT_RATIO, AlignedTrace
from edgebench.host.result.energy import SyncMethod
from edgebench.meters.uncertainty import Kind, UncertaintyTerm, Unit
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.record import LoadCode

EDGE_S = 1e-3
"""Standard deviation of each end, as the known answer has it."""
BEGIN_NS, BURST_NS = 100_000_000, 40_000_000
"""About the shortest burst that is not refused when its ends are so uncertain."""
PERIOD_NS = 10_000
DRAWS = 50_000
Shifts = NDArray[np.float64]
Draw = Callable[[np.random.Generator], Shifts]
"""Draws the shifts of the two ends in standard deviations, shape (2, n)."""


def known_answer() -> tuple[dict[str, float], dict[str, float]]:
    """Return definition and expectation of O2."""
    known = json.loads(need_shared("known_answers/energy.json").read_text())["O2_edge_misalignment"]
    assert known["definition"]["sigma_t_per_edge_s"] == EDGE_S
    return known["definition"], known["expected"]


def normal(random: np.random.Generator) -> Shifts:
    """Draw as the known answer does."""
    return random.normal(size=(2, DRAWS))


def bounded(random: np.random.Generator) -> Shifts:
    """Draw as a bound on a clock's error is understood."""
    return random.uniform(-math.sqrt(3), math.sqrt(3), size=(2, DRAWS))


def shifted(random: np.random.Generator) -> Shifts:
    """Draw a window that is too late or too early as a whole, as by the offset of a clock."""
    return np.repeat(bounded(random)[:1], 2, axis=0)


def view_of(
    directory: Path, inside_w: float, outside_w: float, *terms: UncertaintyTerm
) -> AlignedTrace:
    """Return one burst by a fast meter; without terms, its clock is known to `EDGE_S`."""
    # Samples right before the burst and its end: between two samples power is a straight line.
    right_before = [BEGIN_NS - 1, BEGIN_NS + BURST_NS - 1]
    time_ns = np.union1d(np.arange(0, SECOND_NS // 4, PERIOD_NS), right_before)
    end_s = (BEGIN_NS + BURST_NS) / SECOND_NS
    levels = ((0.0, outside_w), (BEGIN_NS / SECOND_NS, inside_w), (end_s, outside_w))
    meter = with_term(header(rate_hz=SECOND_NS / PERIOD_NS), *terms)
    power = recorded(directory, time_ns, steps(time_ns, levels), of=meter)
    error_ns = math.sqrt(3) * EDGE_S * SECOND_NS if not terms else 0.0
    alignment = Alignment(SyncMethod.PROBES, ClockLine(0, 0.0), error_ns)
    return AlignedTrace(power, site_of(meter), alignment)


def errors_j(view: AlignedTrace, shifts: Shifts, inside_w: float) -> NDArray[np.float64]:
    """Return the energies of windows with shifted ends, less the truth."""
    ends = np.rint(shifts * EDGE_S * SECOND_NS).astype(np.int64)
    found = view.energies_j(BEGIN_NS + ends[0], BEGIN_NS + BURST_NS + ends[1])
    return found - inside_w * BURST_NS / SECOND_NS


def test_lone_burst_is_read_as_much_too_low_as_the_known_answer_says(tmp_path: Path) -> None:
    """Otherwise the test below would compare the budget with nothing: the mean would be right."""
    d, expected = known_answer()
    view = view_of(tmp_path, d["P_in_W"], d["P_out_W"])
    # Evenly spread over the distribution, not drawn: no luck is left in an error. The
    # ends are independent, so that means and variances of one at a time add up.
    shifts = norm.ppf((np.arange(DRAWS) + 0.5) / DRAWS)
    still = np.zeros(DRAWS)
    pairs = (shifts, still), (still, shifts)
    begin_j, end_j = (errors_j(view, np.stack(pair), d["P_in_W"]) for pair in pairs)
    assert begin_j.mean() + end_j.mean() == pytest.approx(expected["bias_J"], rel=1e-5)
    assert math.hypot(begin_j.std(), end_j.std()) == pytest.approx(expected["std_J"], rel=2e-5)


@pytest.mark.parametrize("draw", [normal, bounded, shifted])
@pytest.mark.parametrize(
    ("inside_w", "outside_w"), [(1.0, 0.0), (1.0, 0.2), (1.0, 0.5), (1.0, 1.0), (0.2, 1.0)]
)
def test_budget_has_bias_and_spread_of_a_lone_burst(
    tmp_path: Path, inside_w: float, outside_w: float, draw: Draw
) -> None:
    """Otherwise a burst would be read 3 % too low, and its uncertainty would not include that."""
    view = view_of(tmp_path, inside_w, outside_w)
    window = view.window(BEGIN_NS, BEGIN_NS + BURST_NS)
    budget = MeterErrors([]).gross_per_inference(window, 1)
    found_j = errors_j(view, draw(np.random.default_rng(3)), inside_w)
    both_j = math.hypot(found_j.mean(), found_j.std())
    assert both_j <= 1.01 * budget.components["edges of the window"]
    is_inside = np.abs(found_j) <= COVERAGE * budget.components["edges of the window"]
    assert is_inside.mean() >= 0.95


def test_budget_of_a_lone_burst_is_not_much_too_wide(tmp_path: Path) -> None:
    """Otherwise the uncertainty could be wide enough for any error, and mean nothing."""
    d, expected = known_answer()
    window = view_of(tmp_path, d["P_in_W"], d["P_out_W"]).window(BEGIN_NS, BEGIN_NS + BURST_NS)
    edges_j = MeterErrors([]).gross_per_inference(window, 1).components["edges of the window"]
    both_j = math.hypot(expected["bias_J"], expected["std_J"])
    assert 1.0 < edges_j / both_j < 1.27


def test_burst_of_the_known_answer_itself_is_too_short(tmp_path: Path) -> None:
    """Otherwise a window whose ends are 9 % of it would be kept."""
    d, _ = known_answer()
    view = view_of(tmp_path, d["P_in_W"], d["P_out_W"])
    assert math.sqrt(3) * d["sigma_t_per_edge_s"] / d["burst_s"] > EDGE_LIMIT_RATIO
    with pytest.raises(MeasurementError, match="window of 20 ms is too short"):
        view.window(BEGIN_NS, BEGIN_NS + round(d["burst_s"] * SECOND_NS))


@pytest.mark.parametrize(("window_ms", "is_long_enough"), [(34, False), (35, True)])
def test_ends_may_be_a_twentieth_of_a_window(
    window_ms: int, is_long_enough: bool, tmp_path: Path
) -> None:
    """Otherwise an energy would be given that depends more on the clocks than on the device."""
    view = view_of(tmp_path, 1.0, 0.0)  # whose clocks are known to 1.73 ms
    times_ns = BEGIN_NS, BEGIN_NS + window_ms * 1_000_000
    if is_long_enough:
        assert view.window(*times_ns).energy_j == pytest.approx(0.035, rel=0.01)
    else:
        with pytest.raises(WindowTooShort):
            view.window(*times_ns)


def test_power_beside_a_window_counts_as_far_as_the_meter_may_be_late(tmp_path: Path) -> None:
    """A counter updated once in 4 ms includes the burst next to an idle window, or does not."""
    late = UncertaintyTerm(kind=Kind.EDGE, value=0.002, unit=Unit.SECOND, is_common=False)
    view = view_of(tmp_path, 0.2, 1.0, late)
    begin_ns = BEGIN_NS + 1_500_000
    window = view.window(begin_ns, BEGIN_NS + BURST_NS - 10_000_000)
    assert window.edge_power_w == pytest.approx((1.0, 0.2), rel=0.01)


def view_of_chips(directory: Path, end_s: float) -> tuple[AlignedTrace, list[LoadCode]]:
    """A recording up to that second with 0.5 W idle, 2 W in the loop, 1.5 W in the idle chips.

    The loop lasts from 1.2 to 2.7 s. The meter's clock is 25 ppm fast, which is known to 16 ppm.
    """
    time_ns = np.arange(0, round(end_s * SECOND_NS), SECOND_NS // 20_000)
    levels = ((0.0, 0.5), (0.65, 1.5), (1.15, 2.0), (2.75, 1.5))
    meter = header(rate_hz=20_000.0, clock="meter:x")
    power = recorded(directory, time_ns, steps(time_ns, levels), of=meter)
    alignment = Alignment(SyncMethod.CODED_LOAD, ClockLine(0, 0.0, 25e-6), 1e5, rate_error=16e-6)
    chips = tuple(number % 2 == 0 for number in range(20))
    codes = [
        LoadCode(tuple(begin_ns + 20_000_000 * np.arange(21)), chips)
        for begin_ns in (700_000_000, 2_800_000_000)
    ]
    return AlignedTrace(power, site_of(meter), alignment), codes


@pytest.mark.parametrize(
    ("end_s", "more_ns"),
    [(3.5, []), (3.5, [(20 * SECOND_NS, 21 * SECOND_NS)]), (3.0, [])],
    ids=["recorded", "idle window not recorded", "code not recorded to its end"],
)
def test_idle_chips_count_whatever_else_was_not_recorded(
    tmp_path: Path, end_s: float, more_ns: list[tuple[int, int]]
) -> None:
    """Otherwise an activity of the loop would be missed, or a run would have no energy."""
    view, codes = view_of_chips(tmp_path, end_s)
    idles_ns = [(100_000_000, 600_000_000), *more_ns]
    found = view.with_unsampled((1_200_000_000, 2_700_000_000), idles_ns, codes)
    assert found.unsampled_w == pytest.approx(ONE_MOMENT * 1.0, rel=0.01)


def test_ends_of_many_windows_have_the_powers_beside_them(tmp_path: Path) -> None:
    """Otherwise inferences and pauses would share a mean power, and ends seem to cost half."""
    view = view_of(tmp_path, 1.0, 0.2)
    begin_ns = np.array([BEGIN_NS, BEGIN_NS + BURST_NS])
    found_w = view.edge_powers_w(begin_ns, begin_ns + BURST_NS)
    assert found_w.shape == (2, 2)
    assert found_w[:, 0] == pytest.approx([1.0, 1.0], rel=0.01)
    assert found_w[:, 1] == pytest.approx([1.0, 0.2], rel=0.01)
