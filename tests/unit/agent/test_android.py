"""A phone by its properties, and what it denies."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import pytest
from support.agents import wait_until
from support.boards import BOARDS, make_board
from support.confined import in_a_child
from support.tools import need_root
from support.trees import RASPBERRY_PI_5, make_tree

from edgebench.agent.android import (
    FRESH_S,
    KEPT_S,
    AndroidProperties,
    AndroidSurroundings,
    Latest,
    describe_phone,
    identify,
    read_properties,
)
from edgebench.agent.telemetry.job import SamplerJob
from edgebench.agent.telemetry.sampler import open_sources
from edgebench.agent.worker.facts import android_groups
from edgebench.device_profiles.match import match_profile
from edgebench.protocol.device import DeviceDescription
from edgebench.protocol.record import AndroidGroups
from edgebench.system.android_commands import is_android, run_command

SERIAL = {"ro.serialno": "3A021JEHN00000"}


def properties(tmp_path: Path, name: str) -> tuple[AndroidProperties, Path]:
    """A made-up phone and its root."""
    root = make_board(tmp_path / name, BOARDS[name])
    return AndroidProperties(read_properties(root)), root


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("android_phone", ("pixel-8", "google-pixel-8", "Google Tensor G3", "Android 14 (API 34)")),
        ("android_8", ("moto-g-5-plus", "generic-android", "msm8953", "Android 8.0.0 (API 26)")),
        ("android_11", ("sm-m315f", "generic-android", "universal9611", "Android 11 (API 30)")),
        ("android_16", ("sm-s911b", "samsung-galaxy-s23", "QTI SM8550", "Android 16 (API 36)")),
    ],
)
def test_phone_is_described_by_its_properties(
    tmp_path: Path, name: str, device: tuple[str, str, str, str]
) -> None:
    """Otherwise a phone would be "localhost" with Linux, and have the profile of any board."""
    shown, root = properties(tmp_path, name)
    found = describe_phone(shown, tmp_path, None, root)
    assert (found.name, found.profile, found.soc, found.os) == device
    assert describe_phone(shown, tmp_path, "mine", root).name == "mine"
    assert match_profile(identify(shown, root)).id == device[1]


def test_phone_is_the_same_device_after_a_new_installation(tmp_path: Path) -> None:
    """Otherwise a phone would be another device each time its agent's state is removed."""
    shown, root = properties(tmp_path, "android_phone")
    assert shown.serial == SERIAL["ro.serialno"]

    def described(values: dict[str, str], state: str) -> DeviceDescription:
        (tmp_path / state).mkdir()
        return describe_phone(AndroidProperties(values), tmp_path / state, None, root)

    first, second, other = (
        described(SERIAL, "a"),
        described(SERIAL, "b"),
        described({"ro.serialno": "3A021JEHN00001"}, "c"),
    )
    assert first.id == second.id != other.id
    assert SERIAL["ro.serialno"].lower() not in first.id
    hidden = [described({"ro.serialno": text}, text or "none") for text in ("unknown", "")]
    assert hidden[0].id != hidden[1].id, "made from random numbers"


def test_environment_has_the_build_and_no_fingerprint(tmp_path: Path) -> None:
    """Otherwise a result would not state its Android version, or would reveal too much of it."""
    shown, root = properties(tmp_path, "android_16")
    profile = match_profile(identify(shown, root))
    state = tmp_path / "state"
    state.mkdir()
    environment = AndroidSurroundings(shown, profile, "id", state=state, root=root).environment()
    assert environment.os == "Android 16 (API 36)"
    system = environment.android
    assert system is not None
    assert (system.device, system.model, system.release) == ("dm1q", "SM-S911B", "16")
    assert (system.api_level, system.security_patch) == (36, "2025-11-05")
    assert system.fingerprint_sha256 is not None
    assert len(system.fingerprint_sha256) == 64
    assert system.is_shell is (os.geteuid() == 2000)


def test_emulator_of_android_is_named(tmp_path: Path) -> None:
    """Otherwise the emulator on a PC would pass for a phone."""
    _, root = properties(tmp_path, "android_8")
    shown = AndroidProperties({"ro.boot.qemu": "1"})
    profile = match_profile(identify(shown, root))
    environment = AndroidSurroundings(shown, profile, "id", state=tmp_path, root=root).environment()
    assert environment.virtualization is not None
    assert environment.virtualization.startswith("Android Emulator")
    assert environment.os == "Android"


def test_board_is_no_phone_for_its_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a PC with Android's tools would be a phone."""
    monkeypatch.setenv("ANDROID_ROOT", "/system")
    assert not is_android(make_tree(tmp_path, RASPBERRY_PI_5))


@pytest.mark.parametrize(
    ("script", "failure"),
    [
        ('echo "Permission Denial: can\'t dump battery from from pid=1, uid=10123"', "Permission"),
        ("echo nope >&2; exit 3", "dumpsys battery: nope"),
        ("exit 3", "dumpsys battery: ended with status 3"),
    ],
)
def test_command_that_is_denied_has_no_output(tmp_path: Path, script: str, failure: str) -> None:
    """Otherwise a denial, which ends with 0, would be read as a battery without a status."""
    program = tmp_path / "system/bin/dumpsys"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    output = run_command(tmp_path, "dumpsys", "battery")
    assert output.text == ""
    assert failure in output.failure


def test_command_that_is_not_there_has_a_reason(tmp_path: Path) -> None:
    """Otherwise a system without the command would end the sampler."""
    assert "No such file" in run_command(tmp_path, "dumpsys", "power").failure


def test_what_the_kernel_denies_is_absent_with_its_reason(tmp_path: Path) -> None:
    """Otherwise a phone that denies its temperatures would be reported to have none."""
    need_root()
    _, root = properties(tmp_path, "android_phone")
    for path in (tmp_path, *tmp_path.parents):
        if path == Path(tempfile.gettempdir()):
            break
        path.chmod(path.stat().st_mode | 0o011)
    zones = root / "sys/class/thermal"
    (root / "sys/devices/virtual/thermal/thermal_zone0/type").chmod(0)
    (root / "sys/class/power_supply").chmod(0)

    def absent() -> dict[str, str]:
        _, facts = open_sources(root, SamplerJob(1, str(root)))
        return {one.sensor: one.reason for one in facts.absent}

    found = in_a_child(absent, 65534)
    assert found["thermal.thermal_zone0"] == f"{zones}/thermal_zone0/type: Permission denied"
    assert found["power_supply"] == f"{root}/sys/class/power_supply: Permission denied"
    zones.chmod(0)
    assert in_a_child(absent, 65534)["thermal"] == f"{zones}: Permission denied"


def test_groups_are_those_that_android_mounts(tmp_path: Path) -> None:
    """Otherwise a background process, or a clamped clock, would look like any other."""
    files = {
        "system/build.prop": "",
        "proc/self/cgroup": "4:cpuset:/foreground/7\n2:cpu:/background\n0::/uid_2000/pid_7\n",
        "dev/cpuctl/cpu.uclamp.max": "max\n",
        "dev/cpuctl/background/cpu.uclamp.max": "50.00\n",
        "dev/cpuctl/background/cpu.uclamp.min": "0.00\n",
    }
    root = make_tree(tmp_path / "phone", files)
    assert android_groups(root) == AndroidGroups("/foreground/7", 0.0, 0.5)
    bare = make_tree(tmp_path / "bare", {"system/build.prop": "", "proc/self/cgroup": "0::/\n"})
    assert android_groups(bare) == AndroidGroups(None, None, None)
    assert android_groups(make_tree(tmp_path / "board", RASPBERRY_PI_5)) is None


def test_temperature_is_answered_at_once_and_none_is_old() -> None:
    """Otherwise each look at a phone would start a command, or wait for one that hangs."""
    now_s, temps_c, may_end = 0.0, iter((31.0, 32.0, 33.0)), threading.Event()
    may_end.set()

    def read() -> float:
        temp_c = next(temps_c)
        may_end.wait(60)
        return temp_c

    latest = Latest(read, lambda: now_s)
    assert [latest.temp_c() for _ in range(3)] == [31.0] * 3
    may_end.clear()
    now_s = FRESH_S + 1
    assert [latest.temp_c() for _ in range(3)] == [31.0] * 3, "while it is read anew"
    now_s = KEPT_S + 1
    assert latest.temp_c() is None
    may_end.set()
    wait_until(lambda: latest.temp_c() == 32.0, "it was read")
    now_s = 3 * KEPT_S
    assert latest.temp_c() == 33.0, "an answer waits for it"
