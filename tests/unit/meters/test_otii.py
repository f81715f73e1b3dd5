"""A made-up Otii server, which is first checked with its maker's own client."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.agents import wait_until
from support.otii import OtiiEmulator
from support.recordings import Decoded, decoded

from edgebench.host.analysis.energy.in_step import refuse_few_instants
from edgebench.meters.base import AbsentMeter, Flag, Header, Packet
from edgebench.meters.otii import OtiiDecoder
from edgebench.meters.registry import find_meter
from edgebench.meters.uncertainty import Kind
from edgebench.protocol.errors import MeasurementError, TargetError


def ramp(index: int) -> float:
    """A value that distinguishes samples."""
    return (index % 1000) * 1e-4


def answer(monkeypatch: pytest.MonkeyPatch, command: str, data: dict[str, Any]) -> None:
    """Make servers reply to this command with the data."""
    obey = OtiiEmulator._obey

    def changed(server: OtiiEmulator, asked: str, its: dict[str, Any]) -> dict[str, Any]:
        return data if asked == command else obey(server, asked, its)

    monkeypatch.setattr(OtiiEmulator, "_obey", changed)


def opened(server: OtiiEmulator, options: str = "") -> Header:
    """Header of a meter that must open."""
    meter = find_meter(f"otii:{server.address}{options}")
    header = meter.open()
    meter.close()
    assert isinstance(header, Header), header
    return header


def recorded(server: OtiiEmulator, path: Path) -> tuple[Decoded, str | None]:
    """A recording of more than 10 000 samples, if nothing ends it; and why it ended early."""
    with server:
        meter = find_meter(f"otii:{server.address}")
        assert isinstance(meter.open(), Header)
        with meter.session(path) as session:
            wait_until(
                lambda: server.fetched_count > 10_000 or session.trouble, "recording is over"
            )
        meter.close()
    return decoded(path), session.trouble


def test_server_is_one_for_the_client_of_its_maker() -> None:
    """Otherwise our emulator could have a protocol that only our driver understands."""
    client_of: Any = pytest.importorskip(
        "otii_tcp_client.otii_client",
        reason="otii-tcp-client is not installed: it reads our emulator as a second client",
    )
    with OtiiEmulator(current_a=ramp) as server:
        client = client_of.OtiiClient()
        otii = client.connect(host="127.0.0.1", port=server.port, try_for_seconds=1)
        [device] = otii.get_devices(timeout=1)
        project = otii.create_project()
        device.add_to_project()
        device.enable_channel("mc", True)
        assert device.get_main_voltage() == 3.7
        project.start_recording()
        time.sleep(0.2)
        project.stop_recording()
        recording = project.get_last_recording()
        count = recording.get_channel_data_count(device.id, "mc")
        data = recording.get_channel_data(device.id, "mc", 0, count)
        client.disconnect()
    assert count >= 5000
    assert data["values"] == [ramp(index) for index in range(count)]
    assert data["interval"] == pytest.approx(1 / 50_000)


@pytest.mark.parametrize("is_chatty", [False, True])
def test_every_sample_is_fetched_once(tmp_path: Path, is_chatty: bool) -> None:
    """Otherwise samples would be lost between two fetches, or progress pass for a reply."""
    server = OtiiEmulator(current_a=ramp, is_chatty=is_chatty)
    found, trouble = recorded(server, tmp_path / "r")
    assert trouble is None
    assert not server.is_recording
    assert len(found.current_a) > 10_000
    assert found.current_a == pytest.approx([ramp(at) for at in range(len(found.current_a))])
    assert found.power_w == pytest.approx(3.7 * found.current_a)
    assert found.time_ns[-1] == pytest.approx((len(found.time_ns) - 1) * 20_000)
    assert found.loss.lost_count == 0


def test_header_says_what_the_unit_is() -> None:
    """Otherwise an Arc would pass for an Ace.

    An Arc samples too slowly to see what repeats.
    """
    with OtiiEmulator() as ace, OtiiEmulator(model="Arc", rate_hz=4000) as arc:
        good, slow = opened(ace), opened(arc)
        assert set(ace.commands) <= {
            *("otii_get_devices", "arc_get_main", "arc_get_main_voltage", "arc_get_version"),
            "arc_get_channel_samplerate",
        }, "it only looks"
    assert (good.info.model, good.info.firmware) == ("Otii Ace", "2.1.4")
    gains = [
        next(term.value for term in one.uncertainty if term.kind is Kind.GAIN)
        for one in (good, slow)
    ]
    assert gains == [5e-4, 1e-3]
    refuse_few_instants(good.capability)
    with pytest.raises(MeasurementError, match="4000 instantaneous samples per second"):
        refuse_few_instants(slow.capability)


def test_unit_is_the_one_that_is_named() -> None:
    """Otherwise the other unit's device would be measured."""
    with OtiiEmulator(names=("left", "right")) as server:
        assert opened(server, ",device=right").info.serial.endswith("1")
        found = find_meter(f"otii:{server.address}").open()
        assert isinstance(found, AbsentMeter)
        assert found.reason == "name a unit, as in otii,device=NAME; the server has left, right"


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (OtiiEmulator(license=None), "No license; log in to Otii, and reserve an Automation"),
        (OtiiEmulator(is_main_on=False), "the main output of this Ace is off: switch it on"),
        (OtiiEmulator(names=()), "the server has none"),
        (OtiiEmulator(rate_hz=0), "to arc_get_channel_samplerate: 0"),
    ],
)
def test_what_cannot_be_measured_says_why(server: OtiiEmulator, said: str) -> None:
    """Otherwise a missing license would be a traceback, or an output that is off be 0 W."""
    with server:
        found = find_meter(f"otii:{server.address}").open()
    assert isinstance(found, AbsentMeter)
    assert said in found.reason
    assert "\n" not in found.reason


@pytest.mark.parametrize(
    ("command", "data", "said"),
    [
        ("otii_get_devices", {"devices": 3}, "to otii_get_devices: 3"),
        *(
            ("arc_get_main_voltage", {"value": value}, f"to arc_get_main_voltage: {value!r:.60}")
            for value in (float("inf"), float("nan"), True, "x", -1, 10**400)
        ),
        ("arc_get_channel_samplerate", {"value": True}, "to arc_get_channel_samplerate: True"),
        ("arc_get_channel_samplerate", {"value": float("inf")}, "channel_samplerate: inf"),
    ],
)
def test_server_that_answers_nonsense_is_told(
    monkeypatch: pytest.MonkeyPatch, command: str, data: dict[str, Any], said: str
) -> None:
    """Otherwise a reply of another type would be a traceback, or an endless power."""
    answer(monkeypatch, command, data)
    with OtiiEmulator() as server:
        found = find_meter(f"otii:{server.address}").open()
    assert isinstance(found, AbsentMeter)
    assert said in found.reason


@pytest.mark.parametrize("data", [{}, {"count": "x"}, {"count": True}])
def test_count_that_is_none_ends_the_recording(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, data: dict[str, Any]
) -> None:
    """Otherwise a recording that ends early would be reported in words of Python."""
    command = "recording_get_channel_data_count"
    answer(monkeypatch, command, data)
    _, trouble = recorded(OtiiEmulator(), tmp_path / "r")
    value = data.get("count")
    assert trouble == f"the Otii server returned an invalid value to {command}: {value!r}"


def test_project_without_a_number_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Otherwise a recording that cannot begin would be a traceback."""
    answer(monkeypatch, "otii_create_project", {"name": "x"})
    with OtiiEmulator() as server:
        meter = find_meter(f"otii:{server.address}")
        assert isinstance(meter.open(), Header)
        with pytest.raises(TargetError, match="to otii_create_project: None"):
            meter.session(tmp_path / "r").__enter__()
        meter.close()


def test_server_that_goes_away_costs_nothing_that_was_fetched(tmp_path: Path) -> None:
    """Otherwise a recording would be lost with the connection."""
    found, trouble = recorded(OtiiEmulator(current_a=ramp, gone_after=8000), tmp_path / "r")
    assert trouble is not None
    assert "Otii server" in trouble
    assert len(found.current_a) >= 8000
    assert found.current_a == pytest.approx([ramp(at) for at in range(len(found.current_a))])


def test_value_that_is_none_is_missing(tmp_path: Path) -> None:
    """Otherwise a hole would be 0 A."""
    server = OtiiEmulator(
        current_a=lambda index: None if index == 5 else 6.0 if index == 6 else 0.1
    )
    found, _ = recorded(server, tmp_path / "r")
    assert found.flags[4:8].tolist() == [0, Flag.MISSING, Flag.SATURATED, 0]
    assert np.isnan(found.power_w[5])
    assert (found.loss.lost_count, found.loss.saturated_count) == (1, 1)


def test_damaged_line_is_told() -> None:
    """Otherwise a damaged recording would have another number of samples without notice."""
    with OtiiEmulator() as server:
        decoder = OtiiDecoder(opened(server))
    line = b'{"data":{"values":[0.1,0.2]}}\n'
    blocks = [
        b for at in range(0, len(line), 7) for b in decoder.feed(Packet(0, 0, line[at : at + 7]))
    ]
    assert [len(block.power_w) for block in blocks] == [2]
    assert decoder.feed(Packet(0, 0, b'{"data":{"val\n')) == []
    assert decoder.loss().is_ambiguous


def test_value_that_no_float_holds_is_missing() -> None:
    """Otherwise one value that is out of range would lose a stored recording."""
    with OtiiEmulator() as server:
        decoder = OtiiDecoder(opened(server))
    line = b'{"data":{"values":[0.1,%b,Infinity,true,0.2]}}\n' % (b"9" * 400)
    [block] = decoder.feed(Packet(0, 0, line))
    assert block.flags.tolist() == [0, *(3 * [Flag.MISSING]), 0]
    assert np.isnan(block.power_w).tolist() == [False, True, True, True, False]


def test_line_that_is_nested_too_deeply_is_damaged() -> None:
    """Otherwise one line would lose a stored recording."""
    with OtiiEmulator() as server:
        decoder = OtiiDecoder(opened(server))
    assert decoder.feed(Packet(0, 0, b"[" * 200_000 + b"\n")) == []
    assert decoder.loss().is_ambiguous
