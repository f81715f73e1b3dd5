"""A phone on the real adb server: deployed to, paired with, measured, cut off and collected from.

The phone is emulated down to its debug bridge (`support.adb_phones`). What pip does on it is left
out: its environment is linked to that of the tests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.adb_phones import (
    AdbProcess,
    Cable,
    EmulatedPhone,
    adb_server,
    link,
    need_phones,
    phone,
)
from support.adbd import AdbdSettings
from support.agents import Host, wait_until
from support.process_server import StartedProcess
from support.tools import need_runtime

from edgebench.host.cli.main import main
from edgebench.host.devices import deploy
from edgebench.host.devices.adb import ready_phones
from edgebench.protocol.errors import AgentNotStarted, PhoneUnavailable

MODEL = "digits_int8.tflite"
QUICK = (
    *("--runs=1", "--duration", "0.2s", "--min-queries", "50"),
    *("--warmup", "5", "--warmup-duration", "0.05s"),
)
LONG = (
    *("--runs=1", "--duration", "3s", "--min-queries", "50", "--warmup", "5"),
    *("--scenario", "server", "--qps", "100", "--warmup-duration", "0.05s"),
)
"""A run that waits more than it computes."""


@pytest.fixture(scope="module")
def adb() -> Iterator[AdbProcess]:
    """The adb server of this file, set in the environment of every command."""
    need_phones()
    need_runtime("ai-edge-litert")
    with adb_server() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        patch.setattr(deploy, "install", link)
        yield server


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A host that deploys to phones."""
    return Host(tmp_path_factory.mktemp("host") / "h")


@pytest.fixture(scope="module")
def pixel(adb: AdbProcess, host: Host) -> Iterator[EmulatedPhone]:
    """A deployed phone, `pixel-8`; every test leaves it connected, with its agent running."""
    with phone(adb) as made:
        steps: list[str] = []
        report = host.lab.deploy(f"adb:{made.serial}", steps.append)
        assert report.device.name == "pixel-8"
        assert any("restarts; then deploy again" in step for step in steps)
        yield made


def states(host: Host) -> dict[str, Any]:
    """The lines of `edgebench devices`, by serial number or, without it, by address."""
    result = host.run("devices", "--json", "--timeout", "0s")
    assert result.returncode == 0, result.stderr
    return {line["address"].split()[0]: line for line in json.loads(result.stdout)["devices"]}


def test_phone_is_known_by_its_serial_number(host: Host, pixel: EmulatedPhone) -> None:
    """Otherwise the phone's own network addresses, where nothing listens, would be remembered."""
    [device] = host.devices
    assert (device.via, device.addresses) == ("adb", (pixel.serial,))
    assert device.deployed_to == f"adb:{pixel.serial}"
    assert pixel.adb.run("forward", "--list").strip() == "", "no port of this machine"


def test_run_on_a_phone_is_stored(host: Host, pixel: EmulatedPhone) -> None:
    """Otherwise a deployment could succeed on a phone that cannot measure."""
    result = host.run("bench", MODEL, "--on", "pixel-8", *QUICK, "--json")
    assert result.returncode in (0, 3), result.stderr
    [document] = json.loads(result.stdout)["runs"]
    assert document["device"]["name"] == "pixel-8"


def begin_run(host: Host, pixel: EmulatedPhone, device: str) -> StartedProcess:
    """Start a command that measures, and return while its run is in progress."""
    work = pixel.data / "edgebench" / "data" / "edgebench" / "agent" / "work"
    wait_until(lambda: not any(work.glob("*")), "no run is in progress")
    process = host.popen("bench", MODEL, "--on", device, *LONG)
    wait_until(lambda: any(work.glob("*")), "the run begins")
    return process


def stored(host: Host) -> list[str]:
    """Ids of the stored runs."""
    return sorted(path.name for path in (host.folder / "data/edgebench/runs").glob("*"))


@pytest.mark.parametrize("cut", ["cable", "server"])
def test_run_that_is_cut_off_is_collected(host: Host, pixel: EmulatedPhone, cut: str) -> None:
    """Otherwise a loose cable or `adb kill-server` would cost a run."""
    before = stored(host)
    process = begin_run(host, pixel, "pixel-8")
    if cut == "cable":
        pixel.cable.pull()
    else:
        pixel.adb.kill_server()
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 1, errors
    assert "connection to pixel-8" in errors
    assert "edgebench collect --on pixel-8" in errors
    if cut == "cable":
        with pytest.raises(PhoneUnavailable, match="is offline"):
            host.lab.connect("pixel-8")
        pixel.cable.plug()
    pixel.connect()
    result = host.run("collect", "--on", "pixel-8")
    [collected] = set(stored(host)) - set(before)
    is_invalid = host.lab.run(collected).verdict == "invalid"
    assert result.returncode == (3 if is_invalid else 0), result.stderr


def test_restart_of_the_phone_is_named_and_mended(host: Host, pixel: EmulatedPhone) -> None:
    """Otherwise the user would see a TLS error, or pair the phone again and lose its runs."""
    process = begin_run(host, pixel, "pixel-8")
    process.kill()
    process.communicate(timeout=60)
    [before] = host.devices
    pixel.switch_off()
    pixel.start()
    pixel.connect()
    with pytest.raises(AgentNotStarted, match=rf"^no agent runs on pixel-8 \(adb:{pixel.serial}\)"):
        host.lab.connect("pixel-8")
    assert host.lab.deploy(f"adb:{pixel.serial}").device.pin == before.pin
    result = host.run("collect", "--on", "pixel-8")
    assert "is no longer on the device" in result.stderr, "the run that the restart has ended"


def test_phones_that_cannot_be_used_are_listed_with_the_reason(
    host: Host, adb: AdbProcess, pixel: EmulatedPhone
) -> None:
    """Otherwise the user would have to know `adb devices` and the meaning of its output."""
    plain = AdbdSettings("")
    no_shell = replace(plain, features=("cmd",))
    with (
        phone(adb, is_namespaced=False, settings=replace(plain, is_authorised=False)) as locked,
        phone(adb, is_namespaced=False, settings=no_shell) as old,
        phone(adb, model="Pixel 9") as fresh,
    ):
        wait_until(lambda: locked.state() == "unauthorized", "the phone asks for its owner")
        listed = states(host)
        assert listed[pixel.serial]["access"] == "ready"
        for stranger, words in (
            (locked, "unauthorised: USB debugging from this computer is not allowed"),
            (old, "without shell_v2"),
            (fresh, f"ready; edgebench deploy adb:{fresh.serial}"),
        ):
            line = listed[stranger.serial]
            assert line["access"] == "not paired"
            assert words in line["reason"]
        for stranger, words in ((locked, "unauthorised"), (old, "without shell_v2")):
            with pytest.raises(PhoneUnavailable, match=f"^adb:{stranger.serial} is {words}"):
                host.lab.deploy(f"adb:{stranger.serial}")
        result = host.run("deploy", "adb:all", "--python", "/nowhere/python")
        assert result.returncode == 1
        skipped = [line for line in result.stderr.splitlines() if " failed: " in line]
        assert len(skipped) == 2, "the two that are ready"
        for ready, line in zip(sorted((pixel.serial, fresh.serial)), sorted(skipped), strict=True):
            assert f"note: adb:{ready} failed: no Python 3.10 or newer" in line


def test_phone_by_cable_and_by_wifi_is_one_phone(adb: AdbProcess, pixel: EmulatedPhone) -> None:
    """Otherwise `deploy adb:all` would deploy to one phone twice at once."""
    wifi = Cable(str(pixel.folder / "adbd"))
    wifi.plug()
    try:
        adb.run("connect", f"127.0.0.1:{wifi.port}")
        wait_until(lambda: adb.run("devices").count("\tdevice") == 2, "both links are ready")
        assert len(ready_phones()) == 1
    finally:
        adb.run("disconnect", f"127.0.0.1:{wifi.port}")
        wifi.pull()


def test_two_phones_measure_at_the_same_time(
    host: Host, adb: AdbProcess, pixel: EmulatedPhone
) -> None:
    """Otherwise phones of one model would count as one phone, or wait for each other."""
    with phone(adb) as second:
        assert host.lab.deploy(f"adb:{second.serial}").device.name == "pixel-8-2"
        before = stored(host)
        result = host.run("bench", MODEL, "--on", "pixel-8,pixel-8-2", *QUICK)
        assert result.returncode in (0, 3), result.stderr
        assert len(stored(host)) == len(before) + 2
        assert host.lab.undeploy(f"adb:{second.serial}").was_there
        assert second.leftovers() == []
    assert [device.name for device in host.devices] == ["pixel-8"]


def test_phones_of_one_model_are_deployed_to_at_the_same_time(
    adb: AdbProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise both would get the same name, and the first would be forgotten."""
    fresh = Host(tmp_path / "h")
    for name, value in fresh.environment.items():
        monkeypatch.setenv(name, value)
    with phone(adb) as first, phone(adb) as second:
        targets = [f"adb:{made.serial}" for made in (first, second)]
        assert main(["deploy", *targets]) == 0
        assert sorted(device.name for device in fresh.devices) == ["pixel-8", "pixel-8-2"]
        assert {device.deployed_to for device in fresh.devices} == set(targets)
        assert main(["deploy", *targets, "--uninstall"]) == 0
        assert fresh.devices == ()
        assert first.leftovers() == second.leftovers() == []
