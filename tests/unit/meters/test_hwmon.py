"""Power monitors by hwmon, on made-up /sys trees."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.boards import BOARDS, make_board
from support.rounds import (
    Ticks,
    breaking,
    close_to_users,
    make_folder,
    nothing,
    opened,
    record,
    refused,
    writing,
)
from support.tools import need_shared

from edgebench.meters.base import Capability, Channel, Flag, Header, MeterInfo
from edgebench.meters.chips import CHIPS
from edgebench.meters.fitted_chip import FittedChip
from edgebench.meters.hwmon import HwmonMeter
from edgebench.meters.polled import number
from edgebench.meters.rail_decoder import RailDecoder, RailPlan
from edgebench.meters.rails import LEFT_OUT, RATE_MAX_HZ
from edgebench.meters.registry import find_meter
from edgebench.meters.uncertainty import Kind, Origin, UncertaintyTerm, Unit
from edgebench.protocol.plain import to_plain

INA226 = {
    "name": "ina226",
    "shunt_resistor": 100000,
    "update_interval": 35,
    "in1_input": 5012,
    "curr1_input": 123,
    "power1_input": 616875,
}


COUNTER = Kind.RESOLUTION, Unit.JOULE


def chip(root: Path, files: Mapping[str, object], number: int = 3, device: str = "") -> Path:
    """A chip under a made-up /sys; with a device, at that address of the bus."""
    folder = make_folder(root / f"sys/class/hwmon/hwmon{number}", files)
    if device:
        place = make_folder(root / f"sys/bus/i2c/devices/{device}", {})
        (folder / "device").symlink_to(place)
    return folder


def rail_files(number: int, label: str, mv: int = 5000, ma: int = 200) -> dict[str, object]:
    """One channel of an INA3221."""
    return {
        f"in{number}_label": label,
        f"in{number}_enable": 1,
        f"in{number}_input": mv,
        f"curr{number}_input": ma,
        f"shunt{number}_resistor": 5000,
    }


def term(header: Header, kind: Kind, unit: Unit) -> UncertaintyTerm:
    """The only term of a kind."""
    (found,) = [one for one in header.uncertainty if (one.kind, one.unit) == (kind, unit)]
    return found


@pytest.fixture
def clock() -> Ticks:
    return Ticks()


def test_known_answer_of_an_ina226(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise power would be computed from whole milliamperes despite a better chip value."""
    known = json.loads(need_shared("known_answers/energy.json").read_text())["I_hwmon_ina226"]
    folder = chip(tmp_path, known["definition"]["files"])
    header = opened(HwmonMeter(tmp_path))
    step = term(header, Kind.RESOLUTION, Unit.WATT)
    assert step.standard == pytest.approx(known["expected"]["u_power1_quantisation_W"])
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "power", [nothing, nothing], every_s=1)(0)
    assert list(found.power_w) == pytest.approx([known["expected"]["power1_input_W"]] * 2)
    (folder / "power1_input").unlink()
    step = term(opened(HwmonMeter(tmp_path)), Kind.RESOLUTION, Unit.WATT)
    assert step.standard == pytest.approx(known["expected"]["u_power_quantisation_from_curr_W"])
    found = record(meter, clock, tmp_path / "product", [nothing, nothing], every_s=1)(0)
    assert list(found.power_w) == pytest.approx([known["expected"]["power_from_v_times_i_W"]] * 2)


def test_step_of_an_old_kernel_is_the_coarse_one() -> None:
    """Otherwise a value in steps of 25 mW would claim to be good to 0.6 mW."""
    fitted = FittedChip(chip=CHIPS["ina226"], shunt_ohm=0.1, voltage_v=5.0)
    assert fitted.power_step_w(0.616875) == pytest.approx(0.000625)
    assert fitted.power_step_w(0.625) == pytest.approx(0.025)
    ina219 = FittedChip(chip=CHIPS["ina219"], shunt_ohm=0.1, voltage_v=5.0)
    assert ina219.power_step_w(0.602) == pytest.approx(0.002), "20 times 100 uA"
    ina260 = FittedChip(chip=CHIPS["ina260"], shunt_ohm=0.002, voltage_v=5.0)
    assert ina260.power_step_w(0.620) == pytest.approx(0.010), "8 times 1.25 mA"


def test_energy_counter_is_preferred(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise an integrating chip would be sampled, missing what is between two samples."""
    folder = chip(tmp_path, {**INA226, "name": "ina228", "energy1_input": 1_000_000})
    changes = [nothing, *(writing(folder, energy1_input=n) for n in (3_000_000, 3_500_000))]
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=1)(0)
    assert list(found.power_w) == pytest.approx([2.0, 0.5], rel=1e-4)
    assert opened(meter).capability.is_averaging
    assert found.begin_ns[1] == found.time_ns[0]


def test_energy_counter_that_begins_anew_is_no_energy(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise a chip that lost its supply would give minus a kilojoule, or a made-up wrap."""
    folder = chip(tmp_path, {**INA226, "name": "sq52206", "energy1_input": 9_000_000_000})
    changes = [nothing, *(writing(folder, energy1_input=n) for n in (5, "", 4_000_005))]
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=1)(0)
    assert list(found.flags) == [Flag.MISSING, Flag.MISSING, Flag.NONE]
    assert found.power_w[2] == pytest.approx(2.0, rel=1e-4), "over both seconds"


def test_energy_counter_with_nothing_new_is_no_zero(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise a device would take no power between two updates, and twice as much after."""
    folder = chip(tmp_path, {**INA226, "energy1_input": 0})
    changes = [nothing, nothing, writing(folder, energy1_input=40_000)]
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=0.02)(0)
    assert list(found.power_w) == pytest.approx([1.0], rel=1e-3)


# Of the family of ina238.c, whose driver has no file for the shunt.
INA228 = {
    "name": "ina228",
    "in0_input": 1,
    "in1_input": 5012,
    "curr1_input": 200,
    "power1_input": 1_002_400,
    "energy1_input": 0,
}


def tell(folder: Path, **cells: int) -> None:
    """Write a chip's entries of the device tree."""
    node = make_folder(folder / "device/of_node", {})
    for name, value in cells.items():
        (node / name.replace("_", "-").replace("ti-", "ti,")).write_bytes(value.to_bytes(4, "big"))


@pytest.mark.parametrize(
    ("name", "told", "file", "below", "end"),
    [
        # Newer kernels make 62 uA of a step of 62.5, so 32505 mA is the highest that they show.
        ("ina228", {"shunt_resistor": 5000}, "curr1_input", 32_400, 32_505),
        ("ina228", {"shunt_resistor": 5000}, "curr1_input", -32_400, -32_767),
        ("ina228", {"shunt_resistor": 5000, "ti_shunt_gain": 1}, "curr1_input", 7_800, 7_864),
        ("sq52206", {"shunt_resistor": 5000, "ti_shunt_gain": 2}, "curr1_input", 16_360, 16_383),
        ("sq52206", {}, "in0_input", 160, 163),
        ("ina228", {}, "in0_input", -160, -164),
        ("ina228", {"ti_shunt_gain": 1}, "in0_input", 39, 40),
        ("ina780", {}, "curr1_input", 78_000, 78_641),
    ],
)
def test_counter_whose_converter_is_at_its_end_is_saturated(
    tmp_path: Path, clock: Ticks, name: str, told: dict[str, int], file: str, below: int, end: int
) -> None:
    """Otherwise a counter of clipped values would give a low energy, and it would be trusted."""
    folder = chip(tmp_path, {**INA228, "name": name})
    tell(folder, **told)
    seen = [(below, 0), (below, 1), (end, 2), (below, 3)]
    changes = [
        *(writing(folder, **{file: at, "energy1_input": n * 10_000_000}) for at, n in seen),
    ]
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=1)(0)
    assert list(found.flags) == [Flag.NONE, Flag.SATURATED, Flag.NONE]
    power_w = -10.0 if below < 0 and file == "curr1_input" else 10.0
    assert list(found.power_w) == pytest.approx([power_w] * 3, rel=1e-4)
    assert found.loss.saturated_count == 1
    limits = opened(meter).capability.current_limits
    assert bool(limits) == (file == "curr1_input")
    assert all("only at each reading" in limit.reference for limit in limits)


@pytest.mark.parametrize(("name", "gain"), [("ina219", 8), ("ina226", 1), ("ina780", 1)])
def test_gain_that_no_kernel_sets_changes_nothing(tmp_path: Path, name: str, gain: int) -> None:
    """Otherwise a device-tree line for other chips would double a range, and hide its end."""
    limits: list[float] = []
    for told in ({}, {"ti_shunt_gain": gain}):
        root = tmp_path / str(len(told))
        tell(chip(root, {**INA226, "name": name}), **told)
        (limit,) = opened(HwmonMeter(root)).capability.current_limits
        limits.append(limit.limit_a)
    assert limits[0] == limits[1]


def test_clipping_that_is_seen_with_nothing_new_is_of_the_next_mean(
    tmp_path: Path, clock: Ticks
) -> None:
    """Otherwise every second reading of a chip would belong to no mean, and be forgotten."""
    folder = chip(tmp_path, INA228)
    tell(folder, shunt_resistor=5000)
    changes = [
        nothing,
        writing(folder, energy1_input=40_000),
        writing(folder, curr1_input=32_767),
        writing(folder, curr1_input=200, energy1_input=80_000),
        writing(folder, energy1_input=120_000),
    ]
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=0.02)(0)
    assert list(found.flags) == [Flag.NONE, Flag.SATURATED, Flag.NONE]
    assert list(found.power_w) == pytest.approx([2.0, 1.0, 2.0], rel=1e-3), "one mean of 40 ms"


def test_counter_without_a_current_says_what_it_does_not_see(tmp_path: Path) -> None:
    """Otherwise a user who reads the meter's description would trust in an unwatched peak."""
    folder = chip(tmp_path, INA228)
    assert "are not detected" not in term(opened(HwmonMeter(tmp_path)), *COUNTER).reference
    (folder / "curr1_input").unlink()
    header = opened(HwmonMeter(tmp_path))
    assert "values beyond its range are not detected" in term(header, *COUNTER).reference
    assert header.capability.current_limits == ()


def test_counter_has_the_sign_of_the_current(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise a battery's charge would count as its discharge: the counters have no sign."""
    folder = chip(tmp_path, INA228)
    seen = [(200, 1), (-200, 2), (-200, 3)]
    changes = [
        nothing,
        *(writing(folder, curr1_input=a, energy1_input=n * 50_000) for a, n in seen),
    ]
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "short", changes, every_s=0.05)(0)
    assert list(found.power_w) == pytest.approx([1.0, -1.0, -1.0], rel=1e-3)
    writing(folder, curr1_input=200, energy1_input=0)()
    found = record(meter, clock, tmp_path / "long", changes, every_s=1)(0)
    assert list(found.flags) == [Flag.NONE, Flag.MISSING, Flag.NONE], "it turned in that second"
    assert list(found.power_w[[0, 2]]) == pytest.approx([0.05, -0.05], rel=1e-3)
    assert found.begin_ns[1] == found.time_ns[0]


def test_late_reading_of_a_counter_turns_no_current(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise each failed read would hide reversed wires, and turn the sign of energy."""
    folder = chip(tmp_path, {**INA228, "curr1_input": -200})
    changes = [
        nothing,
        writing(folder, energy1_input=50_000),
        writing(folder, energy1_input=""),
        writing(folder, energy1_input=""),
        writing(folder, energy1_input=200_000),
        nothing,
        writing(folder, energy1_input=250_000),
    ]
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=0.05)(0)
    assert list(found.flags) == [Flag.NONE, *2 * [Flag.MISSING], *3 * [Flag.NONE]]
    assert list(found.power_w[[0, 3]]) == pytest.approx([-1.0, -1.0], rel=1e-3)
    assert not (found.power_w > 0).any()


def test_nothing_counted_has_no_direction(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise the zeros of a device that is off, with a current about zero, would be unknown."""
    folder = chip(tmp_path, {**INA228, "curr1_input": 1})
    changes = [nothing, writing(folder, curr1_input=-1), writing(folder, curr1_input=1)]
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=1)(0)
    assert list(found.flags) == [Flag.NONE] * 2
    assert list(found.power_w) == [0.0] * 2


@pytest.mark.parametrize(
    ("name", "told", "step_j"),
    [
        # 16 times the step of power; 0.2 V (0.24 V) of a step of current, by a calibration of
        # older kernels four times as coarse.
        ("ina228", {"shunt_resistor": 5000}, 4 * 16 * 0.2 * 5e-6 / 0.005),
        ("sq52206", {"shunt_resistor": 5000}, 4 * 16 * 0.24 * 5e-6 / 0.005),
        ("ina228", {"shunt_resistor": 5000, "ti_shunt_gain": 1}, 16 * 0.2 * 5e-6 / 0.005),
        ("ina780", {}, 16 * 0.2 * 2.4e-3),
    ],
)
def test_counter_is_no_better_than_its_step(
    tmp_path: Path, name: str, told: dict[str, int], step_j: float
) -> None:
    """Otherwise a counter with steps of 13 mJ would claim to resolve a micro-joule."""
    tell(chip(tmp_path, {**INA228, "name": name}), **told)
    step = term(opened(HwmonMeter(tmp_path)), *COUNTER)
    assert step.value == pytest.approx(step_j / 2)
    assert not step.is_common


def test_shunt_of_the_device_tree_is_told(tmp_path: Path) -> None:
    """Otherwise the offset would assume a resistor, though the board describes its own."""
    folder = chip(tmp_path, INA228)
    unknown = term(opened(HwmonMeter(tmp_path)), Kind.OFFSET, Unit.WATT)
    assert unknown.origin is Origin.ASSUMED
    assert "across 0.0025 ohm" in unknown.reference, "the least that a kernel takes"
    tell(folder, shunt_resistor=2000)
    known = term(opened(HwmonMeter(tmp_path)), Kind.OFFSET, Unit.WATT)
    assert "shunt unknown" not in known.reference
    assert known.value == pytest.approx(5e-6 / 0.002 * 5.012)
    (folder / "device/of_node/shunt-resistor").write_bytes(b"2000")
    (folder / "device/of_node/shunt-resistor").write_bytes(b"20000")
    assert "shunt unknown" in term(opened(HwmonMeter(tmp_path)), Kind.OFFSET, Unit.WATT).reference


def test_power_of_a_chip_without_a_known_shunt_is_saturated_too(
    tmp_path: Path, clock: Ticks
) -> None:
    """Otherwise a clipped peak would go unnoticed, as the range in A is unknown."""
    files = {k: v for k, v in INA228.items() if k != "energy1_input"}
    folder = chip(tmp_path, {**files, "name": "ina238"})
    changes = [nothing, *(writing(folder, in0_input=mv) for mv in (164, -163, 150))]
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=1)(0)
    assert list(found.flags) == [Flag.NONE, Flag.SATURATED, Flag.SATURATED, Flag.NONE]
    assert list(found.current_a) == pytest.approx([0.2] * 4)


def test_power_has_the_sign_of_the_current(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise power that flows back would count as taken: the power register has no sign."""
    folder = chip(tmp_path, INA226)
    changes = [nothing, writing(folder, curr1_input=-123), writing(folder, curr1_input=0)]
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=1)(0)
    assert list(found.power_w) == pytest.approx([0.616875, -0.616875, 0.616875])
    assert list(found.current_a) == pytest.approx([0.123, -0.123, 0.0])


def test_same_value_is_a_duplicate_only_while_it_cannot_be_new(
    tmp_path: Path, clock: Ticks
) -> None:
    """Otherwise a steady load would pass for a stuck chip, or a conversion count twice."""
    folder = chip(tmp_path, INA226)
    changes = [nothing, nothing, nothing, writing(folder, power1_input=616250), nothing]
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=0.0175)(0)
    again, new = Flag.DUPLICATE, Flag.NONE
    assert list(found.flags) == [new, again, new, new, again]


def test_chip_that_goes_away_is_missing_and_counted(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise an unplugged module would read as 0 W, or as its last value for ever."""
    chip(tmp_path, INA226)
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    gone = [lambda: breaking(meter, 0)(), nothing]
    every_s = 1 / opened(meter).capability.rate_hz
    path = tmp_path / "recording"
    found = record(meter, clock, path, [nothing, *gone], every_s=every_s)(0)
    assert list(found.flags) == [Flag.NONE, Flag.MISSING, Flag.MISSING]
    assert math.isnan(found.power_w[1])
    assert (found.loss.received_count, found.loss.lost_count) == (1, 2)


@pytest.mark.parametrize("content", ["", "-", "0x10", "12.5", "\0\0", "nan", "9" * 5000])
def test_content_that_is_no_number_is_missing(tmp_path: Path, clock: Ticks, content: str) -> None:
    """Otherwise garbage from a driver would end the session in a traceback, or be a value."""
    folder = chip(tmp_path, INA226)
    changes = [nothing, writing(folder, power1_input=content), writing(folder, power1_input=625)]
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=1)(0)
    assert list(found.flags) == [Flag.NONE, Flag.MISSING, Flag.NONE]


def test_current_at_the_end_of_the_converter_is_saturated(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise a clipped peak would be trusted, as the end is never quite full scale."""
    folder = chip(tmp_path, INA226)
    changes = [nothing, *(writing(folder, curr1_input=ma) for ma in (819, -819, 810))]
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=1)(0)
    assert list(found.flags) == [Flag.NONE, Flag.SATURATED, Flag.SATURATED, Flag.NONE]
    assert found.loss.saturated_count == 2


@pytest.mark.parametrize("name", sorted(CHIPS))
@pytest.mark.parametrize("shunt_uohm", [100_000, 50_000, 5_000, 2_000, 1_000])
def test_highest_value_of_every_chip_is_saturated(
    tmp_path: Path, name: str, shunt_uohm: int
) -> None:
    """A chip clips at a code that is one step, or a kernel's rounding, below the limit."""
    highest_ma = highest_readings_ma(name, shunt_uohm)
    currents_ma = [*highest_ma, math.floor(min(highest_ma) * 0.99)]
    flags = flags_of(tmp_path, name, shunt_uohm, currents_ma)
    assert flags == [Flag.SATURATED] * len(highest_ma) + [Flag.NONE], currents_ma


@given(st.sampled_from(sorted(CHIPS)), st.integers(500, 300_000))
def test_highest_value_is_saturated_with_any_shunt(name: str, shunt_uohm: int) -> None:
    """Otherwise a shunt that is no divisor of the step would clip unnoticed below the limit."""
    limit_a = FittedChip(
        chip=CHIPS[name], shunt_ohm=CHIPS[name].shunt_ohm or shunt_uohm * 1e-6, voltage_v=5.0
    ).sysfs_limit_a
    assert limit_a is not None
    assert limit_a < min(highest_readings_ma(name, shunt_uohm)) * 1e-3


def highest_readings_ma(name: str, shunt_uohm: int) -> list[int]:
    """Values of curr1_input at the end of the converter, by the arithmetic of the kernels."""
    if name == "ina3221":
        return [rounded(4095 * 40_000 / shunt_uohm)]
    if name in ("ina260", "ina780"):
        return [rounded(32767 * (1.25 if name == "ina260" else 2.4))]
    if name in ("ina228", "ina237", "ina238", "sq52206"):
        parts = 16 if name == "ina228" else 1
        step_ua = rounded(5e6 / shunt_uohm) // parts
        # The older driver counts in steps of four, and cuts off what is below a mA.
        older_ma = (8192 * parts - 1) * 20_000 // shunt_uohm // parts
        return [older_ma, rounded((32768 * parts - 1) * step_ua / 1000)]
    is_219 = name in ("ina219", "ina220")
    uv, code = (10.0, 32000) if is_219 else (2.5, 32767)
    newer_ma = rounded(code * rounded(uv * 1e6 / shunt_uohm) / 1000)
    if name == "tsc1641":
        return [newer_ma]
    # The older driver sets a calibration for steps of 1 mA, by which the chip divides.
    factor, divisor = (40_960_000, 4096) if is_219 else (5_120_000, 2048)
    return [code * rounded(factor / shunt_uohm) // divisor, newer_ma]


def rounded(value: float) -> int:
    """Rounded as by the kernel's DIV_ROUND_CLOSEST."""
    return math.floor(value + 0.5)


def flags_of(root: Path, name: str, shunt_uohm: int, currents_ma: list[int]) -> list[Flag]:
    """Flags of these readings of a chip's current."""
    files = rail_files(1, "A") | {"shunt1_resistor": shunt_uohm}
    of_others = {**INA226, "shunt_resistor": shunt_uohm, "in0_input": 5000}
    chip(root, {"name": name, **(files if name == "ina3221" else {**of_others, "name": name})})
    header = opened(HwmonMeter(root))
    decoder = RailDecoder(header)
    is_product = header.facts["rails"][0]["kind"] == "product"
    flags: list[Flag] = []
    for second, current_ma in enumerate(currents_ma):
        current, other = (second * 10**9, b"%d" % current_ma), (second * 10**9, b"5000")
        (point,) = decoder.points([current, other] if is_product else [other, current])
        flags.append(point.flags)
    return flags


def test_bus_voltage_of_a_tsc1641_is_in_another_file(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise its errors would be those of a rail of 5 V, whatever it has.

    Without power it would not count as a chip.
    """
    files = {"name": "tsc1641", "shunt_resistor": 5000, "in0_input": 12000, "curr1_input": 500}
    folder = chip(tmp_path, {**files, "power1_input": 6_000_000})
    offset = term(opened(HwmonMeter(tmp_path)), Kind.OFFSET, Unit.WATT)
    assert "at 12 V across 0.005 ohm" in offset.reference
    (folder / "power1_input").unlink()
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", [nothing, nothing], every_s=1)(0)
    assert list(found.power_w) == pytest.approx([6.0, 6.0])


def test_rate_is_twice_that_of_the_chip(tmp_path: Path) -> None:
    """Otherwise values would be skipped, or the bus be busy with repeated values."""
    folder = chip(tmp_path, INA226)
    assert opened(HwmonMeter(tmp_path, clock_ns=Ticks())).capability.rate_hz == pytest.approx(
        2 / 0.035
    )
    writing(folder, update_interval=2253)()
    assert opened(HwmonMeter(tmp_path, clock_ns=Ticks())).capability.rate_hz == pytest.approx(
        0.888, 0.01
    )
    writing(folder, update_interval=2)()
    assert opened(HwmonMeter(tmp_path, clock_ns=Ticks())).capability.rate_hz == RATE_MAX_HZ


def test_slow_reads_lower_the_rate(tmp_path: Path) -> None:
    """Otherwise every second round would count as lost on a bus slower than a round."""
    chip(tmp_path, INA226)
    header = opened(HwmonMeter(tmp_path, clock_ns=Ticks(look_ns=50_000_000)))
    round_s = 2 * 2 * 0.050
    assert header.capability.rate_hz <= 0.5 / round_s


def test_bus_that_is_held_up_is_a_gap(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise a second in which the bus was taken would look like a recorded second."""
    chip(tmp_path, INA226)

    def held_up() -> None:
        clock.now_ns += 1_000_000_000

    meter = HwmonMeter(tmp_path, clock_ns=clock)
    changes = [nothing, nothing, held_up, nothing]
    found = record(meter, clock, tmp_path / "recording", changes, every_s=0.0175)(0)
    (gap,) = found.loss.gaps
    assert gap.count == pytest.approx(57, abs=1)
    assert found.loss.lost_count == gap.count


def test_jetson_names_its_total(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise rails would be added to their input, or NC and the sum of shunts be rails."""
    make_board(tmp_path, BOARDS["jetson_orin_nano"])
    header = opened(HwmonMeter(tmp_path))
    assert [(c.name, c.boundary) for c in header.capability.channels] == [
        ("VDD_IN", "module"),
        ("VDD_CPU_GPU_CV", "rail"),
        ("VDD_SOC", "rail"),
    ]
    assert header.facts["total_rails"] == ["VDD_IN"]
    meter = HwmonMeter(tmp_path, clock_ns=clock)
    of_channel = record(meter, clock, tmp_path / "recording", [nothing, nothing], every_s=1)
    assert of_channel(0).power_w[0] == pytest.approx(5.016 * 0.590)
    assert of_channel(2).power_w[0] == pytest.approx(5.008 * 0.202)
    offset = term(header, Kind.OFFSET, Unit.WATT)
    assert offset.value == pytest.approx(80e-6 / 0.005 * 5.016), "of the least accurate rail"
    assert offset.origin is Origin.DATASHEET


def test_agx_orin_adds_up_the_rails_of_two_chips(tmp_path: Path) -> None:
    """Otherwise VIN_SYS_5V0 would count as the whole module (jetson_stats#344)."""
    names = ("VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0")
    first = {k: v for n, name in enumerate(names, 1) for k, v in rail_files(n, name).items()}
    chip(tmp_path, {"name": "ina3221", **first}, 3)
    second = {**rail_files(1, "NC"), **rail_files(2, "VDDQ_VDD2_1V8AO"), **rail_files(3, "NC")}
    chip(tmp_path, {"name": "ina3221", **second}, 4)
    header = opened(HwmonMeter(tmp_path))
    assert len(header.capability.channels) == 4
    assert header.facts["total_rails"] == list(names)


def test_thor_has_its_input_on_another_chip(tmp_path: Path) -> None:
    """Otherwise two kinds of chips would be refused, though one is the board's input."""
    chip(tmp_path, {**INA226, "name": "ina238", "label": "VIN"}, 1)
    chip(tmp_path, {"name": "ina3221", **rail_files(1, "VDD_GPU")}, 2)
    header = opened(HwmonMeter(tmp_path))
    assert header.facts["total_rails"] == ["VIN"]
    assert [channel.boundary for channel in header.capability.channels] == ["board", "rail"]


def test_channels_that_are_off_or_fail_are_no_rails(tmp_path: Path) -> None:
    """Otherwise one unused, failing channel would make the chip unusable (alumet#212)."""
    off = {**rail_files(2, "off"), "in2_enable": 0}
    failing = {**rail_files(3, "failing"), "curr3_input": ""}
    unlabelled = {k: v for k, v in rail_files(1, "").items() if k != "in1_label"}
    chip(tmp_path, {"name": "ina3221", **unlabelled, **off, **failing})
    header = opened(HwmonMeter(tmp_path))
    assert [channel.name for channel in header.capability.channels] == ["ina3221.1"]
    [lost] = header.facts[LEFT_OUT]
    assert lost.startswith("failing (ina3221 ")
    assert lost.endswith(" has no value")


def test_rail_without_its_voltage_is_named(tmp_path: Path) -> None:
    """Otherwise a rail whose channel the kernel shows in part would be missing unnoticed."""
    half = {k: v for k, v in rail_files(3, "VDD_SOC").items() if k != "in3_input"}
    chip(tmp_path, {"name": "ina3221", **rail_files(1, "VDD_IN"), **half})
    header = opened(HwmonMeter(tmp_path))
    assert [channel.name for channel in header.capability.channels] == ["VDD_IN"]
    [lost] = header.facts[LEFT_OUT]
    assert lost.startswith("VDD_SOC (ina3221 ")
    assert lost.endswith(" has no in3_input")


def test_uncertainty_is_that_of_the_least_accurate_rail(tmp_path: Path) -> None:
    """Otherwise a rail with a fifth of the first rail's shunt would get the first's errors."""
    coarse = {**rail_files(2, "B"), "shunt2_resistor": 1000}
    chip(tmp_path, {"name": "ina3221", **rail_files(1, "A"), **coarse, **rail_files(3, "C")})
    offset = term(opened(HwmonMeter(tmp_path)), Kind.OFFSET, Unit.WATT)
    assert offset.value == pytest.approx(80e-6 / 0.001 * 5.0)


def test_several_chips_are_told_apart_by_their_address(tmp_path: Path) -> None:
    """Otherwise another board's supply would be measured for being first at this boot."""
    chip(tmp_path, INA226, 1, "1-0040")
    chip(tmp_path, INA226, 2, "1-0041")
    reason = refused(HwmonMeter(tmp_path))
    assert "ina226 (ina226 1-0040), ina226 (ina226 1-0041)" in reason
    assert "hwmon:1-0040" in reason
    assert refused(HwmonMeter(tmp_path, "ina226")) == reason
    assert opened(HwmonMeter(tmp_path, "1-0041")).info.serial == "1-0041"
    assert "available: ina226" in refused(HwmonMeter(tmp_path, "ina219"))


def test_one_rail_is_chosen_by_its_label(tmp_path: Path) -> None:
    """Otherwise a user would get three rails for one, or a label would become a root."""
    make_board(tmp_path, BOARDS["jetson_orin_nano"])
    meter = find_meter(f"hwmon:VDD_SOC,root={tmp_path}")
    header = meter.open()
    assert isinstance(header, Header)
    assert [channel.name for channel in header.capability.channels] == ["VDD_SOC"]
    meter.close()
    assert isinstance(find_meter(f"hwmon:{tmp_path}").open(), Header)


def test_driver_folder_alone_is_enough_and_counts_once(tmp_path: Path) -> None:
    """Otherwise a container with the I2C driver's folder would see no chip, or two."""
    folder = tmp_path / "sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon7"
    make_folder(folder, {"name": "ina3221", **rail_files(1, "VDD_IN")})
    assert len(opened(HwmonMeter(tmp_path)).capability.channels) == 1
    (tmp_path / "sys/class/hwmon").mkdir(parents=True)
    (tmp_path / "sys/class/hwmon/hwmon7").symlink_to(folder)
    assert len(opened(HwmonMeter(tmp_path)).capability.channels) == 1


def test_means_and_instants_are_not_mixed(tmp_path: Path) -> None:
    """Otherwise an integrated value would be drawn as an instant, like the sampled chip's."""
    chip(tmp_path, {**INA226, "name": "ina228", "label": "VIN", "energy1_input": 5}, 1)
    chip(tmp_path, {"name": "ina3221", **rail_files(1, "VDD_GPU")}, 2)
    assert "several power monitors" in refused(HwmonMeter(tmp_path))
    assert opened(HwmonMeter(tmp_path, "VIN")).capability.is_averaging


@pytest.mark.parametrize("board", ["raspberry_pi_5", "x86_laptop", "bare_vm"])
def test_board_without_a_monitor_says_so(tmp_path: Path, board: str) -> None:
    """Otherwise a thermal chip would pass for a power monitor, or there would be a traceback."""
    assert "no power monitor" in refused(HwmonMeter(make_board(tmp_path, BOARDS[board])))


def test_chip_that_does_not_answer_says_so(tmp_path: Path) -> None:
    """Otherwise a silent chip would be reported as no chip."""
    chip(tmp_path, {**INA226, "curr1_input": ""})
    assert "power monitors are not readable: ina226" in refused(HwmonMeter(tmp_path))


def test_file_of_root_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the user would read of a silent chip that would respond to root."""
    folder = chip(tmp_path, INA226)
    close_to_users(monkeypatch, folder / "curr1_input")
    expected = f"Permission denied: {folder}/curr1_input, which needs root"
    assert (
        refused(HwmonMeter(tmp_path))
        == f"power monitors are not readable: ina226 (ina226 hwmon3); {expected}"
    )


def test_folder_that_is_closed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a container's closed folder would be a traceback, or a board without a monitor."""
    folder = chip(tmp_path, INA226)
    close_to_users(monkeypatch, folder)
    assert f"Permission denied: {folder}/name, which needs root" in refused(HwmonMeter(tmp_path))


def test_read_that_fails_says_how(tmp_path: Path) -> None:
    """Otherwise a loose wire on the bus would only be reported as a silent chip."""
    folder = chip(tmp_path, INA226)
    (folder / "curr1_input").unlink()
    (folder / "curr1_input").symlink_to("/proc/self/mem")
    assert "Input/output error" in refused(HwmonMeter(tmp_path))


def test_shunt_that_is_not_told_is_assumed_and_says_so(tmp_path: Path) -> None:
    """Otherwise the offset of an unknown resistor would pass for that of a data sheet."""
    chip(tmp_path, {k: v for k, v in INA226.items() if k != "shunt_resistor"})
    header = opened(HwmonMeter(tmp_path))
    offset = term(header, Kind.OFFSET, Unit.WATT)
    assert offset.origin is Origin.ASSUMED
    assert "shunt unknown" in offset.reference


@pytest.mark.parametrize("name", sorted(CHIPS))
def test_every_chip_says_how_good_it_is(name: str) -> None:
    """Otherwise a term could be zero, not a number, or without a source."""
    terms = FittedChip(chip=CHIPS[name], shunt_ohm=0.01, voltage_v=5.0).terms(1e-3)
    assert all(math.isfinite(one.value) and one.value >= 0 and one.reference for one in terms)
    assert {one.kind for one in terms} == {Kind.GAIN, Kind.OFFSET, Kind.RESOLUTION}


@given(st.lists(st.tuples(st.integers(1, 10**9), st.one_of(st.none(), st.binary(max_size=6)))))
def test_no_content_of_any_file_breaks_the_decoder(rounds: list[tuple[int, bytes | None]]) -> None:
    """Otherwise one strange reading would make the recording of an hour unreadable."""
    decoder = RailDecoder(header_of(RailPlan(kind="energy", scales=[1e-6])))
    time_ns = 0
    for passed_ns, content in rounds:
        time_ns += passed_ns
        for point in decoder.points([(time_ns, content)]):
            assert point.begin_ns is not None
            assert point.begin_ns < point.time_ns
            assert math.isfinite(point.power_w) != bool(point.flags & Flag.MISSING)


@given(st.lists(st.lists(st.one_of(st.none(), st.binary(max_size=6)), min_size=3, max_size=3)))
def test_no_content_beside_a_counter_breaks_the_decoder(rounds: list[list[bytes | None]]) -> None:
    """Otherwise the current would be taken for the counter, where that cannot be read."""
    plan = RailPlan(kind="energy", scales=[1e-6, 1e-3, 1e-3], limit_shunt_v=0.1625)
    decoder = RailDecoder(header_of(plan))
    for index, contents in enumerate(rounds):
        time_ns = (index + 1) * 40_000_000
        for point in decoder.points([(time_ns, content) for content in contents]):
            assert point.begin_ns is not None
            assert point.begin_ns < point.time_ns
            assert math.isfinite(point.power_w) != bool(point.flags & Flag.MISSING)
            is_whole = all(number(content) is not None for content in contents)
            assert is_whole or point.flags & Flag.MISSING


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=50))
def test_energy_of_a_counter_is_what_it_counted(steps: list[int]) -> None:
    """Otherwise energy would be lost where a value is skipped as a duplicate."""
    decoder = RailDecoder(header_of(RailPlan(kind="energy", scales=[1e-6])))
    total, energy_j = 0, 0.0
    for index, step in enumerate(steps):
        total += step if index else 0
        for point in decoder.points([(index * 17_500_000, b"%d" % total)]):
            assert point.begin_ns is not None
            energy_j += point.power_w * (point.time_ns - point.begin_ns) / 1e9
    tail = decoder.points([(10**15, b"%d" % total)])
    assert tail[0].begin_ns is not None
    energy_j += tail[0].power_w * (tail[0].time_ns - tail[0].begin_ns) / 1e9
    assert energy_j == pytest.approx(total * 1e-6)


def header_of(plan: RailPlan) -> Header:
    """Header of a recording of one rail."""
    return Header(
        driver="hwmon",
        info=MeterInfo(vendor="", model="ina228"),
        capability=Capability(
            driver="hwmon",
            channels=(Channel("ina228", "rail"),),
            rate_hz=57.0,
            is_averaging=True,
            clock_domain="host:monotonic",
        ),
        facts={"rails": [to_plain(plan)], "update_ns": 35_000_000, "total_rails": []},
    )
