"""Power monitors by industrial I/O, on made-up /sys trees."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
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

from edgebench.meters.base import Flag
from edgebench.meters.iio import IioMeter
from edgebench.meters.rails import RATE_MAX_HZ
from edgebench.meters.uncertainty import Kind, Origin, Unit

INA226: Mapping[str, object] = {
    "name": "ina226",
    "in_shunt_resistor": "0.100000000",
    "in_sampling_frequency": 114,
    "in_voltage0_raw": 4920,
    "in_voltage0_scale": "0.002500000",
    "in_voltage1_raw": 4010,
    "in_voltage1_scale": "1.250000000",
    "in_power2_raw": 24,
    "in_power2_scale": "25.000000000",
    "in_current3_raw": 123,
    "in_current3_scale": "1.000000000",
}
SCALES_MV = {"ina226": "0.002500000", "ina219": "0.010000000"}
POWER_W = 4920 * 2.5e-6 / 0.1 * 4010 * 1.25e-3


def chip(root: Path, files: Mapping[str, object] = INA226, address: str = "1-0040") -> Path:
    """A chip on the bus, with the link to it that industrial I/O has."""
    number = len(list(root.glob("sys/bus/iio/devices/*")))
    folder = make_folder(root / f"sys/devices/i2c-1/{address}/iio:device{number}", files)
    links = root / "sys/bus/iio/devices"
    links.mkdir(parents=True, exist_ok=True)
    (links / folder.name).symlink_to(folder)
    return folder


@pytest.fixture
def clock() -> Ticks:
    return Ticks()


def test_power_is_made_of_raw_voltages(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise a power of 25 mW a step would be read where the chip resolves 0.1 mW.

    Or a unit would be wrong by 1000.
    """
    chip(tmp_path)
    meter = IioMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", [nothing, nothing], every_s=1)(0)
    assert list(found.power_w) == pytest.approx([POWER_W] * 2)
    assert list(found.current_a) == pytest.approx([0.123] * 2)
    header = opened(meter)
    (step,) = [one for one in header.uncertainty if one.kind is Kind.RESOLUTION]
    assert step.value == pytest.approx(25e-6 * 4010 * 1.25e-3 / 2)
    assert header.capability.rate_hz == RATE_MAX_HZ
    assert header.info.serial == "1-0040"


def test_current_that_flows_back_is_negative(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise a signed raw value would be read as an unsigned value of 65 thousand steps."""
    folder = chip(tmp_path)
    changes = [nothing, writing(folder, in_voltage0_raw=-4920)]
    meter = IioMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=1)(0)
    assert list(found.power_w) == pytest.approx([POWER_W, -POWER_W])


@pytest.mark.parametrize(("name", "highest"), [("ina226", 32767), ("ina219", 32000)])
def test_highest_code_of_a_shunt_is_saturated(
    tmp_path: Path, clock: Ticks, name: str, highest: int
) -> None:
    """Otherwise a current at the end of the converter would be trusted.

    That end is one step below its full scale.
    """
    folder = chip(tmp_path, {**INA226, "name": name, "in_voltage0_scale": SCALES_MV[name]})
    codes = (highest, -highest, highest - 1)
    changes = [nothing, *(writing(folder, in_voltage0_raw=code) for code in codes)]
    meter = IioMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=1)(0)
    assert list(found.flags) == [Flag.NONE, Flag.SATURATED, Flag.SATURATED, Flag.NONE]


@pytest.mark.parametrize(
    ("gain", "highest"),
    [("0.125000000", 32000), ("0.250000000", 16000), ("0.500000000", 8000), ("1.000000000", 4000)],
)
def test_amplifier_of_an_ina219_ends_its_range_earlier(
    tmp_path: Path, clock: Ticks, gain: str, highest: int
) -> None:
    """Otherwise clipping at an eighth of the assumed range, with another gain, would be missed."""
    files = {**INA226, "name": "ina219", "in_voltage0_scale": SCALES_MV["ina219"]}
    folder = chip(tmp_path, {**files, "in_voltage0_raw": 100, "in_voltage0_hardwaregain": gain})
    changes = [
        nothing,
        *(writing(folder, in_voltage0_raw=code) for code in (-highest, highest - 1)),
    ]
    meter = IioMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=1)(0)
    assert list(found.flags) == [Flag.NONE, Flag.SATURATED, Flag.NONE]
    (limit,) = opened(meter).capability.current_limits
    assert limit.limit_a == pytest.approx((highest - 0.5) * 10e-6 / 0.1)


def test_same_conversion_is_a_duplicate(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise one conversion that is read twice would count as two."""
    folder = chip(tmp_path, {**INA226, "in_sampling_frequency": 10})
    changes = [nothing, nothing, writing(folder, in_voltage0_raw=4921), nothing, nothing]
    meter = IioMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=0.06)(0)
    again, new = Flag.DUPLICATE, Flag.NONE
    assert list(found.flags) == [new, again, new, again, new]


def test_chip_that_goes_away_is_missing(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise a voltage that fails would be zero, and so would the power."""
    chip(tmp_path)
    meter = IioMeter(tmp_path, clock_ns=clock)
    changes = [nothing, lambda: breaking(meter, 1)()]
    found = record(meter, clock, tmp_path / "recording", changes, every_s=0.01)(0)
    assert list(found.flags) == [Flag.NONE, Flag.MISSING]
    assert found.loss.lost_count == 1


@pytest.mark.parametrize("told", ["0.100000000", "100000"])
def test_shunt_is_told_in_ohms_or_by_old_kernels_in_micro_ohms(
    tmp_path: Path, clock: Ticks, told: str
) -> None:
    """Otherwise ohms of a new kernel, no integer, would hide the chip, or be wrong by a million."""
    chip(tmp_path, {**INA226, "in_shunt_resistor": told})
    meter = IioMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", [nothing, nothing], every_s=1)(0)
    assert list(found.power_w) == pytest.approx([POWER_W] * 2)
    assert opened(meter).capability.current_limits[0].limit_a == pytest.approx(0.819, abs=1e-3)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        *(
            ({"in_shunt_resistor": told}, "has no readable shunt (in_shunt_resistor)")
            for told in ("", "0", "0.000000000", "-5", "-0.1", "nan", "inf", "1.e999", "ohm")
        ),
        ({"in_voltage0_scale": ""}, "has no readable voltages (in_voltage0_raw, "),
        ({"in_voltage1_raw": ""}, "has no readable voltages (in_voltage0_raw, "),
    ],
)
def test_chip_without_its_scale_is_none(
    tmp_path: Path, files: Mapping[str, object], reason: str
) -> None:
    """Otherwise an unknown shunt would be taken for 10 mOhm, or the reason be missing."""
    chip(tmp_path, {**INA226, **files})
    assert f"power monitors are not usable: ina226 1-0040 {reason}" in refused(IioMeter(tmp_path))


@pytest.mark.parametrize("name", ["in_shunt_resistor", "in_voltage0_raw", "in_voltage1_raw"])
def test_file_of_root_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Otherwise the user would read of no monitor, where root may read one."""
    folder = chip(tmp_path)
    close_to_users(monkeypatch, folder / name)
    assert f"/{name}, which needs root" in refused(IioMeter(tmp_path))


def test_folder_that_is_closed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a container's closed folder would be a traceback."""
    make_board(tmp_path, BOARDS["jetson_nano"])
    close_to_users(monkeypatch, tmp_path / "sys/bus/i2c/devices/6-0040/iio:device0")
    reason = refused(IioMeter(tmp_path))
    assert "Permission denied: " in reason
    assert "/iio:device0/name, which needs root" in reason


def test_chip_whose_buffer_is_in_use_says_so(tmp_path: Path) -> None:
    """Otherwise a busy reading (EBUSY) would become a traceback."""
    chip(tmp_path, {**INA226, "in_voltage0_raw": ""})
    assert "not readable: ina226 (ina226 1-0040)" in refused(IioMeter(tmp_path))


def test_jetson_nano_names_its_total(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise rails of JetPack 4 would not be found, or CPU and GPU be added to the input."""
    make_board(tmp_path, BOARDS["jetson_nano"])
    header = opened(IioMeter(tmp_path))
    assert [(c.name, c.boundary) for c in header.capability.channels] == [
        ("POM_5V_IN", "module"),
        ("POM_5V_GPU", "rail"),
        ("POM_5V_CPU", "rail"),
    ]
    assert header.facts["total_rails"] == ["POM_5V_IN"]
    (offset,) = [one for one in header.uncertainty if one.kind is Kind.OFFSET]
    assert (offset.unit, offset.origin) == (Unit.WATT, Origin.ASSUMED)
    meter = IioMeter(tmp_path, clock_ns=clock)
    of_channel = record(meter, clock, tmp_path / "recording", [nothing, nothing], every_s=1)
    assert of_channel(0).power_w[0] == pytest.approx(2.132)
    assert of_channel(0).current_a[0] == pytest.approx(0.424)
    assert of_channel(2).power_w[0] == pytest.approx(0.275)


def test_jetson_rail_that_is_not_connected_is_none(tmp_path: Path) -> None:
    """Otherwise a channel called NC, whose readings are noise, would be added up."""
    make_board(tmp_path, BOARDS["jetson_nano"])
    folder = tmp_path / "sys/bus/i2c/devices/6-0040/iio:device0"
    writing(folder, rail_name_1="NC", in_power2_input="")()
    assert [c.name for c in opened(IioMeter(tmp_path)).capability.channels] == ["POM_5V_IN"]


def test_other_converters_are_no_monitors(tmp_path: Path) -> None:
    """Otherwise the touch screen's converter would be taken for a power monitor."""
    chip(tmp_path, {"name": "ads1015", "in_voltage0_raw": 1, "in_voltage0_scale": 1})
    assert "no power monitor" in refused(IioMeter(tmp_path))
