"""Names, labels and history of known devices, and how they are changed."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from support.records import DEVICE, ENVIRONMENT

from edgebench.host.devices.discovery import Access, DiscoveredDevice
from edgebench.host.devices.farm import Farm, FarmDevice, load_farm
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.devices.health import DeviceHealth, HealthFiles
from edgebench.host.devices.roster import forget, label, recorder, rename
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import NoSuchDevice, UsageError
from edgebench.protocol.messages import SeatState

PI = KnownDevice("pi5", "05bb", "p" * 43, ("192.0.2.5",), 7747)
RACK = replace(PI, name="rack", id="06cc", pin="r" * 43)
SYSTEM = SystemDescription(DEVICE, ENVIRONMENT, ())


@pytest.fixture
def files(tmp_path: Path) -> HostFiles:
    """Two devices."""
    made = HostFiles(tmp_path)
    made.remember(PI)
    made.remember(RACK)
    return made


@pytest.fixture
def farm(tmp_path: Path) -> Path:
    """Labels of a seat."""
    path = tmp_path / "farm.toml"
    path.write_text('schema = 1\n[device."rack/rock-5b"]\nlabels = ["board"]\n')
    return path


def test_renamed_device_is_the_same_device(files: HostFiles, farm: Path) -> None:
    """Otherwise a new name would cost the pairing, or the labels of the seats."""
    assert rename(files, farm, "06cc", "shelf") == replace(RACK, name="shelf")
    assert files.devices() == (PI, replace(RACK, name="shelf"))
    assert list(load_farm(farm).device) == ["shelf/rock-5b"]
    assert rename(files, farm, "shelf", "shelf").name == "shelf"


@pytest.mark.parametrize(
    ("old", "new", "error", "text"),
    [
        ("nano", "x", NoSuchDevice, "no paired device is called 'nano'"),
        ("rack", "pi5", UsageError, r"name 'pi5' is taken by the device at 192\.0\.2\.5:7747"),
        ("rack", "05bb", UsageError, "name '05bb' is taken"),
        ("rack", "a/b", UsageError, "not a name: 'a/b'"),
        ("rack", "label:x", UsageError, "not a name"),
        ("rack", "a,b", UsageError, "not a name"),
        ("rack", "pi*", UsageError, "not a name"),
        ("rack", "a b", UsageError, "not a name"),
        ("rack", "--json", UsageError, "not a name"),
        ("rack", "", UsageError, "not a name"),
        ("rack", "x" * 65, UsageError, "at most 64 characters"),
        ("rack", "all", UsageError, "name 'all' is reserved"),
        ("rack", "local", UsageError, "name 'local' is reserved"),
        ("local", "pc", UsageError, "this machine and cannot be renamed"),
        ("rack/rock-5b", "rock", UsageError, "is a device of the agent 'rack'"),
    ],
)
def test_name_that_cannot_be_is_refused(
    files: HostFiles, farm: Path, old: str, new: str, error: type[Exception], text: str
) -> None:
    """Otherwise a device could get an unusable name, or that of another device."""
    with pytest.raises(error, match=text):
        rename(files, farm, old, new)
    assert files.devices() == (PI, RACK)


def test_forgotten_device_is_gone_with_its_history(files: HostFiles, tmp_path: Path) -> None:
    """Otherwise a board that was sold would be tried every night."""
    health = HealthFiles(tmp_path)
    health.seen(PI, "machine")
    for part in ("pi", "local", "rack/rock-5b"):
        with pytest.raises(UsageError):
            forget(files, health, part)
    assert forget(files, health, "pi5") == PI
    assert files.devices() == (RACK,)
    assert health.of(PI) == DeviceHealth()


def test_labels_are_changed_together_by_one_command_each(files: HostFiles, farm: Path) -> None:
    """Otherwise one of two simultaneous commands would lose its labels."""
    words = [f"w{number}" for number in range(8)]
    threads = [
        threading.Thread(target=lambda word=word: label(files, farm, "pi5", add=[word], remove=[]))
        for word in words
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(load_farm(farm).entry(PI).labels) == words
    with pytest.raises(UsageError, match="'w0' is both added and removed"):
        label(files, farm, "pi5", add=["w0"], remove=["w0"])


def test_device_that_a_bench_hears_of_keeps_the_name_that_it_was_given(files: HostFiles) -> None:
    """Otherwise a bench that began before would restore a device's old name."""
    rename(files, Path("/nonexistent/farm.toml"), "pi5", "window-pi")
    files.revise(PI.pin, lambda known: replace(known, arch="aarch64"))
    files.revise("q" * 43, lambda known: replace(known, arch="x"))
    assert files.devices() == (replace(PI, name="window-pi", arch="aarch64"), RACK)


def test_line_of_a_device_has_labels_and_history(tmp_path: Path) -> None:
    """Otherwise the list would not show when a board was last seen, or would merge its seats."""
    health = HealthFiles(tmp_path)
    farm = Farm(
        device={
            "rack/rock-5b": FarmDevice(labels=("first",)),
            "rack/nucleo": FarmDevice(labels=("second",)),
            "pi5": FarmDevice(labels=("pi",)),
        }
    )
    record = recorder(farm, health)
    seats = [SeatState(name, DEVICE) for name in ("rock-5b", "nucleo")]
    first, second = (
        record(
            DiscoveredDevice(
                f"rack/{seat.name}", "", Access.READY, DEVICE.id, system=SYSTEM, seat=seat
            ),
            device,
        )
        for seat, device in zip(seats, (RACK, RACK.at_seat("nucleo")), strict=True)
    )
    away = record(DiscoveredDevice("pi5", "", Access.UNREACHABLE, PI.id, "refused"), PI)
    assert (first.labels, second.labels, away.labels) == (("first",), ("second",), ("pi",))
    for line in (first, second):
        assert line.health is not None
        assert line.health.last_seen_utc is not None
    assert away.health == DeviceHealth()
    assert health.of(RACK.at_seat("rock-5b")) == health.of(RACK) == first.health
