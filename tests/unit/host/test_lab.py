"""The verbs of the Python interface, before anything is measured."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from support.watchers import on

from edgebench.host.bench import host as host_module
from edgebench.host.bench.events import DeviceSkipped
from edgebench.host.bench.runs import DeviceRuns
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.devices.health import HealthFiles
from edgebench.host.lab import Lab
from edgebench.meters.synthetic.device import Synthetic
from edgebench.protocol.errors import AllQuarantined, Unreachable, UsageError

CLOSED_PORT = 9
METER = "synthetic:constant,power=1"
MODEL = "digits_int8.tflite"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Events of the meter."""
    seen: list[str] = []
    open_it = Synthetic.open

    def note(meter: Synthetic) -> Any:
        seen.append("opened")
        return open_it(meter)

    monkeypatch.setattr(Synthetic, "open", note)
    monkeypatch.setattr(Synthetic, "close", lambda _: seen.append("closed"))
    return seen


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lab with a store and no devices."""
    return Lab(tmp_path / "store", config=tmp_path / "config")


WRONG: tuple[dict[str, Any], ...] = (
    {"ambient_c": 200.0},
    {"duration_s": -1.0},
    {"preset": "slow"},
    {"on": ["a", "b"]},
)


@pytest.mark.parametrize("wrong", WRONG)
def test_meter_is_not_opened_for_what_cannot_be(
    lab: Lab, opened: list[str], wrong: dict[str, Any]
) -> None:
    """Otherwise a notebook that requests 200 °C would keep the serial port until it ends."""
    with pytest.raises(UsageError):
        lab.bench(MODEL, meter=METER, **wrong)
    with pytest.raises(UsageError):
        lab.bench_against(MODEL, "digits_fp32.tflite", meter=METER, **wrong)
    assert opened == []


def test_meter_is_closed_where_the_device_is_not_there(lab: Lab, opened: list[str]) -> None:
    """Otherwise the next command would find the port busy."""
    with pytest.raises(UsageError, match="nowhere"):
        lab.bench(MODEL, meter=METER, on=["nowhere"])
    assert opened == []
    lab._host.files.remember(KnownDevice("away", "0a", "a" * 43, ("127.0.0.1",), CLOSED_PORT))
    with pytest.raises(Unreachable, match="away"):
        lab.bench(MODEL, meter=METER, on=["away"])
    assert opened == ["opened", "closed"]


def test_one_wire_does_not_measure_two_devices(lab: Lab) -> None:
    """Otherwise the power of one board would be printed as that of the other."""
    with pytest.raises(UsageError, match="is wired to one device, not to a, b"):
        lab.bench(MODEL, meter=METER, on=["a", "b"])


def test_quarantined_device_is_measured_only_if_it_is_named(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a dead board would cost a timeout each night, or be skipped silently for good."""
    files, health = HostFiles(tmp_path / "config"), HealthFiles(tmp_path / "config")
    for number, name in enumerate(("pi4", "pi5")):
        files.remember(KnownDevice(name, f"0{number}", f"{number}" * 43, (), CLOSED_PORT))
    health.quarantine(files.devices()[0], "check_failed", "its disk is full")
    chosen: list[list[str]] = []
    left: list[tuple[str, str]] = []

    def measure_side_by_side(works: Sequence[DeviceRuns], *_: object, **__: object) -> None:
        chosen.append([work.target.device.name for work in works])

    keep = on(
        DeviceSkipped, lambda event: left.append((event.device, event.health.quarantine_reason))
    )
    monkeypatch.setattr(host_module, "measure_side_by_side", measure_side_by_side)
    monkeypatch.setattr(host_module, "FinishingProcess", nullcontext)

    def measure(*words: str) -> list[str]:
        left.clear()
        lab.bench(MODEL, on=words, watcher=keep)
        return chosen[-1]

    assert measure("all") == ["pi5"]
    assert left == [("pi4", "its disk is full")]
    assert measure("name:pi*") == ["pi5"]
    assert left == [("pi4", "its disk is full")]
    assert measure("all", "pi4") == ["pi5", "pi4"]
    assert measure("pi4") == ["pi4"]
    assert left == []
    with pytest.raises(AllQuarantined, match="'name:pi4' matches only devices in quarantine: pi4"):
        lab.bench(MODEL, on=["name:pi4"])
    (tmp_path / "config" / "farm.toml").write_text("schema = 1\nquarantine_after = 0\n")
    assert measure("all") == ["pi4", "pi5"]
