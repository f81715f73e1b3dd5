"""A real agent measures a phone, whose state during the run decides what the run is worth."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.agents import Host, wait_until
from support.boards import _android as android
from support.phones import Phone
from support.tools import need_root, need_runtime
from support.watchers import At

from edgebench.host.bench.verify import verify
from edgebench.host.stored_run import StoredRun
from edgebench.protocol.errors import EdgebenchError, SettingRefused
from edgebench.protocol.record import Phase
from edgebench.system.android_settings import CHARGING_PROPERTY

SETTINGS: dict[str, Any] = {
    "duration_s": 0.3,
    "min_query_count": 30,
    "warmup_duration_s": 0.1,
    "is_checked": False,
    "cooldown_timeout_s": 0.0,
}
RULES = (
    *("suspended", "charging", "screen", "power_saver"),
    *("thermal_status", "thermal_status_moderate"),
)
ON_SETPROP = """\
battery="$sim/../sys/class/power_supply/battery"
if [ "$2" = false ]; then echo Charging > "$battery/status"; return; fi
echo Discharging > "$battery/status"
echo -423125 > "$battery/current_now"
(sleep 0.5; echo -431000 1<> "$battery/current_now") > /dev/null 2>&1 &
"""
"""A phone that follows its settings, and whose gauge has a new value soon after.

The new value replaces the old one in one write, as a kernel's does: a file that is cut first can be
read while it is empty.
"""
SKIN = android.temperature("SKIN", 3, "31.5")
CPUSETS = Path("/sys/fs/cgroup/cpuset")
"""Where a kernel without Android has the controller that Android mounts at /dev/cpuset."""


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phone]:
    """One phone for all runs."""
    need_runtime("ai-edge-litert")
    made = Phone(tmp_path_factory.mktemp("phone"), android.thermal(0, SKIN))
    yield made
    made.agent.kill()


@pytest.fixture(scope="module")
def host(phone: Phone, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A host that is paired with the phone."""
    made = Host(tmp_path_factory.mktemp("host"))
    made.lab.pair(phone.agent.pairing_string())
    return made


@pytest.fixture(autouse=True)
def _at_rest(phone: Phone) -> None:
    """The phone runs from its battery, awake and cool."""
    phone.show(android.battery(3), android.power("Awake"), android.thermal(0, SKIN))
    phone.status_of_battery("Discharging")


def bench(host: Host, **settings: Any) -> StoredRun:
    """One run, which `verify` computes again."""
    name = "moto-g-5-plus"
    model = "digits_fp32.tflite"
    [run] = host.lab.bench(model, runs=1, on=[name], runtime="litert", **(SETTINGS | settings))
    assert verify(host.lab.store, run.id) == []
    return run


def is_suspended(phone: Phone) -> bool:
    """Whether the charging of the phone is suspended."""
    path = phone.root / f"sim/getprop-{CHARGING_PROPERTY}"
    return path.exists() and path.read_text().strip() == "true"


def outcomes(run: StoredRun) -> dict[str, str]:
    """Outcome of each rule about phones."""
    rules = {rule["id"]: rule["outcome"] for rule in run.document["verdict"]["rules"]}
    return {name: rules[name] for name in RULES}


def test_phone_at_rest_passes_and_its_frozen_counter_is_no_clock(host: Host) -> None:
    """Otherwise every phone would be suspect, or have run at 0.00 GHz."""
    run = bench(host, duration_s=1.5)  # on a crowded machine, a clock is read in few windows
    assert outcomes(run) == dict.fromkeys(RULES, "pass")
    system = run.document["environment"]["android"]
    assert (system["device"], system["api_level"]) == ("potter", 26)
    assert run.document["device"]["profile"] == "generic-android"
    assert run.document["device"]["os"] == "Android 8.0.0 (API 26)"
    assert run.document["metrics"]["thermal"]["baseline_freq_hz"] == pytest.approx(1.4016e9)
    telemetry = run.document["conditions"]["telemetry"]
    assert "cpufreq.policy0.cycles" in telemetry["sensors"]
    assert telemetry["sampler_cpu_ratio"] is not None


def test_phone_that_changes_while_it_measures_is_suspect(host: Host, phone: Phone) -> None:
    """Otherwise a number of a phone that charges, sleeps and saves power would be trusted."""

    def change() -> None:
        time.sleep(0.5)  # the phase is reported before the clocks are read
        phone.status_of_battery("Charging")
        phone.clock.sleep(7.0)
        phone.show(
            android.battery(2, plugged="USB"),
            android.power("Asleep", saver="1"),
            android.thermal(1, SKIN),
        )

    watcher = At(Phase.MEASURING, change)
    run = bench(host, watcher=watcher, duration_s=4.0)
    assert watcher.was_called
    passed = {"thermal_status_moderate"}
    assert outcomes(run) == {name: "pass" if name in passed else "fail" for name in RULES}
    assert run.verdict == "suspect"
    slept = next(rule for rule in run.document["verdict"]["rules"] if rule["id"] == "suspended")
    assert slept["value"] == pytest.approx(7.0, abs=0.02)


def settings_of(phone: Phone) -> tuple[str, str, str]:
    """Airplane mode, brightness, and whether it is adaptive."""
    names = ("global-airplane_mode_on", "system-screen_brightness", "system-screen_brightness_mode")
    airplane, brightness, mode = (
        (phone.root / f"sim/settings-get-{name}").read_text().strip() for name in names
    )
    return airplane, brightness, mode


def test_brightness_of_a_run_is_set_and_set_back(host: Host, phone: Phone) -> None:
    """Otherwise the screen could draw any power, and a phone in a rack be dark after a run."""
    phone.show(android.display(102))
    found = list[tuple[str, str, str]]()
    watcher = At(Phase.MEASURING, lambda: found.append(settings_of(phone)))
    run = bench(host, watcher=watcher, screen_brightness=40)
    assert found == [("null", "40", "0")]
    assert settings_of(phone) == ("null", "102", "1")
    rule = next(rule for rule in run.document["verdict"]["rules"] if rule["id"] == "phone_settings")
    assert rule["outcome"] == "pass"


def test_brightness_that_somebody_changes_is_suspect(host: Host, phone: Phone) -> None:
    """Otherwise what was requested would count as what was in effect."""
    phone.show(android.display(102))

    def change() -> None:
        time.sleep(0.3)
        phone.show(android.display(200, mode=0))

    run = bench(host, watcher=At(Phase.MEASURING, change), screen_brightness=40, duration_s=1.0)
    rule = next(rule for rule in run.document["verdict"]["rules"] if rule["id"] == "phone_settings")
    assert (rule["outcome"], rule["reason"]) == ("fail", "brightness")
    assert rule["facts"] == {"lowest": 40, "highest": 200, "requested": 40}
    assert settings_of(phone)[1:] == ("102", "1")


def test_phone_without_a_command_for_airplane_mode_is_refused(host: Host, phone: Phone) -> None:
    """Otherwise a run with its radios on would count as one without."""
    phone.show(android.display(102))
    with pytest.raises(SettingRefused, match=r"airplane mode not set: .* it needs Android 11"):
        bench(host, is_airplane_mode=True, screen_brightness=40)
    assert settings_of(phone) == ("null", "102", "1")


def test_phone_that_throttles_by_its_own_account_is_refused(host: Host, phone: Phone) -> None:
    """Otherwise the latency of a hot phone would be a result, or a denied sensor have no reason."""
    phone.show(android.thermal(2, SKIN), {"sim/dumpsys-power": "Permission Denial: no DUMP\n"})
    run = bench(host)
    found = outcomes(run)
    assert (found["thermal_status"], found["thermal_status_moderate"]) == ("fail", "fail")
    assert found["screen"] == "unknown"
    assert run.verdict == "invalid"
    absent = run.document["conditions"]["telemetry_absent"]
    assert absent["android.screen_on"] == "dumpsys power: Permission Denial: no DUMP"


def test_state_that_somebody_has_made_up_is_unknown(host: Host, phone: Phone) -> None:
    """Otherwise `override-status 0` would make a hot phone a cool one."""
    phone.show(android.thermal(0, SKIN, is_overridden=True), android.battery(3, is_faked=True))
    phone.status_of_battery("Unknown")
    found = outcomes(bench(host))
    assert (found["thermal_status"], found["thermal_status_moderate"]) == ("unknown", "unknown")
    assert found["charging"] == "unknown"


def test_phone_is_cool_by_its_own_service(host: Host) -> None:
    """Otherwise a phone would start hot, as access to the kernel's temperature files is denied."""
    result = host.run("devices", "--json", "--timeout", "0s")
    devices = {one["name"]: one for one in json.loads(result.stdout)["devices"]}
    assert devices["moto-g-5-plus"]["seat"]["temp_c"] == 31.5
    cooldown = bench(host, cooldown_timeout_s=30.0).document["conditions"]["cooldown"]
    assert (cooldown["outcome"], cooldown["reached_c"]) == ("cool", 31.5)


def test_phone_whose_agent_is_in_the_background_is_suspect(host: Host, phone: Phone) -> None:
    """Otherwise the latency of the background's slow cores would be reported as the model's."""
    with in_group("background", phone.agent.pid):
        run = bench(host)
    [rule] = [one for one in run.document["verdict"]["rules"] if one["id"] == "scheduling_group"]
    assert rule["outcome"] == "fail"
    assert "/background" in rule["detail"]
    assert run.document["conditions"]["scheduling"]["android"]["cpuset"] == "/background"


@contextmanager
def in_group(name: str, pid: int) -> Iterator[None]:
    """A process and its children are in a group of the kernel's own."""
    need_root()
    folder = CPUSETS / name
    try:
        folder.mkdir(exist_ok=True)
    except OSError as exc:
        pytest.skip(f"this kernel has no cpuset of version 1 for the tests: {exc}")
    for file in ("cpuset.cpus", "cpuset.mems"):
        (folder / file).write_text((CPUSETS / file).read_text())
    (folder / "cgroup.procs").write_text(str(pid))
    try:
        yield
    finally:
        for member in (folder / "cgroup.procs").read_text().split():
            (CPUSETS / "cgroup.procs").write_text(member)
        folder.rmdir()


def test_phone_on_a_cable_runs_from_its_battery_while_that_is_measured(
    host: Host, phone: Phone
) -> None:
    """Otherwise a phone over USB would have no energy, or would not charge after its run."""
    charge(phone)
    seen: list[bool] = []
    watcher = At(Phase.MEASURING, lambda: seen.append(is_suspended(phone)))
    run = bench(host, watcher=watcher, meter=f"agent:{phone.meter}")
    assert seen == [True]
    assert not is_suspended(phone)
    assert run.document["conditions"]["metered"]["trouble"] is None
    assert outcomes(run)["charging"] == "pass"
    assert (phone.root / "sys/class/power_supply/battery/status").read_text() == "Charging\n"


def test_phone_whose_agent_is_killed_charges_again(host: Host, phone: Phone) -> None:
    """Otherwise a run that ends badly would empty a phone on its cable.

    Last test of this agent.
    """
    charge(phone)
    seen: list[bool] = []

    def kill() -> None:
        seen.append(is_suspended(phone))
        phone.agent.kill()

    with pytest.raises(EdgebenchError):
        bench(host, watcher=At(Phase.MEASURING, kill), meter=f"agent:{phone.meter}", duration_s=60)
    assert seen == [True]
    wait_until(lambda: not is_suspended(phone), "the guard has resumed the charging")


def charge(phone: Phone) -> None:
    """Put the phone on a cable; it can be set to run from its battery."""
    phone.show({"sim/on-setprop": ON_SETPROP}, android.battery(2, plugged="USB"))
    battery = phone.root / "sys/class/power_supply/battery"
    (battery / "current_now").write_text("1210000\n")
    phone.status_of_battery("Charging")
