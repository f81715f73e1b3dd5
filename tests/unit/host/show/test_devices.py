"""The table of the devices, and the line of a check."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

import pytest
from rich.console import Console
from support.records import DEVICE, ENVIRONMENT

from edgebench.host.devices.discovery import Access, DiscoveredDevice
from edgebench.host.devices.health import CheckState, DeviceHealth, HealthCheck, HealthEvent
from edgebench.host.show.devices import check_line, devices_table
from edgebench.protocol.device import RuntimeReport, SystemDescription
from edgebench.protocol.messages import SeatState

NOW = datetime(2026, 11, 23, 12, tzinfo=timezone.utc)
RUNTIMES = tuple(
    RuntimeReport(name, ("tflite",), "2.14.0") for name in ("litert", "tflite", "onnx")
)
SYSTEM = SystemDescription(replace(DEVICE, profile="raspberrypi-zero-2-w"), ENVIRONMENT, RUNTIMES)
SEAT = SeatState("machine", DEVICE, held_by="ada-laptop", held_for_s=75.0, running="r-1", temp_c=61)
AWAY = "cannot reach jetson (192.0.2.7:7747): No route to host"
DEAD = DeviceHealth(
    last_seen_utc="2026-11-20T11:00:00+00:00",
    failure_count=3,
    quarantined_utc="2026-11-23T09:00:00+00:00",
    quarantine_reason=f"3 failures in a row, the last: {AWAY}",
    quarantined_after=3,
    events=(HealthEvent("2026-11-23T09:00:00+00:00", "unreachable", AWAY),),
)
BUSY = DiscoveredDevice(
    "pi5", "192.0.2.5:7747", Access.READY, "05", system=SYSTEM, seat=SEAT,
    labels=("pi", "rack-2"), health=DeviceHealth(last_seen_utc=NOW.isoformat()),
)  # fmt: skip
LOST = DiscoveredDevice(
    "jetson", "192.0.2.7:7747", Access.UNREACHABLE, "07", reason=AWAY, health=DEAD
)
OLD = DiscoveredDevice("old", "192.0.2.9:7747", Access.READY, "09", system=SYSTEM)


def lines_of(devices: Sequence[DiscoveredDevice], width: int = 100) -> list[str]:
    """The output on a terminal of this width."""
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(
        devices_table(devices, NOW, width=width)
    )
    return out.getvalue().splitlines()


def words_of(devices: Sequence[DiscoveredDevice], width: int = 200) -> str:
    """All words of a wide table."""
    return " ".join(" ".join(lines_of(devices, width)).split())


def test_busy_device_says_who_has_it_and_since_when() -> None:
    """Otherwise an operator would have to search the lab for a board's user and temperature."""
    words = words_of([BUSY])
    assert "in use by ada-laptop for 0:01:15" in words
    for part in ("in use", "61 °C", "now", "runs r-1", "labels: pi, rack-2"):
        assert part in words


def test_device_that_is_away_says_since_when_and_why_it_is_left_out() -> None:
    """Otherwise a board that died three days ago would look like one that is being restarted."""
    words = words_of([LOST])
    for part in ("3 d ago", "quarantined for 3 h: 3 failures in a row", "unreachable"):
        assert part in words
    assert words.count("No route to host") == 1


def test_unplugged_device_says_since_when() -> None:
    """Otherwise an unplugged board would look like one whose network is down."""
    seat = SeatState("nucleo", DEVICE, gone_for_s=7500.0)
    gone = DiscoveredDevice("rack/nucleo", "192.0.2.5:7747", Access.GONE, "05", seat=seat)
    words = words_of([gone])
    assert "rack/nucleo gone — 2 h ago" in words
    assert "no longer connected to its agent since 2026-11-23 09:55 UTC" in words


def test_failures_before_a_quarantine_are_shown() -> None:
    """Otherwise a board that dies every second night would look well."""
    event = HealthEvent("2026-11-23T09:00:00+00:00", "worker_died", "killed by signal 9", "a.onnx")
    failed = replace(BUSY, seat=None, health=DeviceHealth(failure_count=1, events=(event,)))
    words = words_of([failed])
    assert "1 failure" in words
    assert "last failure: killed by signal 9" in words


def test_older_agent_shows_what_it_can() -> None:
    """Otherwise one agent of the previous version would make the list fail."""
    words = words_of([OLD])
    assert "old ready — now raspberrypi-zero-2-w" in words


@pytest.mark.parametrize("width", [100, 120, 160])
def test_nothing_is_cut_off_a_terminal(width: int) -> None:
    """Otherwise the reason why a board is left out would end in the middle of a word."""
    name = "simulated-rack-of-the-second-floor/raspberry-pi-5-cooled"
    lines = lines_of([BUSY, LOST, replace(OLD, name=name)], width)
    assert max(map(len, lines)) <= width
    letters = "".join("".join(lines).split())
    for whole in (AWAY, "labels: pi, rack-2", "raspberrypi-zero-2-w"):
        for word in whole.split():
            assert word in letters, word


def test_line_of_a_check() -> None:
    """Otherwise neither a script nor a user would see which device is ill, or why."""
    well = HealthCheck(
        name="pi5", state=CheckState.WELL, temp_c=41.2, models_room_bytes=2**30,
        uncollected_count=2, model="digits_int8.tflite", latency_ns_p50=61_500.0,
    )  # fmt: skip
    assert check_line(well) == (
        "pi5: well, digits_int8.tflite in 61.5 µs, 41 °C, room for models: 1.00 GiB, "
        "2 runs to collect"
    )
    bare = HealthCheck(name="old", state=CheckState.WELL)
    assert check_line(bare) == "old: well"
    ill = HealthCheck(name="pi4", state=CheckState.UNWELL, reason="disk full")
    assert check_line(ill) == "pi4: not well: disk full"


@pytest.mark.parametrize("width", [60, 80])
def test_narrow_terminal_shows_every_word(width: int) -> None:
    """Otherwise runtimes would be cut off at the edge of the terminal, and remarks be missing."""
    lines = lines_of([BUSY, LOST], width)
    assert max(map(len, lines)) <= width
    shown = "".join("".join(lines).split())
    for word in (
        *(runtime.name for runtime in RUNTIMES if runtime.is_usable),
        "labels:",
        "unreachable",
    ):
        assert word in shown
    place = next(line.index("profile") for line in lines if "remark" in line)
    remarks = "".join("".join(line[place:].split()) for line in lines)
    assert "".join(AWAY.split()) in remarks


@pytest.mark.parametrize("width", [80, 100, 160])
def test_name_and_address_are_whole(width: int) -> None:
    """Otherwise a name that has to be typed would be folded although it fits."""
    name, address = "rack-2/raspberry-pi-5-with-a-fan-42", "192.168.100.101:65535"
    lines = lines_of([BUSY, replace(OLD, name=name, address=address)], width)
    for whole in (name, address):
        assert any(whole in line for line in lines)


def test_temperature_and_age_are_there_where_there_is_room() -> None:
    """Otherwise they would be missing on a wide terminal, or displace a name on a narrow one."""
    assert "temp" not in lines_of([BUSY], 85)[1]
    assert "temp" in lines_of([BUSY], 91)[1]
