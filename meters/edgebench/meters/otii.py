r"""Qoitech Otii Arc and Ace, through their maker's server: one JSON object per line, over TCP.

    ← {"type":"information","info":"connected","data":{"otii_version":"3.5.5",…}}
    → {"type":"request","cmd":"otii_get_devices","trans_id":"1","data":{"timeout":2}}
    ← {"type":"response","cmd":"otii_get_devices","trans_id":"1","data":{"devices":[…]}}
      or {"type":"error","errorcode":"No license","trans_id":"1",…}

Lines of {"type":"progress"} may come before a response or an error.

    open     devices, version, main output and its voltage, sample rate: queries only
    session  enable channel mc · start a recording in the active project · fetch its data from the
             end of the last fetch · stop the recording, which stays in the project

Lines end with \r\n. Samples are fetched by number, so none is lost between two fetches. The unit
measures current; power is current times the configured voltage. Samples are assumed to be
instantaneous values. An Arc takes 4000 samples per second, too few for the energy of a run; an Ace
takes up to 50,000.

Source: https://www.qoitech.com/help/tcpserver (requests); https://www.qoitech.com/?p=4659
(accuracies in the low range); https://forum.qoitech.com/t/auto-ranging-issue-at-low-current/149
(offset of 30 µA in the high range); https://www.qoitech.com/blog/otii-and-short-pulses (4 kS/s;
errors grow with pulses below 1 ms). The emulator in the tests is verified against otii_tcp_client.
"""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from edgebench.meters.base import (
    Capability,
    Channel,
    Flag,
    Header,
    MeterInfo,
    Packet,
    SampleBlock,
)
from edgebench.meters.instrument import InstrumentMeter
from edgebench.meters.options import Options
from edgebench.meters.stream import StreamSession
from edgebench.meters.timeline import UniformDecoder
from edgebench.meters.transport import (
    ByteStream,
    Connect,
    Dialog,
    TcpTransport,
    read_until,
    split_address,
)
from edgebench.meters.uncertainty import CurrentLimit, Kind, Origin, UncertaintyTerm, Unit, term
from edgebench.protocol.errors import TargetError, UsageError

PORT = 1905
_LINE = re.compile(rb"\r\n")
_RESPONSE_S = 5.0
_SEARCH_S = 2
_FETCH_S = 0.1
_FETCH_COUNT = 40_000
_LATE_S = 0.25
"""Assumed delay of the samples that arrive fastest: server's delay plus time between two
fetches."""
_LIMIT_A = 5.0
_VOLTAGE = "supply_v"
"""Name of the header fact that contains the voltage. An error of the current, multiplied by this
voltage, is an error of the power."""
_ACCOUNT = ("No license", "Not logged in", "License could not be reserved")
_GAINS = {"Arc": 1e-3, "Ace": 5e-4}
_SHEET = "qoitech.com/?p=4659, low range"
_OFFSET_A = 30e-6


class OtiiLink(Dialog):
    """Sends requests to the server and receives its responses."""

    def __init__(self, transport: ByteStream) -> None:
        super().__init__(transport)
        self._received = b""
        self._number = 0

    def request(self, command: str, **data: Any) -> dict[str, Any]:
        """Send a request and return the data of the response.

        Raises:
            TargetError: the server does not respond in time, or returns an error.
        """
        content: Any = json.loads(self.query_raw(command, **data)).get("data")
        return content if isinstance(content, dict) else {}

    def query_raw(self, command: str, **data: Any) -> bytes:
        """Send a request and return the response line unparsed.

        Raises:
            TargetError: the server does not respond in time, or returns an error.
        """
        self._number += 1
        request = {"type": "request", "cmd": command, "trans_id": str(self._number)}
        self.write(json.dumps(request | ({"data": data} if data else {})).encode() + b"\r\n")
        while True:
            line = self._line(command)
            response = _object_of(line)
            if response.get("trans_id") != str(self._number):
                continue  # an unsolicited message, or a late response to another request
            if response.get("type") == "error":
                raise TargetError(_refusal(command, response))
            if response.get("type") == "response":
                return line

    def greeting(self) -> dict[str, Any]:
        """Read the server's greeting and return its data.

        Raises:
            TargetError: the server is not an Otii server, or does not respond in time.
        """
        response = _object_of(self._line("hello"))
        if response.get("info") != "connected":
            raise TargetError("not an Otii server: it sent no Otii greeting")
        data: Any = response.get("data")
        return data if isinstance(data, dict) else {}

    def _line(self, command: str) -> bytes:
        self._received = read_until(self._transport, _LINE, _RESPONSE_S, self._received)
        end = _LINE.search(self._received)
        if end is None:
            raise TargetError(f"no response from the Otii server to {command} in {_RESPONSE_S:g} s")
        line, self._received = self._received[: end.start()], self._received[end.end() :]
        return line


class Otii(InstrumentMeter[OtiiLink]):
    """An Otii Arc or Ace."""

    name = "otii"

    def __init__(self, connect: Connect, choice: str = "") -> None:
        super().__init__(lambda: OtiiLink(connect()))
        self._choice = choice
        self._device = ""

    def _describe(self, connection: OtiiLink) -> Header:
        server = connection.greeting()
        device = self._find(connection)
        self._device = identity = str(device["device_id"])
        model = str(device.get("type", "Otii"))
        if not connection.request("arc_get_main", device_id=identity).get("value"):
            raise TargetError(f"the main output of this {model} is off: switch it on in Otii")
        voltage_v = _number(connection, "arc_get_main_voltage", device_id=identity)
        rate_hz = _number(
            connection, "arc_get_channel_samplerate", device_id=identity, channel="mc"
        )
        version = connection.request("arc_get_version", device_id=identity)
        return Header(
            driver=self.name,
            info=MeterInfo(
                vendor="Qoitech",
                model=f"Otii {model}",
                serial=identity,
                firmware=str(version.get("fw_version", "")),
                raw_metadata=json.dumps(server),
            ),
            capability=Capability(
                driver=self.name,
                channels=(Channel("main", "supply of the device, as wired"),),
                rate_hz=rate_hz,
                is_averaging=False,
                is_uniform=True,
                clock_domain=f"meter:otii:{identity}",
                loss_detection="counter",
                min_window_s=20 / rate_hz,
                arrival_error_s=_LATE_S,
                current_limits=(CurrentLimit(limit_a=_LIMIT_A, reference="Elektor: 5 A peak"),),
            ),
            uncertainty=_uncertainty(model),
            facts={_VOLTAGE: voltage_v},
        )

    def _record(self, connection: OtiiLink, header: Header, path: Path) -> StreamSession:
        source = OtiiRecording(connection, self._device)
        return StreamSession(source, header, path, start=source.start, stop=source.stop)

    def _find(self, link: OtiiLink) -> dict[str, Any]:
        """The selected unit, or the only unit."""
        devices: Any = link.request("otii_get_devices", timeout=_SEARCH_S).get("devices") or []
        if not isinstance(devices, list):
            raise _nonsense(devices, "otii_get_devices")
        units = [device for device in devices if isinstance(device, dict) and "device_id" in device]
        names = [str(unit.get("name", unit["device_id"])) for unit in units]
        if self._choice:
            units = [
                unit for unit in units if self._choice in (unit.get("name"), unit["device_id"])
            ]
        if len(units) != 1:
            known = ", ".join(names) or "none"
            raise UsageError(f"name a unit, as in otii,device=NAME; the server has {known}")
        return dict(units[0])


class OtiiRecording:
    """A recording on the server, fetched while it grows."""

    def __init__(self, link: OtiiLink, device: str) -> None:
        self._link = link
        self._device = device
        self._project: Any = None
        self._where: dict[str, Any] = {}
        self._next_index = 0

    def start(self) -> None:
        """Start a recording in the active project, or in a new project."""
        project = self._link.request("otii_get_active_project").get("project_id", -1)
        if project == -1:
            project = _whole(self._link, "project_id", "otii_create_project")
        self._link.request("arc_add_to_project", device_id=self._device)
        self._link.request("arc_enable_channel", device_id=self._device, channel="mc", enable=True)
        self._link.request("project_start_recording", project_id=project)
        self._project = project
        recording = self._link.request("project_get_last_recording", project_id=project)
        self._where = {
            "device_id": self._device,
            "channel": "mc",
            "recording_id": recording.get("recording_id"),
        }
        self._next_index = 0

    def read(self, timeout_s: float) -> bytes:
        """Wait up to 0.1 s, then fetch new samples as an undecoded line; b"" if there are none."""
        time.sleep(min(timeout_s, _FETCH_S))
        available_count = _whole(
            self._link, "count", "recording_get_channel_data_count", **self._where
        )
        count = min(available_count - self._next_index, _FETCH_COUNT)
        if count <= 0:
            return b""
        where = self._where | {"index": self._next_index, "count": count}
        line = self._link.query_raw("recording_get_channel_data", **where)
        self._next_index += len(values_of(line))
        return line + b"\n"

    def stop(self) -> None:
        """Stop the recording, which stays in the project."""
        if self._project is not None:
            project, self._project = self._project, None
            self._link.request("project_stop_recording", project_id=project)


class OtiiDecoder(UniformDecoder):
    """Multiplies currents by the configured voltage of the output."""

    def __init__(self, header: Header) -> None:
        super().__init__(header.capability.rate_hz)
        self._voltage_v = float(header.facts[_VOLTAGE])
        self._rest = b""

    def feed(self, packet: Packet) -> list[SampleBlock]:
        """Return the samples in the lines that this packet completes."""
        *lines, self._rest = (self._rest + packet.data).split(b"\n")
        blocks = [block for line in lines if (block := self._block(line)) is not None]
        self.timeline.arrive(packet.last_rx_ns)
        return blocks

    def _block(self, line: bytes) -> SampleBlock | None:
        current_a = np.array(
            [value if _is_number(value) else np.nan for value in values_of(line)],
            np.float64,
        )
        if not len(current_a):
            self.timeline.desync()  # a damaged line
            return None
        flags = np.where(np.isfinite(current_a), 0, int(Flag.MISSING)).astype(np.uint8)
        current_a[flags != 0] = np.nan
        self.timeline.count(flags)
        places = self.timeline.place(len(current_a))
        return SampleBlock(
            channel=0,
            index0=int(places[0]),
            time_ns=self.timeline.time_ns(places),
            power_w=current_a * self._voltage_v,
            current_a=current_a,
            flags=flags | self.timeline.saturate(np.nan_to_num(current_a) >= _LIMIT_A),
        )


def values_of(line: bytes) -> list[Any]:
    """Samples in a response; empty if the response has none.

    >>> values_of(b'{"type":"response","data":{"data_type":"analog","values":[0.1,0.2]}}')
    [0.1, 0.2]
    """
    data: Any = _object_of(line).get("data")
    values: Any = data.get("values") if isinstance(data, dict) else None
    return values if isinstance(values, list) else []


def make_meter(options: Options) -> Otii:
    """Create the meter of a unit by the server's address and the unit's name."""
    choice = options.text("device", "") or ""
    host, port = split_address(options.finish().address, PORT)
    return Otii(lambda: TcpTransport(host or "localhost", port, "Otii server"), choice)


def _number(link: OtiiLink, command: str, **data: Any) -> float:
    value: Any = link.request(command, **data).get("value")
    if not _is_number(value) or not value > 0:
        raise _nonsense(value, command)
    return float(value)


def _whole(link: OtiiLink, name: str, command: str, **data: Any) -> int:
    value: Any = link.request(command, **data).get(name)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _nonsense(value, command)
    return value


def _is_number(value: Any) -> bool:
    """Whether a JSON value is a number that fits into a float; a bool, inf or 10**400 does not."""
    return type(value) in (float, int) and abs(value) <= sys.float_info.max


def _nonsense(value: object, command: str) -> TargetError:
    return TargetError(f"the Otii server returned an invalid value to {command}: {value!r:.60}")


def _object_of(line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):  # RecursionError: nested too deeply
        return {}
    return document if isinstance(document, dict) else {}


def _refusal(command: str, response: dict[str, Any]) -> str:
    code = str(response.get("errorcode", "for no reason"))
    if code in _ACCOUNT:
        return (
            f"the Otii server rejected {command}: {code}; log in to Otii, and reserve an "
            "Automation license there"
        )
    data: Any = response.get("data")
    message = data.get("message") if isinstance(data, dict) else None
    return f"the Otii server rejected {command}: {code}{f': {message}' if message else ''}"


def _uncertainty(model: str) -> tuple[UncertaintyTerm, ...]:
    if model in _GAINS:
        gain = term(Kind.GAIN, _GAINS[model], _SHEET, origin=Origin.DATASHEET)
    else:
        gain = term(Kind.GAIN, 0.01, "assumed: no data sheet of this model was available")
    return (
        gain,
        term(
            Kind.OFFSET,
            _OFFSET_A,
            "assumed: accuracy of the high range, from forum.qoitech.com",
            Unit.AMPERE,
        ),
        term(Kind.VOLTAGE, 5e-3, "assumed: the configured voltage, which is not measured"),
        term(Kind.TIMEBASE, 50e-6, "assumed: a crystal"),
    )
