"""Recordings that cannot be true, as a whole and in a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.energy import SECOND_NS, header, recorded
from support.energy_simulation import (
    Outcome,
    SimulatedDevice,
    SimulatedFile,
    SimulatedMeter,
    simulate_file,
)

from edgebench.host.analysis.energy.integrate import Floats
from edgebench.host.analysis.energy.plausible.bounds import ceiling_w, peak_w, refused_power
from edgebench.host.analysis.energy.plausible.idle import far_below_idle
from edgebench.host.analysis.energy.plausible.screen import Screening, screen
from edgebench.host.result.reasons.table import text_of
from edgebench.host.store.power import write_blocks
from edgebench.host.store.power_file import PowerFile
from edgebench.meters.base import Channel, LossReport, SampleBlock
from edgebench.meters.uncertainty import CurrentLimit
from edgebench.protocol.thermal import ExpectedPower

SBC = ExpectedPower("linux-sbc", 0.01, 240.0)
SECONDS = 4
TIMES_NS = np.arange(0, SECONDS * SECOND_NS, SECOND_NS // 2000)
PACKAGE = Channel("package-0", "package")


def powers(noise_w: float = 5e-3) -> Floats:
    """Idle, loop and idle of a device, a second, two and a second."""
    power_w = np.where(np.abs(TIMES_NS - 2 * SECOND_NS) < SECOND_NS, 2.0, 0.5)
    noisy_w: Floats = power_w + np.random.default_rng(3).normal(0, noise_w, len(TIMES_NS))
    return noisy_w


def screened(directory: Path, power_w: Floats, **changes: bool) -> Screening[PowerFile]:
    """The recording of a device on this board."""
    directory.mkdir(exist_ok=True)
    return screen(recorded(directory, TIMES_NS, power_w), SBC, **changes)


def failed(screening: Screening[PowerFile]) -> dict[str, str]:
    """The checks that fail, with their texts."""
    return {check.id: check.detail for check in screening.checks if check.is_passed is False}


def test_good_recording_has_no_remark(tmp_path: Path) -> None:
    """Otherwise each page of a run would list checks that found nothing."""
    power = recorded(tmp_path, TIMES_NS, powers())
    screening = screen(power, SBC, is_loaded=True)
    assert screening == Screening(power)


def test_single_peak_that_no_board_takes_is_left_out(tmp_path: Path) -> None:
    """Otherwise a counter that wraps early would add a megawatt to a run."""
    power_w = powers()
    power_w[4000] = 1.25e6
    screening = screened(tmp_path, power_w)
    assert failed(screening) == {}
    [check] = screening.checks
    assert check.detail.startswith("1 sample left out: power of up to 1.25 MW, limit 2.4 kW")
    window = screening.power.window("supply", 0, int(TIMES_NS[-1]))
    assert window.energy_j / window.duration_s == pytest.approx(1.25, rel=0.01)
    assert window.missing_s == pytest.approx(1e-3)
    assert window.power_w_span < 2


def test_counter_that_wraps_early_refuses_a_slow_recording(tmp_path: Path) -> None:
    """Otherwise 9 s of it would have 120 kJ."""
    times_ns = np.arange(0, 9 * SECOND_NS, SECOND_NS // 10)
    power_w = np.full(len(times_ns), 6.0) + np.random.default_rng(1).normal(0, 0.01, len(times_ns))
    power_w[70] = 1.25e6
    assert "limit 36.8 kW" in failed(screen(recorded(tmp_path, times_ns, power_w)))["plausible"]


def test_held_values_refuse_a_recording(tmp_path: Path) -> None:
    """Otherwise half a second of a program that hung would count as measured."""
    power_w = powers()
    power_w[4000:4100] = power_w[4000]
    assert (
        "99 samples left out: up to 100 in a row"
        in failed(screened(tmp_path, power_w))["plausible"]
    )


def test_end_of_the_range_refuses_a_recording(tmp_path: Path) -> None:
    """Otherwise a source that ends at 1.8 of 2 W would have an uncertainty of 0.1 %."""
    clipped_w = np.minimum(powers(), 1.8)
    found = failed(screened(tmp_path, clipped_w))
    assert "in a row at the highest value, up to 1.8 W" in found["saturation"]


def test_end_of_the_range_is_found_in_a_current_beside_a_noisy_voltage(tmp_path: Path) -> None:
    """Otherwise the noise of the voltage would hide that the current stands still."""
    current_a = np.minimum(powers(), 1.8) / 5
    voltage_v = 5 + np.random.default_rng(4).normal(0, 1e-3, len(TIMES_NS))
    block = SampleBlock(
        channel=0,
        index0=0,
        time_ns=TIMES_NS,
        power_w=current_a * voltage_v,
        flags=np.zeros(len(TIMES_NS), np.uint8),
        current_a=current_a,
        voltage_v=voltage_v,
    )
    write_blocks(tmp_path, header(), [block], lambda: LossReport(received_count=len(TIMES_NS)))
    assert "saturation" in failed(screen(PowerFile.open(tmp_path), SBC))


def test_counter_has_no_end_of_its_range(tmp_path: Path) -> None:
    """Otherwise a counter, which has less noise under a steady load, would count as clipped."""
    clipped_w = np.minimum(powers(), 1.8)
    power = recorded(tmp_path, TIMES_NS, clipped_w, of=header(PACKAGE, is_counter=True))
    assert failed(screen(power, SBC)) == {}


def test_instrument_with_ranges_is_not_searched_for_their_ends(tmp_path: Path) -> None:
    """Otherwise the larger steps of a higher range would count as its end."""
    limits = (CurrentLimit(limit_a=0.1, range=0), CurrentLimit(limit_a=1.0, range=1))
    meter = header(current_limits=limits)
    power = recorded(tmp_path, TIMES_NS, np.minimum(powers(), 1.8), of=meter)
    assert failed(screen(power, SBC)) == {}


def test_mean_over_half_a_second_is_no_inrush() -> None:
    """Otherwise a counter that jumps by 2^32 uJ would add 8.6 kW to a computer of 3.68 kW."""
    pc = ExpectedPower("linux-pc", 0.01, 3680.0)
    assert peak_w(header(rate_hz=2.0, is_averaging=True).capability, pc) == 3680.0
    assert peak_w(header(rate_hz=2.0).capability, pc) == 36_800.0
    assert peak_w(header(rate_hz=1000.0, is_averaging=True).capability, pc) == 36_800.0


@pytest.mark.parametrize("offset_w", [0.0, -0.001])
def test_reversed_power_is_named(tmp_path: Path, offset_w: float) -> None:
    """Otherwise the load code would not be found, for a reason that no user could guess."""
    found = failed(screened(tmp_path, offset_w - powers(), is_loaded=True))
    assert "the meter's wires are reversed" in found["direction"]


def test_negative_offset_is_not_reversed(tmp_path: Path) -> None:
    """Otherwise the offset of a meter would count as swapped wires."""
    assert failed(screened(tmp_path, powers() - 0.52, is_loaded=True)) == {}


def test_source_that_never_changes_under_load_is_dead(tmp_path: Path) -> None:
    """Otherwise a counter that stands still would give 0 J per inference ±0 J."""
    still = np.full(len(TIMES_NS), 2.0)
    assert (
        "the source does not measure this device"
        in failed(screened(tmp_path / "run", still, is_loaded=True))["plausible"]
    )
    assert failed(screened(tmp_path / "session", still)) == {}, "it may be a steady load"


def test_processor_never_takes_nothing(tmp_path: Path) -> None:
    """Otherwise a recording of a dead counter would be trusted."""
    still = np.zeros(len(TIMES_NS))
    power = recorded(tmp_path, TIMES_NS, still, of=header(PACKAGE))
    assert "energy counter does not advance" in failed(screen(power))["plausible"]
    assert failed(screened(tmp_path / "board", still)) == {}, "the board may be off"


@pytest.mark.parametrize(
    ("boundary", "voltage_v", "is_passed"),
    [
        ("board", 20.0, True),
        ("board", 20_000.0, False),
        ("wall", 200.0, True),
        ("board", 200.0, False),
        ("wall", 20_000.0, False),
    ],
)
def test_power_is_compared_with_voltage_times_current(
    tmp_path: Path, boundary: str, voltage_v: float, is_passed: bool
) -> None:
    """Otherwise milliwatts would be taken for watts although the same chip shows the error.

    At a wall, the power factor may be low.
    """
    power_w = powers()
    block = SampleBlock(
        channel=0,
        index0=0,
        time_ns=TIMES_NS,
        power_w=power_w,
        flags=np.zeros(len(TIMES_NS), np.uint8),
        current_a=power_w / 20,
        voltage_v=np.full(len(TIMES_NS), voltage_v),
    )
    meter = header(Channel("supply", boundary))
    write_blocks(tmp_path, meter, [block], lambda: LossReport(received_count=len(TIMES_NS)))
    found = failed(screen(PowerFile.open(tmp_path)))
    assert ("redundancy" not in found) is is_passed
    if not is_passed:
        assert "but its voltage times its current is" in found["redundancy"]


@pytest.mark.parametrize(
    ("power_w", "boundary", "said"),
    [
        (2.0, "board", None),
        (60.0, "module", None),
        (0.002, "board", "1000 times this power, 2 W, would be plausible"),
        (2000.0, "not stated", "1/1000 of this power, 2 W, would be plausible"),
        (600.0, "wall", "1/1000 of this power, 600 mW, would be plausible"),
        (0.002, "rail", None),
        (0.006, "package", "1000 times this power, 6 W, would be plausible"),
        (0.15, "GPU board", "1000 times this power, 150 W, would be plausible"),
        (2000.0, "synthetic", None),
    ],
)
def test_power_that_no_board_takes_is_refused_with_the_factor(
    power_w: float, boundary: str, said: str | None
) -> None:
    """Otherwise a column in mW that holds W would be off by 99.9 % with an uncertainty of 0 %."""
    reason = refused_power(power_w, boundary, SBC)
    if said is None:
        assert reason is None
    else:
        assert reason is not None
        assert said in text_of([reason])


def test_unknown_board_takes_no_more_than_an_outlet() -> None:
    """Otherwise runs of older agents would have no bound at all."""
    assert refused_power(1e-5, "board", None) is None
    assert refused_power(4000.0, "board", None) is not None


def test_saturated_sample_is_bounded_by_the_board(tmp_path: Path) -> None:
    """Otherwise a sample at the end of a range would add nothing to the uncertainty."""
    loss = LossReport(received_count=300_000, saturated_count=1)
    power = recorded(tmp_path, TIMES_NS, powers(), loss=loss)
    assert ceiling_w(power, SBC) == 240.0
    bounded = replace(loss, bounded_count=1)
    assert ceiling_w(recorded(tmp_path, TIMES_NS, powers(), loss=bounded), SBC) == 0.0


def test_only_samples_far_below_the_idle_power_are_left_out(tmp_path: Path) -> None:
    """Otherwise the noise of an idle device would be cut off, and its energy be too high."""
    power_w = powers(noise_w=0.1)
    power_w[4000:4100] = 0.0
    power = recorded(tmp_path, TIMES_NS, power_w)
    idles_ns = [(0, SECOND_NS - 1), (3 * SECOND_NS, int(TIMES_NS[-1]))]
    found_ns, idle_w = far_below_idle(power, "supply", idles_ns, int(TIMES_NS[-1]))
    assert found_ns.size == 0, "noise of 0.1 W may be as low as 0"
    power_w = powers()
    power_w[4000:4100] = 0.01
    power = recorded(tmp_path, TIMES_NS, power_w)
    found_ns, idle_w = far_below_idle(power, "supply", idles_ns, int(TIMES_NS[-1]))
    assert list(found_ns) == list(TIMES_NS[4000:4100])
    assert idle_w == pytest.approx(0.5, rel=0.01)


def test_source_that_stops_in_the_loop_is_compared_with_the_idle_power_before(
    tmp_path: Path,
) -> None:
    """Otherwise a counter that stops would lower the idle power after the run to 0, too."""
    power_w = powers()
    power_w[4000:] = 0.0
    power = recorded(tmp_path, TIMES_NS, power_w)
    idles_ns = [(0, SECOND_NS - 1), (3 * SECOND_NS, int(TIMES_NS[-1]))]
    found_ns, _ = far_below_idle(power, "supply", idles_ns, int(TIMES_NS[-1]))
    assert list(found_ns) == list(TIMES_NS[4000:])


def spoilt_file(monkeypatch: pytest.MonkeyPatch, zero_s: float) -> Outcome:
    """A run with a file in which so much time is zero."""
    from support import energy_simulation

    sampled = energy_simulation._sampled

    def with_zeros(*arguments: object) -> tuple[Floats, Floats]:
        at_s, power_w = sampled(*arguments)  # type: ignore[arg-type]
        middle = len(power_w) // 2
        power_w[middle : middle + round(2000 * zero_s)] = 0.0
        return at_s, power_w

    monkeypatch.setattr(energy_simulation, "_sampled", with_zeros)
    device, meter = SimulatedDevice(duration_s=2.0), SimulatedMeter(rate_hz=2000.0)
    outcome = simulate_file(device, meter, SimulatedFile(gain_ratio=0.001), 1)
    assert isinstance(outcome, Outcome), outcome
    return outcome


@pytest.mark.parametrize(("zero_s", "is_refused"), [(0.0015, False), (0.05, True)])
def test_zeros_in_a_run_are_missing_samples(
    monkeypatch: pytest.MonkeyPatch, zero_s: float, is_refused: bool
) -> None:
    """Otherwise 400 ms of zeros would make an energy 10 % too low, with an uncertainty of 0.1 %."""
    outcome = spoilt_file(monkeypatch, zero_s)
    assert outcome.is_refused is is_refused
    if is_refused:
        assert "100 samples left out: power as low as 0 W, far below the idle power" in (
            outcome.energy.refused or ""
        )
    else:
        assert outcome.is_inside
