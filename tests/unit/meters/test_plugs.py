"""Smart plugs against made-up plugs, which are first checked with other clients.

aioshelly and python-kasa read the made-up plugs in these tests. tasmotadevicecontroller 0.0.8 read
the made-up Tasmota by hand (Status, Status 0, Status 8, Status 10): it is of 2020, and no test
installs it.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.agents import wait_until
from support.plugs import MAC, KasaEmulator, ShellyEmulator, TasmotaEmulator
from support.recordings import decoded
from support.threaded import TcpServer

from edgebench.meters.base import AbsentMeter, Flag, Header
from edgebench.meters.kasa import KasaDecoder, scrambled
from edgebench.meters.plug import PlugDecoder, PlugReading
from edgebench.meters.registry import find_meter
from edgebench.meters.shelly import ShellyDecoder
from edgebench.meters.tasmota import TasmotaDecoder
from edgebench.meters.uncertainty import Kind
from edgebench.protocol.errors import WrongMeterOption

Plug = ShellyEmulator | TasmotaEmulator | KasaEmulator
PLUGS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "shelly": ShellyEmulator,
    "shelly of generation 1": lambda: ShellyEmulator(generation=1),
    "tasmota": lambda: TasmotaEmulator(decimals=1),
    "tasmota before version 6": lambda: TasmotaEmulator(decimals=1, is_old=True),
    "kasa": KasaEmulator,
    "kasa of the first version": lambda: KasaEmulator(is_first=True),
}

HUGE = b"9" * 400
"""JSON of an integer that no float holds."""


@dataclass(slots=True)
class Peer(TcpServer):
    """A server at the address of a plug that sends each connection the next reply."""

    answers: list[bytes]
    """Replies in order; the last is repeated."""
    answered: int = 0

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(0.5)
        connection.recv(4096)
        connection.sendall(self.answers[0])
        self.answers = self.answers[1:] or self.answers
        self.answered += 1


def until_answered(peer: Plug | Peer, count: int) -> None:
    """Wait until it has sent so many more replies."""
    enough = peer.answered + count
    wait_until(lambda: peer.answered >= enough, f"{count} answers")


def page(content: object) -> bytes:
    """JSON as a web server sends it."""
    text = json.dumps(content).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(text), text)


def message(content: object) -> bytes:
    """JSON as a Kasa plug sends it."""
    text = json.dumps(content).encode()
    return len(text).to_bytes(4, "big") + scrambled(text)


def text_of(name: str, plug: Plug, options: str = "") -> str:
    """The text for `--meter`."""
    return f"{name.split()[0]}:{plug.address}{options}"


def refused(text: str) -> str:
    """Why the meter cannot be used."""
    found = find_meter(text).open()
    assert isinstance(found, AbsentMeter)
    assert "\n" not in found.reason
    return found.reason


def opened(text: str) -> Header:
    """Header of a meter that must open."""
    header = find_meter(text).open()
    assert isinstance(header, Header), header
    return header


@pytest.mark.filterwarnings("ignore")  # of the client and its dependencies
def test_shelly_is_one_for_aioshelly() -> None:
    """Otherwise our emulator could have a protocol that only our driver understands."""
    aioshelly = pytest.importorskip(
        "aioshelly.rpc_device",
        reason="aioshelly is not installed: it reads our emulator as a second client",
    )
    aiohttp = pytest.importorskip(
        "aiohttp", reason="aiohttp is not installed: aioshelly reads our emulator by it"
    )
    from aioshelly.common import ConnectionOptions, get_info

    async def look(port: int) -> tuple[dict[str, Any], Any, str]:
        async with aiohttp.ClientSession() as session:
            info = await get_info(session, "127.0.0.1", port=port)
            options = ConnectionOptions("127.0.0.1", port=port)
            device = await aioshelly.RpcDevice.create(session, None, options)
            await device.initialize()
            found = device.status["switch:0"], device.model
            await device.shutdown()
            return info, *found

    with ShellyEmulator(power_w=22.9) as plug:
        info, switch, model = asyncio.run(look(plug.port))
    assert (info["gen"], info["mac"], model) == (3, MAC, "S3PL-00112EU")
    assert (switch["apower"], switch["voltage"], switch["output"]) == (22.9, 230.1, True)


@pytest.mark.filterwarnings("ignore")  # of the client and its dependencies
@pytest.mark.parametrize("is_first", [False, True])
def test_kasa_plug_is_one_for_python_kasa(is_first: bool) -> None:
    """Otherwise our emulator could have a protocol that only our driver understands."""
    kasa = pytest.importorskip(
        "kasa", reason="python-kasa is not installed: it reads our emulator as a second client"
    )

    async def look(port: int) -> tuple[str, float, float]:
        config = kasa.DeviceConfig(
            host="127.0.0.1",
            port_override=port,
            connection_type=kasa.DeviceConnectionParameters(
                kasa.DeviceFamily.IotSmartPlugSwitch, kasa.DeviceEncryptionType.Xor
            ),
        )
        device = await kasa.Device.connect(config=config)
        energy = device.modules[kasa.Module.Energy]
        found = device.model, energy.current_consumption, energy.voltage
        await device.disconnect()
        return found

    with KasaEmulator(power_w=22.9, is_first=is_first) as plug:
        model, power_w, voltage_v = asyncio.run(look(plug.port))
    assert model.startswith("HS110")
    assert power_w == 22.9
    assert voltage_v == pytest.approx(230.1, abs=0.1)


@pytest.mark.parametrize("name", PLUGS)
def test_power_is_what_the_plug_shows(name: str, tmp_path: Path) -> None:
    """Otherwise a unit would be wrong by a thousand, or a change be overlooked."""
    with PLUGS[name]() as plug:
        meter = find_meter(text_of(name, plug, ",rate=5"))
        assert isinstance(meter.open(), Header)
        with meter.session(tmp_path / "r") as session:
            until_answered(plug, 4)
            plug.power_w = 50.0
            until_answered(plug, 4)
        meter.close()
    assert session.trouble is None
    found = decoded(tmp_path / "r")
    assert set(found.power_w.round(3)) == {22.9, 50.0}
    assert len(found.power_w) >= 5


def test_plug_is_not_better_than_it_is() -> None:
    """Otherwise seconds of averaging would pass for an instant, or whole watts for milliwatts."""
    with TasmotaEmulator() as whole, ShellyEmulator() as tenth:
        headers = [opened(f"tasmota:{whole.address}"), opened(f"shelly:{tenth.address}")]
    steps = [
        next(term.value for term in header.uncertainty if term.kind is Kind.RESOLUTION)
        for header in headers
    ]
    assert steps == [0.5, 0.05]
    for header in headers:
        capability = header.capability
        assert not capability.is_averaging
        assert capability.smoothing_s == 5.0
        assert capability.min_window_s == 60.0
        assert capability.channels[0].boundary == "wall"
    assert headers[1].info.model == "PlugSG3"
    assert headers[0].info.firmware == "14.2.0(tasmota)"


def test_component_that_measures_is_found() -> None:
    """Otherwise a meter without an outlet, or the second of two, could not be read."""
    meters: dict[str, dict[str, Any]] = {
        "pm1:0": {"id": 0, "apower": 5.0, "voltage": 230.0, "current": 0.05},
        "em1:1": {"id": 1, "act_power": 7.0, "voltage": 230.0, "current": 0.05},
        "switch:2": {"id": 2, "output": True},
    }
    with ShellyEmulator(components=meters) as plug:
        opened(f"shelly:{plug.address}")
        assert plug.paths[-1] == "/rpc/PM1.GetStatus?id=0"
        opened(f"shelly:{plug.address},channel=1")
        assert plug.paths[-1] == "/rpc/EM1.GetStatus?id=1"
        reason = refused(f"shelly:{plug.address},channel=2")
    assert "no component 2 measures power" in reason


def test_outlet_of_a_strip_is_the_one_that_is_named() -> None:
    """Otherwise the neighbour's power would be measured."""
    with KasaEmulator(outlets=6) as strip:
        assert "several outlets: select channel=0 to 5" in refused(f"kasa:{strip.address}")
        opened(f"kasa:{strip.address},channel=3")
        assert strip.questions[-1]["context"] == {"child_ids": ["8006E03"]}


@pytest.mark.parametrize(
    ("name", "plug", "said"),
    [
        ("shelly", ShellyEmulator(is_on=False), "is off: switch it on"),
        ("tasmota", TasmotaEmulator(is_on=False), "is off: switch it on"),
        ("kasa", KasaEmulator(is_on=False), "HS110(EU) is off: switch it on"),
        ("shelly", ShellyEmulator(status=401), "requires a password"),
        ("tasmota", TasmotaEmulator(warning="Need user=<username>"), "Need user=<username>"),
        ("tasmota", TasmotaEmulator(energy={"Total": 1}), "Gosund SP1 reports no power"),
        ("kasa", KasaEmulator(err_code=-1), "HS110(EU) reports no power"),
        ("shelly", TasmotaEmulator(), "rejected /shelly with error 404"),
    ],
)
def test_plug_that_cannot_be_measured_says_why(name: str, plug: Plug, said: str) -> None:
    """Otherwise a plug that is off would be 0 W, or a password be required without a reason."""
    with plug:
        assert said in refused(text_of(name, plug))


@pytest.mark.parametrize("name", ["shelly", "tasmota", "kasa"])
def test_address_without_a_plug_says_so(name: str) -> None:
    """Otherwise a wrong address would be a traceback."""
    assert refused(name) == f"plug address missing: add the address, as in {name}:192.168.1.20"
    reason = refused(f"{name}:127.0.0.1:1")
    assert "127.0.0.1:1" in reason
    assert "refused" in reason


@pytest.mark.parametrize("name", ["shelly", "tasmota"])
def test_port_that_is_no_number_is_a_typing_error(name: str) -> None:
    """Otherwise a typing error would be reported as a plug that is away."""
    with pytest.raises(WrongMeterOption, match="address must be HOST or HOST:PORT, got 'lab:abc'"):
        find_meter(f"{name}:lab:abc")


@pytest.mark.parametrize("name", ["shelly", "tasmota"])
def test_what_is_no_web_server_is_no_plug(name: str) -> None:
    """Otherwise the address of another machine would be a traceback."""
    with Peer([b"SSH-2.0-OpenSSH_9.6\r\n"]) as peer:
        assert refused(f"{name}:{peer.address}") == (
            f"no {name} at {peer.address}: the response is not HTTP: SSH-2.0-OpenSSH_9.6"
        )


def test_garbled_answer_is_a_missing_value(tmp_path: Path) -> None:
    """Otherwise one garbled reply would end the recording."""
    meter_page = page({"power": 5.0, "is_valid": True})
    answers = [
        *(page({"type": "SHPLG-S", "mac": MAC}), meter_page, meter_page),
        *(b"\0garbled\r\n", meter_page),
    ]
    with Peer(answers) as peer:
        meter = find_meter(f"shelly:{peer.address},rate=5")
        assert isinstance(meter.open(), Header)
        with meter.session(tmp_path / "r") as session:
            until_answered(peer, 5)
        meter.close()
    assert session.trouble is None
    found = decoded(tmp_path / "r")
    assert np.flatnonzero(found.flags & Flag.MISSING).tolist() == [1]
    assert len(found.power_w) >= 3


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("kasa", {"system": "x"}, "it does not report a model"),
        ("kasa", {"system": {"get_sysinfo": 3}}, "it does not report a model"),
        *(
            (
                "kasa",
                {"system": {"get_sysinfo": {"model": "HS300", "children": children}}},
                "this HS300 does not report its outlets",
            )
            for children in (3, "x", {"id": "00"}, [3], [{"state": 1}])
        ),
        ("tasmota", {"Status": {}, "StatusFWR": [1]}, "its status is malformed"),
        ("tasmota", {"Status": {}, "StatusNET": "x"}, "its status is malformed"),
        ("tasmota", {"Status": [1]}, "it has no Status"),
    ],
)
def test_answer_of_another_shape_is_no_plug(name: str, content: object, said: str) -> None:
    """Otherwise a server that replies in JSON, but is no such plug, would be a traceback."""
    is_kasa = name == "kasa"
    with Peer([message(content) if is_kasa else page(content)]) as peer:
        assert said in refused(f"{name}:{peer.address}{',channel=0' if is_kasa else ''}")


def test_plug_that_is_busy_misses_values_and_one_that_is_gone_ends_the_recording(
    tmp_path: Path,
) -> None:
    """Otherwise a lost packet would end a run, or a removed plug be waited for without end."""
    with ShellyEmulator() as plug:
        meter = find_meter(f"shelly:{plug.address},rate=5")
        meter.open()
        with meter.session(tmp_path / "r") as session:
            until_answered(plug, 3)
            plug.silent_after = plug.answered
            until_answered(plug, 2)
            plug.silent_after = None
            until_answered(plug, 3)
            plug.silent_after = plug.answered
            wait_until(lambda: session.trouble, "the recording ends")
        meter.close()
    assert session.trouble is not None
    assert session.trouble.startswith("5 times in a row: the shelly at 127.0.0.1")
    found = decoded(tmp_path / "r")
    is_missing = (found.flags & Flag.MISSING) != 0
    assert found.power_w[~is_missing] == pytest.approx(22.9)
    assert np.count_nonzero(is_missing) >= 5
    assert found.loss.lost_count >= 5


@pytest.mark.parametrize("decoder", [ShellyDecoder, TasmotaDecoder, KasaDecoder])
@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"\xff", b"[]", b"null", b"{}", b'{"apower":null}', b'{"apower":true}'),
        *(b'{"StatusSNS":[]}', b'{"StatusSNS":{"ENERGY":{"Power":"x"}}}', b'{"emeter":7}'),
        *(b'{"emeter":{"get_realtime":{"power_mw":"x"}}}', b'{"apower":NaN}', b'{"apower":[]}'),
        *(b"[" * 200_000, b'{"apower":false}', b'{"apower":[1e308,1e308]}'),
        b'{"apower":%b}' % HUGE,
        b'{"StatusSNS":{"ENERGY":{"Power":%b}}}' % HUGE,
        b'{"emeter":{"get_realtime":{"power_mw":%b}}}' % HUGE,
    ],
)
def test_answer_without_a_power_is_missing(decoder: type[PlugDecoder], answer: bytes) -> None:
    """Otherwise a value that is no number would be 0 W, or end the reading of a recording."""
    assert decoder.read(answer) is None


def test_phases_add_up() -> None:
    """Otherwise only one of three phases would be counted."""
    answer = b'{"StatusSNS":{"ENERGY":{"Power":[10,20,30],"Voltage":[230,231,229]}}}'
    found = TasmotaDecoder.read(answer)
    assert isinstance(found, PlugReading)
    assert found.power_w == 60.0
    assert np.isnan(found.voltage_v)
