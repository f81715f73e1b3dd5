"""Batteries on made-up /sys trees: how they count is settled before anything is recorded."""

from __future__ import annotations

import math
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

from edgebench.meters.base import Capability, Channel, Flag, Header, MeterInfo
from edgebench.meters.battery import BatteryDecoder, BatteryMeter
from edgebench.meters.gauge import GaugeHints, unit_of
from edgebench.meters.registry import find_meter
from edgebench.protocol.errors import UsageError

PHONE = {
    "type": "Battery",
    "status": "Discharging",
    "current_now": -423125,
    "voltage_now": 4231562,
}
POWER_W = 0.423125 * 4.231562


def battery(root: Path, name: str = "battery", **changed: object) -> Path:
    """A supply under a made-up /sys."""
    return make_folder(root / f"sys/class/power_supply/{name}", {**PHONE, **changed})


def laptop(root: Path, **changed: object) -> Path:
    """A battery that reports power and no current."""
    told = {"power_now": 18_400_000, "energy_now": 40_000_000, "voltage_now": 12_213_000, **changed}
    return battery(root, "BAT0", **told, current_now="")


@pytest.fixture
def clock() -> Ticks:
    return Ticks()


@pytest.mark.parametrize("current", [-423125, 423125])
def test_device_that_discharges_takes_power(tmp_path: Path, clock: Ticks, current: int) -> None:
    """Otherwise the sign chosen by a maker would make the energy negative."""
    battery(tmp_path, current_now=current)
    meter = BatteryMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", [nothing, nothing], every_s=0.5)(0)
    assert list(found.power_w) == pytest.approx([POWER_W] * 2)
    how = f"sign seen, unit ua seen, at {current} of current_now"
    assert opened(meter).info.raw_metadata == how


@pytest.mark.parametrize("power", [18_400_000, -18_400_000])
def test_gauge_of_a_laptop_tells_power(tmp_path: Path, clock: Ticks, power: int) -> None:
    """Otherwise a laptop's battery would be of no use, or its sign would make it negative.

    It reports no current.
    """
    root = make_board(tmp_path, BOARDS["x86_laptop"])
    assert "'Charging'" in refused(BatteryMeter(root))
    folder = root / "sys/class/power_supply/BAT0"
    writing(folder, status="Discharging", power_now=power)()
    meter = BatteryMeter(root, clock_ns=clock)
    changes = [nothing, nothing, writing(folder, power_now="", voltage_now=12_000_000)]
    found = record(meter, clock, tmp_path / "recording", changes, every_s=0.5)(0)
    assert list(found.power_w[:2]) == pytest.approx([18.4, 18.4])
    (block,) = found.blocks
    assert block.voltage_v is not None
    assert list(block.voltage_v[:2]) == pytest.approx([12.213] * 2)
    assert block.current_a is None, "nobody measured it"
    assert list(found.flags) == [Flag.NONE, Flag.DUPLICATE, Flag.MISSING]


@pytest.mark.parametrize("power", [18_400, 300_000_000])
def test_power_that_is_no_microwatts_is_refused(tmp_path: Path, power: int) -> None:
    """Otherwise a gauge that breaks the kernel's rule would make 18 mW of 18 W."""
    folder = laptop(tmp_path, power_now=power)
    assert "is probably not in uW" in refused(BatteryMeter(tmp_path))
    writing(folder, power_now=0)()
    assert "a power of 0 while discharging" in refused(BatteryMeter(tmp_path))


def test_unit_of_a_current_is_not_that_of_a_power(tmp_path: Path) -> None:
    """Otherwise an option of the user would be dropped silently, or 18 W be 18 kW."""
    laptop(tmp_path)
    assert "leave out unit=ma" in refused(BatteryMeter(tmp_path, hints=GaugeHints(unit="ma")))
    assert "contradicts sign=negative" in refused(
        BatteryMeter(tmp_path, hints=GaugeHints(sign="negative"))
    )


def test_current_is_preferred_to_power(tmp_path: Path) -> None:
    """Otherwise a gauge that reports both would be read by the value its driver computes."""
    battery(tmp_path, power_now=1_790_000)
    assert opened(BatteryMeter(tmp_path)).facts["watt"] is None


def test_gauge_is_the_same_meter_at_any_load(tmp_path: Path) -> None:
    """Otherwise two runs on one battery would have different meters, and not be comparable."""
    folder = battery(tmp_path)
    before = opened(BatteryMeter(tmp_path))
    writing(folder, current_now=-723125, voltage_now=4100000)()
    after = opened(BatteryMeter(tmp_path))
    assert before.facts == after.facts
    assert before.info.raw_metadata != after.info.raw_metadata


def test_recording_of_before_is_still_read() -> None:
    """Otherwise a field that is no longer stored would make old recordings unreadable."""
    facts = {"sign": -1, "ampere": 1e-6, "volt": 1e-6, "how": "sign seen, unit ua seen, at -423125"}
    header = Header(
        driver="battery",
        info=MeterInfo(vendor="", model="battery gauge"),
        capability=Capability(
            driver="battery",
            channels=(Channel("battery", "battery"),),
            rate_hz=2.0,
            is_averaging=False,
            clock_domain="host:monotonic",
        ),
        facts=facts,
    )
    (point,) = BatteryDecoder(header).points(
        [(0, b"-423125\n"), (0, b"4231562\n"), (0, b"Discharging\n")]
    )
    assert point.power_w == pytest.approx(POWER_W)


def test_milliamperes_are_believed_only_under_load_or_when_said(tmp_path: Path) -> None:
    """Otherwise a maker's mA would be taken for uA, or an idle phone's uA for mA."""
    battery(tmp_path, current_now=-423)
    assert "may be in uA or mA" in refused(BatteryMeter(tmp_path))
    for said in (GaugeHints(unit="ma"), GaugeHints(is_loaded=True)):
        assert opened(BatteryMeter(tmp_path, hints=said)).facts["ampere"] == 1e-3
    assert opened(BatteryMeter(tmp_path, hints=GaugeHints(unit="ua"))).facts["ampere"] == 1e-6


@pytest.mark.parametrize(("current", "unit"), [(-423125, "ma"), (-25_000_000, "ua")])
def test_current_that_no_battery_gives_is_refused(tmp_path: Path, current: int, unit: str) -> None:
    """Otherwise a user's wrong unit would make 423 A of 0.4, and two kilowatts of a phone."""
    battery(tmp_path, current_now=current)
    assert "a phone or laptop battery gives at most" in refused(
        BatteryMeter(tmp_path, hints=GaugeHints(unit=unit))
    )
    assert abs(current) < 1e6 or "battery gives at most" in refused(BatteryMeter(tmp_path))


def test_idle_phone_is_not_taken_for_milliamperes(tmp_path: Path) -> None:
    """Otherwise 15 mA, reported in uA, would be 15 A in mA: both are possible in a laptop."""
    battery(tmp_path, current_now=-15000)
    assert "may be in uA or mA" in refused(BatteryMeter(tmp_path))
    assert "may be in uA or mA" in refused(BatteryMeter(tmp_path, hints=GaugeHints(is_loaded=True)))


@given(st.integers(-(2**31) + 1, 2**31), st.booleans())
def test_unit_is_never_guessed(current: int, is_loaded: bool) -> None:
    """Otherwise a current that fits both units would be given one of them."""
    unit = unit_of(current, is_loaded)
    if unit == "ua":
        assert abs(current) * 1e-3 > 20, "no battery gives that in mA"
    if unit == "ma":
        assert is_loaded
        assert abs(current) * 1e-6 < 0.010, "no busy device takes so little in uA"


def test_sign_that_was_said_must_be_the_one_that_is_seen(tmp_path: Path) -> None:
    """Otherwise a mistake of the user would give negative joules."""
    battery(tmp_path)
    assert opened(BatteryMeter(tmp_path, hints=GaugeHints(sign="negative"))).facts["sign"] == -1
    assert "contradicts sign=positive" in refused(
        BatteryMeter(tmp_path, hints=GaugeHints(sign="positive"))
    )


@pytest.mark.parametrize("status", ["Charging", "Full", "Not charging", "Unknown", ""])
def test_charger_makes_a_battery_useless(tmp_path: Path, status: str) -> None:
    """Otherwise the current that charges a phone would pass for what the phone takes."""
    battery(tmp_path, status=status)
    assert "unplug the charger" in refused(
        BatteryMeter(tmp_path, hints=GaugeHints(sign="negative", unit="ua"))
    )


def test_charger_in_a_session_makes_values_missing(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise a run during which the phone was plugged in would look better than it was."""
    folder = battery(tmp_path)
    changes = [nothing, writing(folder, status="Charging"), writing(folder, status="Discharging")]
    meter = BatteryMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=0.5)(0)
    assert found.flags[1] == Flag.MISSING
    assert math.isnan(found.power_w[1])
    assert found.loss.lost_count == 1


def test_gauge_with_nothing_new_is_a_duplicate(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise a gauge that is slower than the session would pass for an equally fast gauge."""
    folder = battery(tmp_path)
    changes = [nothing, nothing, writing(folder, voltage_now=4231000), *[nothing] * 20]
    meter = BatteryMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=0.5)(0)
    assert list(found.flags[:3]) == [Flag.NONE, Flag.DUPLICATE, Flag.NONE]
    assert all(found.flags[3:22] == Flag.DUPLICATE)
    assert found.flags[22] == Flag.NONE, "10 s later it is new, and the same"


@pytest.mark.parametrize("content", ["", "garbage", -(2**31)])
def test_value_that_is_none_is_missing(tmp_path: Path, clock: Ticks, content: object) -> None:
    """INT_MIN is no value (home-assistant/android#4977).

    Otherwise it would be nine kilowatts.
    """
    folder = battery(tmp_path)
    changes = [nothing, writing(folder, current_now=content)]
    meter = BatteryMeter(tmp_path, clock_ns=clock)
    found = record(meter, clock, tmp_path / "recording", changes, every_s=0.5)(0)
    assert list(found.flags) == [Flag.NONE, Flag.MISSING]
    assert "reports neither current" in refused(meter)


def test_status_that_cannot_be_read_is_missing(tmp_path: Path, clock: Ticks) -> None:
    """Otherwise a charger could be connected unnoticed."""
    battery(tmp_path)
    meter = BatteryMeter(tmp_path, clock_ns=clock)
    changes = [nothing, lambda: breaking(meter, 2)()]
    found = record(meter, clock, tmp_path / "recording", changes, every_s=0.5)(0)
    assert list(found.flags) == [Flag.NONE, Flag.MISSING]


def test_voltage_in_millivolts_is_known_by_its_size(tmp_path: Path) -> None:
    """Otherwise a voltage would be 4 mV, or 4 kV."""
    folder = battery(tmp_path, voltage_now=4231)
    assert opened(BatteryMeter(tmp_path)).facts["volt"] == 1e-3
    writing(folder, voltage_now=42)()
    assert "neither in uV nor in mV" in refused(BatteryMeter(tmp_path))


def test_gauge_that_does_not_measure_says_so(tmp_path: Path) -> None:
    """Otherwise a constant zero would become a device that takes nothing."""
    battery(tmp_path, current_now=0)
    assert "does not measure" in refused(BatteryMeter(tmp_path))


def test_battery_of_a_mouse_is_not_the_machines(tmp_path: Path) -> None:
    """Otherwise the first battery would be taken: the mouse's, or either of two."""
    battery(tmp_path, "hid-1", scope="Device")
    assert "no battery" in refused(BatteryMeter(tmp_path))
    battery(tmp_path, "BAT0")
    assert opened(BatteryMeter(tmp_path)).info.serial == "BAT0"
    battery(tmp_path, "BAT1")
    assert "several batteries: BAT0, BAT1" in refused(BatteryMeter(tmp_path))
    assert opened(BatteryMeter(tmp_path, "BAT1")).info.serial == "BAT1"
    assert "no battery 'BAT2'; available: BAT0, BAT1" in refused(BatteryMeter(tmp_path, "BAT2"))


def test_phone_on_its_cable_says_why_not(tmp_path: Path) -> None:
    """Otherwise the current would be the charger's, as the cable of adb charges the phone."""
    root = make_board(tmp_path, BOARDS["android_phone"])
    assert "'Charging'" in refused(BatteryMeter(root))
    writing(root / "sys/class/power_supply/battery", status="Discharging")()
    assert opened(BatteryMeter(root)).capability.channels[0].boundary == "battery"


@pytest.mark.parametrize("option", ["sign=minus", "unit=A"])
def test_option_that_means_nothing_is_refused(option: str) -> None:
    """Otherwise a typing error would leave the sign to be guessed.

    Or the user would read internals of the program.
    """
    name, _, word = option.partition("=")
    with pytest.raises(UsageError, match=f"battery takes {name}=.* or {name}=.*, got '{word}'$"):
        find_meter(f"battery:BAT0,{option}")


@pytest.mark.parametrize("name", ["type", "status", "current_now", "voltage_now"])
def test_file_of_root_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Otherwise an app would report that there is no battery, or ask to unplug a charger."""
    folder = battery(tmp_path)
    close_to_users(monkeypatch, folder / name)
    reason = refused(BatteryMeter(tmp_path))
    assert f"Permission denied: {folder}/{name}, which needs root" in reason
    assert "charger" not in reason
