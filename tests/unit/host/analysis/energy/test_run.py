"""Energy of a run: from its windows and a recording to joules per inference, or a reason."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest
from numpy.typing import NDArray
from support.energy import SECOND_NS, SUPPLY_V, events, header, recorded, steps, with_term
from support.records import run_record, worker_record

from edgebench.host.analysis.energy.power_trace import PowerTrace
from edgebench.host.analysis.energy.run import find_energy
from edgebench.host.analysis.energy.uncertainty import COVERAGE
from edgebench.host.analysis.energy.windows import TimedQueries
from edgebench.host.analysis.latency.queries import Queries
from edgebench.host.result.energy import EnergyResult, SyncMethod
from edgebench.host.result.facts import EnergyRequest
from edgebench.host.store.power_file import PowerFile
from edgebench.meters.base import Channel, Gap, LossReport
from edgebench.meters.uncertainty import Kind, UncertaintyTerm, Unit, term
from edgebench.protocol.clock import ClockModel
from edgebench.protocol.record import MeterFacts
from edgebench.protocol.spec import Scenario

_Value = TypeVar("_Value")
QUERY_S, COUNT, WARMUP_COUNT = 0.1, 100, 10
IDLE_W, LOAD_W, WORK_W = 1.0, 2.0, 3.0
EVENTS = events(
    ("idle", 1.0), ("idle_ended", 3.0), ("starting", 3.0), ("loading", 3.1), ("warming_up", 4.0),
    ("measuring", 5.0), ("spooling", 15.0), ("idle", 15.5), ("idle_ended", 17.5),
)  # fmt: skip
LEVELS = ((0.0, IDLE_W), (3.1, LOAD_W), (4.0, WORK_W), (15.0, IDLE_W))
SAME_CLOCK = ClockModel("host:h", "device:d", 0, 0.0, 0.0, 10_000.0)


def queries(query_s: float = QUERY_S, count: int = COUNT) -> Queries:
    """Return the warm-up from second 4 on and the counted queries after it, back to back."""
    start_ns = np.asarray((4.0 + query_s * np.arange(WARMUP_COUNT + count)) * SECOND_NS, np.int64)
    end_ns = start_ns + round(query_s * SECOND_NS)
    sample = np.zeros(len(start_ns), np.int64)
    return Queries(start_ns, start_ns, start_ns, end_ns, end_ns, sample, WARMUP_COUNT)


def found_in(
    power: PowerTrace | None,
    *,
    timed: Queries | None = None,
    first_row: int = WARMUP_COUNT,
    asked: EnergyRequest | None = None,
    clock: ClockModel | None = SAME_CLOCK,
    scenario: Scenario = Scenario.SINGLE_STREAM,
    **fields: Any,
) -> EnergyResult:
    """Return the energy of the run above from this recording."""
    ours = timed or queries()
    worker = worker_record(np.full(len(ours), 1000))
    made = run_record(worker)
    record = replace(made, events=EVENTS, **fields)
    record = replace(record, spec=replace(record.spec, scenario=scenario))
    wanted = asked or EnergyRequest(meter="synthetic")
    found = find_energy(record, worker, TimedQueries(ours, first_row), power, clock, wanted)
    assert found is not None
    return found


def numbers_of(found: EnergyResult) -> EnergyResult:
    """Return the energy, which must have a value."""
    assert found.gross_j_per_inference is not None, found.refused
    return found


UNALIGNED = "the clocks of meter and device could not be aligned"
NO_NUMBERS = (
    *("meter", "supply_v", "settings_sha256", "boundary", "channels", "sync", "checks"),
    *("refusal", "refused", "refused_by"),
)
"""Fields that are set where a recording gives no energy."""


def has_no_number(found: EnergyResult) -> bool:
    """Whether only the recording and the reason are given, without any number."""
    told = [field.name for field in fields(found) if getattr(found, field.name) not in (None, ())]
    return set(told) <= set(NO_NUMBERS)


def given(value: _Value | None) -> _Value:
    """Return the measured value."""
    assert value is not None
    return value


def trace(directory: Path, until_s: float = 20.0, **changes: Any) -> PowerTrace:
    """Return what a meter on the device's own clock records of the run above."""
    time_ns = np.arange(0, round(until_s * SECOND_NS), SECOND_NS // 1000)
    return recorded(directory, time_ns, steps(time_ns, LEVELS), **changes)


def test_gross_and_net_are_those_of_the_powers(tmp_path: Path) -> None:
    """Otherwise the window would include the warm-up, or the idle power not be the device's."""
    found = numbers_of(found_in(trace(tmp_path)))
    assert found.inference_count == COUNT
    assert found.gross_j_per_inference == pytest.approx(WORK_W * QUERY_S, rel=1e-3)
    assert given(found.net_j_per_inference) == pytest.approx((WORK_W - IDLE_W) * QUERY_S, rel=1e-3)
    assert found.power_w_mean == pytest.approx(WORK_W, rel=1e-3)
    assert found.power_w_idle == pytest.approx(IDLE_W)
    assert found.power_w_peak == WORK_W
    assert found.energy_delay_js == pytest.approx(WORK_W * QUERY_S**2, rel=1e-3)


def test_phases_have_energies_of_their_own(tmp_path: Path) -> None:
    """Otherwise loading would be counted as warm-up."""
    phases = given(numbers_of(found_in(trace(tmp_path))).phases)
    powers = {name: phase.power_w_mean for name, phase in phases.items()}
    expected = {"load": LOAD_W, "warmup": WORK_W, "steady": WORK_W}
    assert powers == {name: pytest.approx(power, rel=5e-3) for name, power in expected.items()}
    assert phases["load"].energy_j == pytest.approx(0.9 * LOAD_W, rel=5e-3)
    assert phases["load"].u95_absolute_j is not None


def test_phase_that_is_too_short_is_told_from_one_that_was_not_recorded(tmp_path: Path) -> None:
    """Otherwise a phase outside the recording would be called too short for the meter."""
    time_ns = np.arange(3.5 * SECOND_NS, 20 * SECOND_NS, SECOND_NS // 1000).astype(np.int64)
    power = recorded(tmp_path, time_ns, steps(time_ns, LEVELS))
    found = numbers_of(found_in(power, timed=queries(0.005, 2000), first_row=1))
    phases = given(found.phases)
    assert {name: phase.is_too_short for name, phase in phases.items()} == {
        "load": False,
        "warmup": True,
        "steady": False,
    }
    assert "before the meter's recording" in given(phases["load"].refused)
    assert "window of 5 ms is too short" in given(phases["warmup"].refused)


def test_gain_counts_twice_in_nothing_and_offset_cancels_in_net(tmp_path: Path) -> None:
    """Otherwise net would be as uncertain as gross, or the comparative value include the gain."""
    # It smooths over a sample, so that no loop is in step with it.
    found = numbers_of(found_in(trace(tmp_path, of=header(smoothing_s=1e-3))))
    gain = 0.03 / 3**0.5
    assert given(found.components_j)["gain"] == pytest.approx(
        given(found.gross_j_per_inference) * gain, rel=1e-3
    )
    offset = SUPPLY_V * 1e-3 / 3**0.5 * QUERY_S
    assert given(found.components_j)["offset"] == pytest.approx(offset, rel=1e-3)
    assert given(found.net_components_j).get("offset", 0.0) < 1e-9 * offset
    assert given(found.net_components_j)["gain"] == pytest.approx(
        given(found.net_j_per_inference) * gain, rel=1e-3
    )
    # A common ratio of all energies is not in the comparative uncertainty; an offset is.
    assert given(found.u95_comparative_j) / COVERAGE == pytest.approx(offset, rel=0.05)
    assert given(found.common_j) == {
        "gain": pytest.approx(given(found.gross_j_per_inference) * gain, rel=1e-3),
        "offset": pytest.approx(offset, rel=1e-3),
    }


def test_sample_at_each_end_is_part_of_the_uncertainty(tmp_path: Path) -> None:
    """Otherwise a meter of ten samples a second would seem to know where a window ends."""
    time_ns = np.arange(0, 20 * SECOND_NS, SECOND_NS // 10)
    slow = recorded(tmp_path, time_ns, steps(time_ns, LEVELS), of=header(rate_hz=10.0))
    components = given(numbers_of(found_in(slow)).components_j)
    # The sample after the last inference is inside the window's last interval.
    expected_j = (2 / 12) ** 0.5 * 0.1 * (WORK_W - IDLE_W) / COUNT
    assert components["sampling of the window"] == pytest.approx(expected_j, rel=0.01)


def test_idle_that_changes_is_part_of_the_uncertainty(tmp_path: Path) -> None:
    """Otherwise net energy would look exact although the device is warmer afterwards."""
    time_ns = np.arange(0, 20 * SECOND_NS, SECOND_NS // 1000)
    levels = (*LEVELS[:-1], (15.0, IDLE_W + 0.5))
    power = recorded(tmp_path, time_ns, steps(time_ns, levels))
    found = numbers_of(found_in(power))
    assert found.power_w_idle_before == pytest.approx(IDLE_W)
    assert found.power_w_idle_after == pytest.approx(IDLE_W + 0.5)
    assert found.power_w_idle == pytest.approx(IDLE_W + 0.25)
    assert given(found.net_components_j)["drift of the idle"] == pytest.approx(0.5 / 2 * QUERY_S)


def test_device_that_takes_more_when_idle_has_no_net_energy(tmp_path: Path) -> None:
    """Otherwise negative joules would be printed, with their uncertainty."""
    time_ns = np.arange(0, 20 * SECOND_NS, SECOND_NS // 1000)
    busier = 2 * max(watts for _, watts in LEVELS)
    levels = ((LEVELS[0][0], busier), *LEVELS[1:-1], (LEVELS[-1][0], busier))
    found = numbers_of(found_in(recorded(tmp_path, time_ns, steps(time_ns, levels))))
    assert found.net_j_per_inference is None
    assert found.net_refused == "the device used more power while it was idle than during the run"
    assert found.power_w_idle is not None, "which says by how much"


@pytest.mark.parametrize(("more_before_w", "is_known"), [(0.0, True), (0.1, False)])
def test_net_energy_may_be_below_zero_by_its_uncertainty(
    more_before_w: float, is_known: bool, tmp_path: Path
) -> None:
    """Otherwise a model that takes next to nothing would have a net energy by chance."""
    time_ns = np.arange(0, 20 * SECOND_NS, SECOND_NS // 1000)
    levels = ((0.0, WORK_W + more_before_w), *LEVELS[1:-1], (15.0, WORK_W + 0.1))
    found = numbers_of(found_in(recorded(tmp_path, time_ns, steps(time_ns, levels))))
    assert (found.net_j_per_inference is not None) is is_known
    if is_known:
        assert found.net_j_per_inference == pytest.approx(-0.05 * QUERY_S, rel=0.01)


def with_offset(directory: Path, offset_w: float, levels: Sequence[tuple[float, float]]) -> Any:
    """What a meter with this offset records."""
    time_ns = np.arange(0, 20 * SECOND_NS, SECOND_NS // 1000)
    offset = term(Kind.OFFSET, offset_w, "of the reading", Unit.WATT)
    power_w = steps(time_ns, levels) + noise_w(time_ns)
    return recorded(directory, time_ns, power_w, of=with_term(header(), offset))


@pytest.mark.parametrize(("u95_ratio", "is_known"), [(0.88, True), (0.92, False)])
def test_energy_of_an_unknown_order_of_magnitude_is_refused(
    u95_ratio: float, is_known: bool, tmp_path: Path
) -> None:
    """Otherwise joules would be printed that may be ten times as few."""
    offset_w = u95_ratio * WORK_W * 3**0.5 / COVERAGE
    found = found_in(with_offset(tmp_path, offset_w, LEVELS))
    assert (found.gross_j_per_inference is not None) is is_known
    if is_known:
        # The offset cancels in the net energy.
        assert given(found.net_u95_absolute_j) < 0.01 * given(found.net_j_per_inference)
        # The device takes less while the model is loaded.
        refused = given(found.phases)["load"].refused
        assert refused == "energy is 1.8 ± 2.4 J, limit ± 1.62 J; largest uncertainty: offset"
    else:
        assert has_no_number(found)
        refused = "energy is 0.3 ± 0.28 J, limit ± 0.27 J; largest uncertainty: offset"
        assert (found.refused, found.refused_by) == (refused, "energy")


@pytest.mark.parametrize(("drift_ratio", "is_known"), [(0.4, True), (0.5, False)])
def test_net_energy_is_limited_by_the_gross_energy(
    drift_ratio: float, is_known: bool, tmp_path: Path
) -> None:
    """Otherwise a small difference of two powers would be refused, or an unknown one printed."""
    # The idle power drifts, but its mean is nearly that of the loop.
    before_w, after_w = (WORK_W * (1 + sign * drift_ratio) - 0.01 for sign in (-1, 1))
    levels = ((0.0, before_w), *LEVELS[1:-1], (15.0, after_w))
    found = numbers_of(found_in(with_offset(tmp_path, 1e-3, levels)))
    assert (found.net_j_per_inference is not None) is is_known
    if is_known:
        assert given(found.net_u95_absolute_j) > 10 * given(found.net_j_per_inference)
    else:
        text = given(found.net_refused)
        assert text.startswith("net energy is 0.00101 ± 0.3 J, limit ± 0.27 J, ")
        assert text.endswith("90 % of the gross energy; largest uncertainty: drift")


def test_meter_whose_error_is_not_a_number_gives_no_joules(tmp_path: Path) -> None:
    """Otherwise a supply of NaN volts would end the table of results in a traceback."""
    time_ns = np.arange(0, 20 * SECOND_NS, SECOND_NS // 1000)
    offset = term(Kind.OFFSET, 1e-3, "of a current, at a voltage that nobody told", Unit.AMPERE)
    meter = replace(with_term(header(), offset), facts={})
    power = recorded(tmp_path, time_ns, steps(time_ns, LEVELS), of=meter)
    found = found_in(power)
    assert has_no_number(found)
    assert (found.refused or "").startswith("energy is NaN")


def test_meter_with_swapped_wires_gives_no_joules(tmp_path: Path) -> None:
    """Otherwise negative energy would be printed for a run, with a battery that never ends."""
    time_ns = np.arange(0, 20 * SECOND_NS, SECOND_NS // 1000)
    found = found_in(recorded(tmp_path, time_ns, -steps(time_ns, LEVELS)))
    assert has_no_number(found)
    assert found.refused is not None
    assert found.refused.startswith("direction: -")
    assert "are reversed" in found.refused


@pytest.mark.parametrize(("rate_hz", "samples"), [(20.0, 2), (40.0, 4)])
def test_inferences_in_step_make_all_of_a_run_unsure(
    tmp_path: Path, rate_hz: float, samples: int
) -> None:
    """Otherwise one run would state both 14 % and 0.1 % as the error of one window."""
    time_ns = np.arange(0, 20 * SECOND_NS, round(SECOND_NS / rate_hz))
    power = recorded(tmp_path, time_ns, steps(time_ns, LEVELS), of=header(rate_hz=rate_hz))
    found = numbers_of(found_in(power))
    in_step_j = math.sqrt(2 / 12) / samples * (WORK_W - IDLE_W) * QUERY_S
    assert given(found.components_j)["in step of the window"] == pytest.approx(in_step_j)
    assert given(found.net_components_j)["in step of the window"] == pytest.approx(in_step_j)
    assert given(found.phases)["steady"].u95_absolute_j == pytest.approx(
        given(found.u95_absolute_j) * COUNT
    )


def test_run_without_idle_has_gross_only(tmp_path: Path) -> None:
    """Otherwise the power of some other moment would be taken for idle."""
    found = find_energy(
        run_record(None),
        worker_record(np.full(COUNT, 1000)),
        TimedQueries(queries(), WARMUP_COUNT),
        trace(tmp_path),
        SAME_CLOCK,
        EnergyRequest(meter="synthetic"),
    )
    assert found is not None
    assert numbers_of(found).net_j_per_inference is None
    net_refused = "the device was not idle before the run, or not after it"
    assert numbers_of(found).net_refused == net_refused
    assert given(numbers_of(found).phases)["load"].refused is not None


def test_idle_on_one_side_only_gives_no_net(tmp_path: Path) -> None:
    """Otherwise net energy would look more certain where less is known of the idle power."""
    found = numbers_of(found_in(trace(tmp_path, until_s=15.4)))
    assert found.net_j_per_inference is None
    assert found.net_refused is not None
    assert "beyond the meter's recording" in found.net_refused
    assert found.gross_j_per_inference == pytest.approx(WORK_W * QUERY_S, rel=1e-3)


def test_highest_sample_of_a_sum_is_not_told(tmp_path: Path) -> None:
    """Otherwise two rails that alternate would be reported to peak together."""
    time_ns = np.arange(0, 20 * SECOND_NS, SECOND_NS // 1000)
    power_w = steps(time_ns, LEVELS)
    rails = Channel("a", "pmic-rails"), Channel("b", "pmic-rails")
    meter = header(*rails, facts={"total_rails": ["a", "b"]})
    power = recorded(tmp_path, time_ns, power_w, power_w, of=with_term(meter))
    assert numbers_of(found_in(power)).power_w_peak is None


def test_rails_with_wrong_names_give_no_joules(tmp_path: Path) -> None:
    """Otherwise the energy of a run would be that of one of its rails, and trusted."""
    time_ns = np.arange(0, 20 * SECOND_NS, SECOND_NS // 1000)
    power_w = steps(time_ns, LEVELS)
    rails = Channel("VDD_IN", "module"), Channel("VDD_SOC", "rail")
    meter = with_term(header(*rails, facts={"total_rails": ["VDD_IN"]}))
    found = found_in(recorded(tmp_path, time_ns, power_w, power_w / 5, of=meter))
    assert numbers_of(found).gross_j_per_inference == pytest.approx(WORK_W * QUERY_S, rel=1e-3)
    found = found_in(recorded(tmp_path, time_ns, power_w / 5, power_w, of=meter))
    assert has_no_number(found)
    assert found.refused is not None
    assert found.refused.endswith("the names of the rails are wrong")


def test_recording_that_makes_no_sense_costs_no_latency(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a mistake in the energy would discard the latencies of a run."""

    def fail(*_: object) -> None:
        raise ValueError("zero-size array")

    power = trace(tmp_path)
    monkeypatch.setattr(PowerFile, "window", fail)
    found = found_in(power)
    assert found.refused == "energy cannot be computed: ValueError: zero-size array"


def test_window_with_a_hole_is_refused(tmp_path: Path) -> None:
    """Otherwise a gap of 0.1 % of the recording could lie in one window, unnoticed."""
    gap = Gap(10 * SECOND_NS, 10 * SECOND_NS + 15_000_000, 15, "lost")
    loss = LossReport(received_count=20_000, lost_count=15, gaps=(gap,))
    found = found_in(trace(tmp_path, loss=loss))
    assert found.refused is not None
    assert found.refused.startswith("samples are missing in 0.15 % of the window, limit 0.1 %")


def test_single_queries_are_resolved_where_the_meter_can(tmp_path: Path) -> None:
    """Otherwise each inference would have the mean energy of all, or that of its neighbour."""
    found = given(numbers_of(found_in(trace(tmp_path))).per_query)
    assert (found.count, found.refused) == (COUNT, None)
    assert found.p50_j == pytest.approx(WORK_W * QUERY_S, rel=1e-3)
    assert found.u95_edges_j is not None
    assert 0 < found.u95_edges_j < 0.01 * WORK_W * QUERY_S


def test_single_queries_have_all_of_the_meter_s_uncertainty(tmp_path: Path) -> None:
    """Otherwise only the ends would limit the accuracy, with a meter that is 3 % off."""
    found = given(numbers_of(found_in(trace(tmp_path))).per_query)
    gain_j = 2 * 0.03 / 3**0.5 * WORK_W * QUERY_S
    for u95_j in (found.p50_u95_absolute_j, found.p90_u95_absolute_j):
        assert u95_j is not None
        assert gain_j < u95_j < 1.2 * gain_j


def noise_w(time_ns: NDArray[np.int64]) -> NDArray[np.float64]:
    """Noise of 1 mW: without any, each sample of a level would be a repeated value."""
    return np.random.default_rng(1).normal(0.0, 1e-3, len(time_ns))


def test_percentiles_are_those_of_inferences(tmp_path: Path) -> None:
    """Every tenth inference takes twice as much: the 90th of 100 takes as much as the others."""
    time_ns = np.arange(0, 20 * SECOND_NS, SECOND_NS // 1000)
    number = (time_ns - queries().start_ns[0]) // round(QUERY_S * SECOND_NS)
    power_w = steps(time_ns, LEVELS) * np.where(number % 10 == 0, 2.0, 1.0) + noise_w(time_ns)
    found = given(numbers_of(found_in(recorded(tmp_path, time_ns, power_w))).per_query)
    assert found.p50_j == pytest.approx(WORK_W * QUERY_S, rel=0.02)
    assert found.p90_j == pytest.approx(WORK_W * QUERY_S, rel=0.02)


def test_inference_with_a_hole_gives_no_single_energies(tmp_path: Path) -> None:
    """Otherwise a line drawn through a gap would be the energy of an inference."""
    time_ns = np.arange(0, 20 * SECOND_NS, SECOND_NS // 1000)
    begin_ns, end_ns = 9_900_000_000, 10_000_000_000  # 49 inferences are before, 50 after
    ratios = np.select([time_ns < begin_ns, time_ns < end_ns], [1.0, 1.005], 1.01)
    levels_w = steps(time_ns, LEVELS) * ratios
    hole_ns = begin_ns + 20_000_000
    is_there = (time_ns < hole_ns) | (time_ns >= hole_ns + 8_000_000)
    gap = Gap(hole_ns - SECOND_NS // 1000, hole_ns + 8_000_000, 8, "lost")
    loss = LossReport(received_count=int(is_there.sum()), lost_count=8, gaps=(gap,))
    power = recorded(tmp_path, time_ns[is_there], levels_w[is_there], loss=loss)
    found = numbers_of(found_in(power))
    assert "samples are missing in 9.00 % of the window" in given(given(found.per_query).refused)


def test_idle_and_highest_power_have_an_uncertainty(tmp_path: Path) -> None:
    """Otherwise two of the printed powers would seem exact."""
    found = numbers_of(found_in(trace(tmp_path)))
    gain, offset_w = 0.03 / 3**0.5, SUPPLY_V * 1e-3 / 3**0.5
    idle_w = 2 * math.hypot(gain * IDLE_W, offset_w)
    assert found.power_w_idle_u95_absolute == pytest.approx(idle_w, rel=0.01)
    peak_w = 2 * math.hypot(gain * WORK_W, offset_w)
    assert found.power_w_peak_u95_absolute == pytest.approx(peak_w, rel=0.01)
    delay_js = given(found.u95_absolute_j) * QUERY_S
    assert found.energy_delay_u95_absolute_js == pytest.approx(delay_js, rel=1e-3)


def test_highest_mean_of_a_counter_has_its_step(tmp_path: Path) -> None:
    """Otherwise a counter of 6 mJ a step, read 60 times a second, would seem good to 1 %."""
    time_ns = np.arange(0, 20 * SECOND_NS, SECOND_NS // 50)
    step = UncertaintyTerm(kind=Kind.RESOLUTION, value=3.2e-3, unit=Unit.JOULE, is_common=False)
    meter = with_term(header(rate_hz=50.0), step)
    found = numbers_of(found_in(recorded(tmp_path, time_ns, steps(time_ns, LEVELS), of=meter)))
    both_ends_w = 2 * 2**0.5 * step.standard / 0.02
    assert found.power_w_peak_u95_absolute == pytest.approx(both_ends_w, rel=0.01)


def test_ends_of_single_queries_have_the_power_of_the_query(tmp_path: Path) -> None:
    """Otherwise pauses would lower the mean power, and the ends of inferences seem harmless."""
    start_ns = queries().start_ns
    end_ns = start_ns + round(QUERY_S / 2 * SECOND_NS)
    apart = replace(queries(), end_ns=end_ns)
    time_ns = np.arange(0, 20 * SECOND_NS, SECOND_NS // 1000)
    is_work = ((time_ns >= start_ns[0]) & (time_ns < 15 * SECOND_NS)) & (
        (time_ns - start_ns[0]) % round(QUERY_S * SECOND_NS) < round(QUERY_S / 2 * SECOND_NS)
    )
    power_w = np.where(is_work, WORK_W, 0.0) + noise_w(time_ns)
    found = given(numbers_of(found_in(recorded(tmp_path, time_ns, power_w), timed=apart)).per_query)
    edge_s = SAME_CLOCK.error_ns / 1e9 / 3**0.5
    assert found.u95_edges_j == pytest.approx(2 * 2**0.5 * WORK_W * edge_s, rel=0.05)


@pytest.mark.parametrize(
    ("query_s", "count", "scenario", "reason"),
    [
        (0.005, 2000, Scenario.SINGLE_STREAM, "an inference takes 5 ms, this meter"),
        (0.1, 100, Scenario.OFFLINE, "queries of the offline scenario overlap in time"),
    ],
)
def test_single_queries_are_refused_with_the_mean_kept(
    tmp_path: Path, query_s: float, count: int, scenario: Scenario, reason: str
) -> None:
    """Otherwise a 1 kHz meter would give the energy of what takes five of its samples."""
    run = found_in(trace(tmp_path), timed=queries(query_s, count), scenario=scenario)
    found = numbers_of(run)
    per_query = given(found.per_query)
    assert reason in given(per_query.refused)
    assert per_query.p50_j is None
    assert found.gross_j_per_inference == pytest.approx(WORK_W * query_s, rel=1e-2)


@pytest.mark.parametrize(("probed_s", "beyond_s"), [(0.0, 17.4), (16.0, 1.4), (20.0, 0.0)])
def test_clocks_are_known_to_the_end_of_the_last_window(
    tmp_path: Path, probed_s: float, beyond_s: float
) -> None:
    """Otherwise idle power after a long run would be looked up where the clocks were before it."""
    clock = replace(SAME_CLOCK, span_ns=round(probed_s * SECOND_NS), slope_error=1e-4)
    found = found_in(trace(tmp_path), clock=clock).sync
    assert found is not None
    assert found.error_ns == pytest.approx(SAME_CLOCK.error_ns + 1e5 * beyond_s)


def test_battery_lasts_as_long_as_its_charge(tmp_path: Path) -> None:
    """Otherwise watt-hours would be taken for joules."""
    asked = EnergyRequest(meter="synthetic", battery_capacity_j=3600.0)
    power = trace(tmp_path, of=header(smoothing_s=1e-3))  # no loop is in step with it
    battery = numbers_of(found_in(power, asked=asked)).battery
    assert battery is not None
    assert battery.inference_count == pytest.approx(3600 / (WORK_W * QUERY_S), rel=1e-3)
    assert battery.duration_s == pytest.approx(3600 / WORK_W, rel=1e-3)
    assert battery.u95_ratio == pytest.approx(2 * 0.03 / 3**0.5, rel=0.01)


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (LossReport(received_count=9, trouble="port /dev/x is gone"), "complete: port /dev/x"),
        (LossReport(received_count=9, lost_count=1), "loss: 1 sample in 0 gaps, 10.000 %"),
        (LossReport(received_count=9, saturated_count=3), "saturation: 3 samples"),
        (LossReport(received_count=0), "complete: no sample"),
        (LossReport(received_count=9, rate_error_ppm=900.0, rate_span_s=10.0), "rate: +900 ppm"),
    ],
)
def test_recording_that_cannot_be_trusted_gives_no_number(
    tmp_path: Path, loss: LossReport, reason: str
) -> None:
    """Otherwise a meter that was unplugged would still give joules."""
    found = found_in(trace(tmp_path, loss=loss))
    assert has_no_number(found)
    assert found.refused is not None
    assert found.refused.startswith(reason)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"clock": None}, f"{UNALIGNED}; probes: the device's clock was not probed"),
        (
            {"timed": queries(1e-6), "clock": replace(SAME_CLOCK, error_ns=0.0)},
            "window of 100 µs is too short: this meter needs 20 ms",
        ),
        (
            {"first_row": WARMUP_COUNT + COUNT - 1, "clock": replace(SAME_CLOCK, error_ns=1e7)},
            "window of 100 ms is too short: this meter, synchronised to 10 ms, needs 200 ms; "
            "the first 9.9 s of the loop were not steady",
        ),
        (
            {"clock": replace(SAME_CLOCK, offset_ns=5e9)},
            "window begins 4 s before the meter's recording",
        ),
        (
            {"asked": EnergyRequest(meter="synthetic", sync=SyncMethod.CODED_LOAD)},
            f"{UNALIGNED}; coded_load: the device played no load code",
        ),
        (
            {"asked": EnergyRequest(meter="synthetic", sync=SyncMethod.ARRIVAL)},
            f"{UNALIGNED}; arrival: not applicable to a meter with the clock host:monotonic",
        ),
    ],
)
def test_window_that_cannot_be_aligned_with_the_trace_is_refused(
    tmp_path: Path, changes: dict[str, Any], reason: str
) -> None:
    """Otherwise the energy of some other part of the recording would be printed."""
    time_ns = np.arange(4 * SECOND_NS, 20 * SECOND_NS, SECOND_NS // 1000)
    found = found_in(recorded(tmp_path, time_ns, steps(time_ns, LEVELS)), **changes)
    assert has_no_number(found)
    assert found.refused is not None
    assert reason in found.refused


def test_recording_that_is_not_there_says_what_the_agent_said() -> None:
    """Otherwise the reason given by the device would be discarded."""
    gone = MeterFacts("rapl", "no RAPL zone")
    assert found_in(None, metered=gone).refused == "no RAPL zone"
    said = "the recording is on the host that started the run, where the meter was connected"
    assert found_in(None).refused == said


def test_rails_that_add_up_are_added(tmp_path: Path) -> None:
    """Otherwise one rail of the device would be taken for all of it."""
    time_ns = np.arange(0, 20 * SECOND_NS, SECOND_NS // 1000)
    power_w = steps(time_ns, LEVELS)
    rails = Channel("a", "pmic-rails"), Channel("b", "pmic-rails")
    meter = header(*rails, facts={"total_rails": ["a", "b"]})
    power = recorded(tmp_path, time_ns, power_w, 2 * power_w, of=with_term(meter))
    found = found_in(power)
    assert numbers_of(found).gross_j_per_inference == pytest.approx(3 * WORK_W * QUERY_S, rel=1e-3)
    assert found.boundary == "pmic-rails"


def test_rails_of_which_nobody_knows_the_sum_are_refused(tmp_path: Path) -> None:
    """Otherwise the alphabetically first rail would be printed as the device's energy."""
    time_ns = np.arange(0, 20 * SECOND_NS, SECOND_NS // 1000)
    power_w = steps(time_ns, LEVELS)
    meter = header(Channel("a", "rail"), Channel("b", "rail"), facts={})
    found = found_in(recorded(tmp_path, time_ns, power_w, power_w, of=meter))
    assert found.refused == "it is unknown which of these rails supply the device: a, b"


def test_meter_of_the_agent_has_the_device_s_clock(tmp_path: Path) -> None:
    """Otherwise probes would move the window of a meter that has the device's own times."""
    found = found_in(trace(tmp_path), clock=None, metered=MeterFacts("rapl"))
    assert found.sync is not None
    assert found.sync.method is SyncMethod.SHARED_CLOCK
    assert numbers_of(found).gross_j_per_inference == pytest.approx(WORK_W * QUERY_S, rel=1e-3)


def test_clock_of_the_host_is_converted(tmp_path: Path) -> None:
    """Otherwise a device clock that is hours ahead would give another time's energy, or none."""
    ahead_ns = 7.2e12
    clock = replace(SAME_CLOCK, offset_ns=-ahead_ns, slope=0.0)
    time_ns = np.arange(0, 20 * SECOND_NS, SECOND_NS // 1000)
    power = recorded(tmp_path, time_ns + int(ahead_ns), steps(time_ns, LEVELS))
    found = numbers_of(found_in(power, clock=clock))
    assert found.gross_j_per_inference == pytest.approx(WORK_W * QUERY_S, rel=1e-3)
