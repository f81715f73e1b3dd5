"""Energy and its uncertainty: known answers, and what cancels."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.energy import header
from support.tools import need_shared

from edgebench.host.analysis.energy.integrate import PowerLine, line_of_instants, line_of_means
from edgebench.host.analysis.energy.uncertainty import EnergyWindow, MeterErrors, RangePart
from edgebench.host.store.power import write_blocks
from edgebench.host.store.power_file import PowerFile
from edgebench.meters.base import Flag, LossReport, SampleBlock
from edgebench.meters.uncertainty import Distribution, Kind, UncertaintyTerm, Unit
from edgebench.protocol.errors import MeasurementError

SECOND_NS = 1_000_000_000


def known(name: str) -> Any:
    """Return one known vector."""
    return json.loads(need_shared("known_answers/energy.json").read_text())[name]


def term(kind: Kind, value: float, unit: Unit = Unit.RATIO, **fields: Any) -> UncertaintyTerm:
    """Return a term, rectangular unless stated otherwise."""
    return UncertaintyTerm(kind=kind, value=value, unit=unit, **fields)


def normal(kind: Kind, value: float, unit: Unit, **fields: Any) -> UncertaintyTerm:
    """Return a term given by its standard deviation."""
    return term(kind, value, unit, distribution=Distribution.NORMAL, **fields)


def steady(power_w: float, duration_s: float, **fields: Any) -> EnergyWindow:
    """Return the same power all the time."""
    values: dict[str, Any] = {
        "energy_j": power_w * duration_s,
        "duration_s": duration_s,
        "sample_count": 0,
        "supply_v": 3.3,
        "edge_power_w": (power_w, power_w),
    }
    return EnergyWindow(**(values | fields))


def test_constant_power_has_the_energy_of_any_rule() -> None:
    """Otherwise one sample too many would be counted, and a long window have too much energy."""
    expected = known("A_constant")["expected"]
    time_ns = np.arange(1_000_001) * 10_000
    power_w = np.full(len(time_ns), 3.3 * 0.01)
    found = line_of_instants(time_ns, power_w).cut(0, 10 * SECOND_NS).energy_j()
    assert found == pytest.approx(expected["energy_J"]["float"], rel=1e-12)
    means = line_of_means(time_ns[:-1], time_ns[1:], power_w[1:])
    assert means.cut(0, 10 * SECOND_NS).energy_j() == pytest.approx(0.33, rel=1e-12)


@pytest.mark.parametrize("rate_hz", [1000, 10_000, 100_000])
def test_window_between_samples_is_cut_exactly(rate_hz: int) -> None:
    """Otherwise a burst that begins between two samples would gain or lose a whole sample."""
    expected = known("B_bursts_off_grid")["sampled"][str(rate_hz)]
    time_ns = np.arange(rate_hz + 1) * (SECOND_NS // rate_hz)
    phase_ns = time_ns % 50_000_000
    is_high = (phase_ns >= 7_300_000) & (phase_ns < 19_800_000)
    power_w = 3.3 * np.where(is_high, 0.020, 0.001)
    window = 57_300_000, 69_800_000
    trapezoid_j = line_of_instants(time_ns, power_w).cut(*window).energy_j()
    means_j = line_of_means(time_ns[:-1], time_ns[1:], power_w[:-1]).cut(*window).energy_j()
    assert trapezoid_j == pytest.approx(expected["trapezoid_clipped_J"]["float"], rel=1e-12)
    assert means_j == pytest.approx(expected["left_rect_clipped_J"]["float"], rel=1e-12)


def test_lost_samples_are_bridged_and_counted() -> None:
    """Otherwise lost samples would take their energy, or their time, with them."""
    vector = known("E_sample_loss")
    first, last = vector["definition"]["lost"]
    index = np.arange(100_001)
    power_w = 3.3 * np.where((index >= 30_000) & (index < 60_000), 0.020, 0.001)
    kept = (index < first) | (index > last)
    line = line_of_means(
        (index[:-1] * 10_000)[kept[:-1]], (index[1:] * 10_000)[kept[:-1]], power_w[:-1][kept[:-1]]
    )
    found = line.cut(0, SECOND_NS).energy_j()
    expected = vector["expected"]
    assert found == pytest.approx(expected["hold_or_linear_interp_energy_J"], rel=1e-12)
    lost_s = (last - first + 1) / 100_000
    window = steady(0.0, 1.0, missing_s=lost_s, power_w_span=float(np.ptp(power_w)))
    error = MeterErrors([]).gross_per_inference(window, 1)
    assert error.u_absolute == pytest.approx(expected["loss_bound_J"]["u_rectangular"], rel=1e-9)


@pytest.mark.parametrize(
    ("begin_ns", "end_ns", "reason"),
    [
        (5, 5, "has no energy"),
        (9, 5, "has no energy"),
        (-1, 5, "before the meter's recording"),
        (0, SECOND_NS + 1, "beyond the meter's recording"),
    ],
)
def test_window_that_was_not_recorded_is_refused(begin_ns: int, end_ns: int, reason: str) -> None:
    """Otherwise an energy would be printed for a time that was not measured."""
    line = PowerLine(np.array([0, SECOND_NS]), np.array([1.0, 1.0]))
    with pytest.raises(MeasurementError, match=reason):
        line.cut(begin_ns, end_ns)


def test_readings_that_are_no_numbers_are_bridged() -> None:
    """Otherwise one missing reading would make the energy of an hour not a number."""
    time_ns = np.arange(4) * SECOND_NS
    line = line_of_instants(time_ns, np.array([1.0, math.nan, 3.0, 3.0]))
    assert line.cut(0, 3 * SECOND_NS).energy_j() == pytest.approx(7.0)


def test_budget_of_a_microcontroller_is_the_known_one() -> None:
    """Otherwise gain errors would be divided by the root of a million: 0.01 % instead of 12 %."""
    vector = known("O1_uncertainty_mcu_ppk2")
    parts = vector["expected"]["u_components_J"]
    terms = [
        term(Kind.GAIN, 0.10, range=3),
        term(Kind.OFFSET, 50e-6, Unit.AMPERE, range=3),
        term(Kind.GAIN, 0.15, range=4),
        term(Kind.VOLTAGE, 0.01),
        term(Kind.TIMEBASE, 50e-6),
        term(Kind.EDGE, 5e-6, Unit.SECOND, is_common=False),
        normal(Kind.NOISE, 100e-6, Unit.AMPERE, is_common=False),
    ]
    energy_j = 3.3 * 0.008 * 10
    window = steady(
        3.3 * 0.008,
        10.0,
        sample_count=1_000_000,
        ranges={3: RangePart(energy_j=energy_j, duration_s=10.0)},
    )
    found = MeterErrors(terms).gross_per_inference(window, 200)
    assert found.value == pytest.approx(vector["expected"]["energy_per_inference_J"])
    for name, key in (
        ("gain of range 3", "current_gain_typ_10pct_rect"),
        ("offset of range 3", "current_offset_50uA_rect"),
        ("voltage", "voltage_setpoint_1pct_rect"),
        ("timebase", "timebase_50ppm_rect"),
        ("edges of the window", "edge_quantisation_2_edges_10us"),
        ("noise of the window", "white_noise_100uA_rms"),
    ):
        assert found.components[name] == pytest.approx(parts[key], rel=1e-9), name
    assert "gain of range 4" not in found.components
    with_repeats = math.hypot(found.u_absolute, parts["type_A_0p5pct_5runs"])
    assert with_repeats == pytest.approx(vector["expected"]["u_c_J"], rel=1e-9)
    assert 2 * with_repeats == pytest.approx(vector["expected"]["U_k2_J"], rel=1e-9)
    own = [u for name, u in found.components.items() if name not in found.common]
    repeats = parts["type_A_0p5pct_5runs"]
    # Two models in the same range, at the same power: all that they share cancels.
    ratio = math.sqrt(2) * math.hypot(repeats, *own) / found.value
    assert 100 * ratio == pytest.approx(vector["expected"]["u_ratio_same_range_pct"], rel=1e-4)


def test_offset_cancels_in_the_net_energy_and_gain_does_not() -> None:
    """Otherwise a net figure would be as uncertain as the gross figure, or be exact."""
    vector = known("O6_baseline_subtraction")
    d = vector["definition"]
    active = steady(d["V"] * (d["I_active"] + d["offset_A"]), d["T_s"])
    idle = steady(d["V"] * (d["I_idle"] + d["offset_A"]), d["T_s"])
    offset = MeterErrors([normal(Kind.OFFSET, d["offset_A"], Unit.AMPERE)])
    net = offset.net_per_inference(active, idle, d["N"])
    gross = offset.gross_per_inference(active, d["N"])
    assert gross.value == pytest.approx(vector["expected"]["gross_measured_J"])
    assert net.value == pytest.approx(vector["expected"]["net_true_J"])
    assert gross.u_absolute == pytest.approx(d["V"] * d["offset_A"] * d["T_s"] / d["N"])
    assert net.u_absolute == pytest.approx(0.0, abs=1e-12)
    gain = MeterErrors([normal(Kind.GAIN, d["gain_err"], Unit.RATIO)])
    net = gain.net_per_inference(active, idle, d["N"])
    assert net.u_absolute == pytest.approx(d["gain_err"] * net.value)


def test_resolution_of_two_signals_does_not_cancel() -> None:
    """Otherwise net energy of a meter with coarse steps would be printed as exact."""
    step = MeterErrors([term(Kind.RESOLUTION, 0.05, Unit.WATT)])
    net = step.net_per_inference(steady(2.3, 10.0), steady(2.0, 4.0), 1)
    assert net.u_absolute == pytest.approx(math.sqrt(2) * 0.05 * 10 / 3**0.5)


def test_sum_of_channels_has_the_offset_of_each() -> None:
    """Otherwise six rails would be as certain as one."""
    errors = MeterErrors([term(Kind.OFFSET, 0.2, Unit.WATT), term(Kind.RESOLUTION, 0.1, Unit.WATT)])
    found = errors.gross_per_inference(steady(9.0, 10.0, channel_count=4), 1)
    assert found.components["offset"] == pytest.approx(4 * 0.2 * 10 / 3**0.5)
    assert found.components["resolution of the window"] == pytest.approx(2 * 0.1 * 10 / 3**0.5)


def test_offset_of_another_range_does_not_cancel() -> None:
    """Otherwise idle in another range of the meter would cancel, though its error is another."""
    errors = MeterErrors([normal(Kind.OFFSET, 1e-5, Unit.AMPERE, range=r) for r in (1, 3)])
    part = RangePart(energy_j=1.0, duration_s=10.0)
    net = errors.net_per_inference(
        steady(0.1, 10.0, ranges={3: part}), steady(0.1, 10.0, ranges={1: part}), 1
    )
    assert net.u_absolute == pytest.approx(math.sqrt(2) * 3.3 * 10 * 1e-5)


def in_ranges(*energies_j: float) -> EnergyWindow:
    """Return ten seconds with this energy in range 3, and in range 4."""
    parts = {
        number: RangePart(energy_j=energy_j, duration_s=5.0)
        for number, energy_j in zip((3, 4), energies_j, strict=False)
    }
    return steady(sum(energies_j) / 10, 10.0, ranges=parts)


GAINS = [normal(Kind.GAIN, value, Unit.RATIO, range=r) for r, value in ((3, 0.10), (4, 0.15))]


def test_gains_of_two_ranges_add_up() -> None:
    """Otherwise a window that reaches into a worse range would seem more certain."""
    errors = MeterErrors(GAINS)
    both = errors.gross_per_inference(in_ranges(1.0, 1.0), 1)
    assert both.u_absolute == pytest.approx(0.10 + 0.15)
    assert both.u_absolute / 2 > errors.gross_per_inference(in_ranges(2.0), 1).u_absolute / 2


def test_gains_of_opposite_signs_do_not_add_up() -> None:
    """Otherwise idle in another range would make net surer than gross, or worse than any cause."""
    idle = steady(0.09, 10.0, ranges={3: RangePart(energy_j=0.9, duration_s=10.0)})
    window = steady(0.1, 10.0, ranges={4: RangePart(energy_j=1.0, duration_s=10.0)})
    net = MeterErrors(GAINS).net_per_inference(window, idle, 1)
    assert net.u_absolute == pytest.approx(math.hypot(1.0 * 0.15, 0.9 * 0.10))


def test_gains_that_are_left_beside_another_run_add_up() -> None:
    """Otherwise two ranges that the other run did not use would count as independent."""
    gains = [
        normal(Kind.GAIN, value, Unit.RATIO, range=r) for r, value in ((3, 0.1), (4, 0.2), (5, 0.3))
    ]
    parts = {r: RangePart(energy_j=e, duration_s=3.0) for r, e in ((3, 1.0), (4, 0.5), (5, 0.5))}
    found = MeterErrors(gains).gross_per_inference(steady(0.2, 10.0, ranges=parts), 1)
    assert found.u_comparative == pytest.approx(math.hypot(1.0 * 0.1, 0.5 * 0.2 + 0.5 * 0.3))


def test_gain_cancels_beside_a_run_in_the_same_range_only() -> None:
    """Otherwise half of the energy could be in another range without widening a comparison."""
    errors = MeterErrors(GAINS)
    assert errors.gross_per_inference(in_ranges(2.0), 1).u_comparative == pytest.approx(0.0)
    both = errors.gross_per_inference(in_ranges(1.5, 0.5), 1)
    # Compared with a run of 2 J in range 3: 0.5 J less there, 0.5 J more in range 4.
    assert both.u_comparative == pytest.approx(math.hypot(0.5 * 0.10, 0.5 * 0.15))


def test_gain_of_all_ranges_cancels_beside_any_run() -> None:
    """Otherwise two boards could not be told apart, since the shunt of both is a percent off."""
    errors = MeterErrors([normal(Kind.GAIN, 0.1, Unit.RATIO), *GAINS[1:]])
    found = errors.gross_per_inference(in_ranges(1.5, 0.5), 1)
    assert found.u_comparative == pytest.approx(0.5 * 0.15)


def test_terms_of_one_kind_are_apart() -> None:
    """Otherwise the last of four gains would stand for all, and comparisons lose the rest."""
    values = [0.01, 0.02, 0.002]
    errors = MeterErrors([normal(Kind.GAIN, value, Unit.RATIO) for value in values])
    found = errors.gross_per_inference(steady(8.0, 10.0), 1)
    assert found.common == pytest.approx({"gain": 0.8, "gain #2": 1.6, "gain #3": 0.16})
    assert found.components == pytest.approx(found.common)
    assert found.u_absolute == pytest.approx(80 * math.hypot(*values))


def test_edges_of_a_short_window_are_known() -> None:
    """Otherwise a counter value that is a millisecond old would be as good as a fresh value."""
    vector = known("O5_rapl_single_5ms")
    d, parts = vector["definition"], vector["expected"]["u_components_J"]
    terms = [
        term(Kind.EDGE, d["update_period_s"] / 2, Unit.SECOND, is_common=False),
        term(Kind.RESOLUTION, d["energy_unit_J"] / 2, Unit.JOULE, is_common=False),
    ]
    found = MeterErrors(terms).gross_per_inference(steady(d["P_W"], d["T_s"]), 1)
    assert found.components["edges of the window"] == pytest.approx(parts["update_1ms_per_edge"])
    assert found.components["counter of the window"] == pytest.approx(parts["energy_unit"])
    percent = 100 * found.u_absolute / found.value
    assert percent == pytest.approx(vector["expected"]["u_rel_pct"])


def test_many_inferences_in_one_window_share_its_edges() -> None:
    """Otherwise the budget would not show that repeating is worth more than synchronisation."""
    vector = known("O3_back_to_back")
    d = vector["definition"]
    window = steady(d["P_W"], d["inference_s"] * d["N"], edge_error_s=d["sigma_t_per_edge_s"])
    found = MeterErrors([]).gross_per_inference(window, d["N"])
    assert found.value == pytest.approx(vector["expected"]["E_per_inf_J"])
    assert found.u_absolute == pytest.approx(vector["expected"]["u_edge_per_inf_J"])


def test_saturated_sample_may_have_been_as_high_as_any(tmp_path: Path) -> None:
    """Otherwise samples at the end of a range would be taken at face value."""
    time_ns = np.arange(1000) * 1_000_000
    power_w = np.where(time_ns < SECOND_NS // 2, 1.0, 3.0)
    flags = np.zeros(len(time_ns), np.uint8)
    flags[[498, 499, 900]] = Flag.SATURATED
    block = SampleBlock(channel=0, index0=0, time_ns=time_ns, power_w=power_w, flags=flags)
    loss = LossReport(received_count=len(time_ns), saturated_count=3, bounded_count=3)
    write_blocks(tmp_path, header(), [block], lambda: loss)
    window = PowerFile.open(tmp_path).window("supply", 100_000_000, 800_000_000)
    assert window.saturated_s == pytest.approx(2e-3)
    error = MeterErrors([]).gross_per_inference(window, 1)
    assert error.components["saturated of the window"] == pytest.approx(2e-3 * 2.0 / math.sqrt(3))
