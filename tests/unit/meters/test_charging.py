"""Charging of a phone: suspended while its battery is measured, and resumed after any kill."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psutil
import pytest
from support.agents import wait_until
from support.boards import BOARDS, make_board
from support.forks import start_waiting
from support.rounds import make_folder

from edgebench.meters import battery
from edgebench.meters.base import AbsentMeter, Flag, blocks_of
from edgebench.meters.battery import BatteryDecoder, BatteryMeter
from edgebench.meters.charging import ChargeSwitch
from edgebench.meters.registry import find_meter
from edgebench.meters.spool import read_packets
from edgebench.protocol.errors import TargetError
from edgebench.system.android_settings import CHARGING_PROPERTY, recover

HEEDS = """\
battery="$sim/../sys/class/power_supply/battery"
case "$2" in
true) echo Discharging > "$battery/status"; echo -423125 > "$battery/current_now" ;;
false) echo Charging > "$battery/status"; echo 1210000 > "$battery/current_now" ;;
esac
"""
"""A phone that obeys the property."""
KEEPS_ITS_CURRENT = """\
battery="$sim/../sys/class/power_supply/battery"
case "$2" in
true) echo Discharging > "$battery/status" ;;
false) echo Charging > "$battery/status" ;;
esac
"""
"""A phone whose status changes, but that continues to charge."""


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Root of a phone that charges; short limits for a phone that ignores the property."""
    monkeypatch.setattr(battery, "PROOF_S", 0.5)
    monkeypatch.setattr(battery, "UPDATE_MAX_S", 0.5)
    monkeypatch.setattr(battery, "POLL_S", 0.02)
    root = make_board(tmp_path / "root", BOARDS["android_11"])
    charging = {"type": "Battery", "status": "Charging", "current_now": 1210000}
    make_folder(root / "sys/class/power_supply/battery", {**charging, "voltage_now": 4231562})
    return root


def switch(root: Path) -> ChargeSwitch:
    """The switch for the charging of this phone."""
    return ChargeSwitch(root, mark(root))


def mark(root: Path) -> Path:
    """Path of its mark."""
    return root.parent / "data/charging-suspended"


def heed(root: Path, script: str = HEEDS) -> None:
    """Let the phone run this script when a property is set."""
    (root / "sim/on-setprop").write_text(script)


def suspended(root: Path) -> str | None:
    """Value of the property; None where it was never set."""
    path = root / f"sim/getprop-{CHARGING_PROPERTY}"
    return path.read_text().strip() if path.exists() else None


def status(root: Path) -> str:
    """Status of the battery."""
    return (root / "sys/class/power_supply/battery/status").read_text().strip()


def test_phone_on_a_cable_is_measured_as_it_discharges(phone: Path, tmp_path: Path) -> None:
    """Otherwise a phone over USB would have the energy of its charger, or none."""
    heed(phone)
    meter = BatteryMeter(phone, switch=switch(phone))
    assert not isinstance(meter.open(), AbsentMeter)
    assert suspended(phone) is None, "to describe a meter changes nothing"
    path = tmp_path / "recording"
    with meter.session(path) as session:
        assert (suspended(phone), status(phone)) == ("true", "Discharging")
        assert mark(phone).stat().st_mode & 0o777 == 0o600
        wait_until(lambda: len(session.newest().packets) >= 2, "two rounds were read")
    meter.close()
    assert (suspended(phone), status(phone)) == ("false", "Charging")
    assert not mark(phone).exists()
    recording = session.recording()
    assert recording.trouble is None
    decoder = BatteryDecoder(recording.header)
    powers_w = [
        float(power_w)
        for block in blocks_of(decoder, read_packets(path))
        for power_w, flag in zip(block.power_w, block.flags, strict=True)
        if not flag & Flag.MISSING
    ]
    assert powers_w
    assert powers_w == pytest.approx([0.423125 * 4.231562] * len(powers_w))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("", "0.5 s after charging was suspended, the battery status is 'Charging': this device"),
        (KEEPS_ITS_CURRENT, "0.5 s .* status is 'Discharging', and its current has the sign of"),
    ],
)
def test_phone_that_ignores_it_is_refused_and_charges_on(
    phone: Path, tmp_path: Path, script: str, reason: str
) -> None:
    """Otherwise the charger's current would pass for the phone's."""
    heed(phone, script)
    meter = BatteryMeter(phone, switch=switch(phone))
    meter.open()
    with pytest.raises(TargetError, match=f"^{reason}.*; unplug the cable$"):
        meter.session(tmp_path / "recording").__enter__()
    meter.close()
    assert (suspended(phone), status(phone)) == ("false", "Charging")
    assert not (tmp_path / "recording").exists()


def test_phone_that_charges_is_refused_without_the_option(phone: Path) -> None:
    """Otherwise a setting of the system would change without having been named."""
    heed(phone)
    refused = find_meter(f"battery,root={phone}").open()
    assert isinstance(refused, AbsentMeter)
    assert "unplug the charger" in refused.reason
    assert not isinstance(find_meter(f"battery,discharge,root={phone}").open(), AbsentMeter)
    assert suspended(phone) is None


def test_charging_resumes_when_whoever_suspended_it_is_killed(phone: Path) -> None:
    """Otherwise a phone on its cable would be empty in the morning."""
    heed(phone)
    child = start_waiting(switch(phone).suspend)
    assert suspended(phone) == "true"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    wait_until(lambda: not mark(phone).exists(), "its guard has resumed the charging")
    assert (suspended(phone), status(phone)) == ("false", "Charging")


def test_guard_outlives_what_ends_a_session(phone: Path) -> None:
    """Otherwise Ctrl-C, or the end of adb's shell, would end the guard first."""
    heed(phone)
    child = start_waiting(switch(phone).suspend)
    [guard] = psutil.Process(child).children()
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        guard.send_signal(number)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    wait_until(lambda: not mark(phone).exists(), "its guard has resumed the charging")
    assert suspended(phone) == "false"


def test_next_agent_resumes_what_was_killed_with_its_guard(phone: Path) -> None:
    """Otherwise the end of adbd, which ends the guard too, would leave a phone uncharged."""
    heed(phone)
    child = start_waiting(switch(phone).suspend)
    for guard in psutil.Process(child).children(recursive=True):
        guard.kill()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert (suspended(phone), status(phone)) == ("true", "Discharging")
    recover(mark(phone), phone)
    assert (suspended(phone), status(phone)) == ("false", "Charging")
    assert not mark(phone).exists()


def test_boot_has_resumed_the_charging(phone: Path) -> None:
    """Otherwise the next agent would undo what another program has set since."""
    mark(phone).parent.mkdir()
    mark(phone).write_text("the boot before")
    recover(mark(phone), phone)
    assert suspended(phone) is None
    assert not mark(phone).exists()


def test_charging_that_somebody_else_has_suspended_stays_so(phone: Path) -> None:
    """Otherwise a rack that runs its phones from batteries would charge them after a run."""
    heed(phone)
    (phone / f"sim/getprop-{CHARGING_PROPERTY}").write_text("true\n")
    own = switch(phone)
    own.suspend()
    own.resume()
    assert suspended(phone) == "true"


def test_only_android_has_such_a_switch(tmp_path: Path) -> None:
    """Otherwise a laptop with its charger connected would be reported as discharging."""
    with pytest.raises(TargetError, match="only Android"):
        switch(tmp_path).suspend()
