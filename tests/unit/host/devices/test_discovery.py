"""Which device a name means, and by which transport it is reached."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import NoReturn, cast

import pytest
from support.records import DEVICE, ENVIRONMENT

from edgebench.host.devices import discovery
from edgebench.host.devices.discovery import Access, DiscoveredDevice, find_devices, open_device
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.transports import pinned
from edgebench.host.transports.base import Announcement, Endpoint, Transport
from edgebench.host.transports.link import Link
from edgebench.host.transports.local import LocalTransport
from edgebench.host.transports.tls import TlsTransport
from edgebench.protocol import messages as m
from edgebench.protocol.codec import decode, encode
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import Unreachable, UsageError, WrongAgent

CLOSED_PORT = 9
PHONE = KnownDevice("phone", "0f", "p" * 43, ("R58M12",), 0, via="usb")
SYSTEM = SystemDescription(replace(DEVICE, name="sm-a52"), ENVIRONMENT, ())
SEAT = m.SeatState("machine", SYSTEM.device, held_by="ada", held_for_s=3.0)


@pytest.fixture
def files(tmp_path: Path) -> HostFiles:
    """A host that knows three devices, none of which responds."""
    made = HostFiles(tmp_path)
    for i, name in enumerate(("pi", "pi-kitchen", "jetson")):
        pin = str(i) * 43
        made.remember(KnownDevice(name, f"{i}{i}aabbccdd", pin, ("127.0.0.1",), CLOSED_PORT))
    return made


@pytest.mark.parametrize("name", ["nowhere", "PI", "bb", "../pi"])
def test_unknown_name_is_told_with_the_known_ones(files: HostFiles, name: str) -> None:
    """Otherwise a misspelt name would measure another device, or leave the user without a list."""
    with pytest.raises(UsageError, match="; available: local, pi, pi-kitchen, jetson"):
        open_device(files, name, timeout_s=0.0)


def test_part_that_fits_several_devices_is_refused(files: HostFiles) -> None:
    """Otherwise chance would decide which of several devices is measured."""
    with pytest.raises(UsageError, match="2 devices match 'p'"):
        open_device(files, "p", timeout_s=0.0)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("pi", "pi"),
        ("kitchen", "pi-kitchen"),
        ("jet", "jetson"),
        ("22aa", "jetson"),
        ("0" * 43, "pi"),
    ],
)
def test_whole_name_unique_part_id_or_pin_finds_a_device(
    files: HostFiles, name: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a device could not be named, or its name be ambiguous due to a longer name."""
    monkeypatch.setattr(TlsTransport, "discover", lambda *_: [])
    with pytest.raises(Unreachable, match=rf"{found} \(127\.0\.0\.1:{CLOSED_PORT}\)"):
        open_device(files, name)


class UsbTransport:
    """A third transport: its agents are at `places`."""

    name = "usb"

    def __init__(self, *places: Endpoint) -> None:
        self._places = places
        self.opened: list[Endpoint] = []

    def connect(self, endpoint: Endpoint) -> Link:
        """Connect to the agent with this pin, if it is at one of these addresses."""
        self.opened.append(endpoint)
        for place in self._places:
            if place.pin == endpoint.pin and place.addresses[0] in endpoint.addresses:
                return cast(Link, AgentLink())
        raise Unreachable(f"{endpoint.name} ({endpoint.address}) is not plugged in")

    def discover(self, timeout_s: float) -> list[Announcement]:
        """All agents of this transport."""
        return [Announcement("0f", place, "allow USB debugging on it") for place in self._places]


class AgentLink:
    """Connection to an agent that describes itself."""

    def __init__(self) -> None:
        self._replies: list[bytes] = []
        self.closed = threading.Event()

    def send(self, frame: bytes) -> None:
        """Take a request."""
        request = decode(frame)
        reply: m.Message = m.Welcome(m.PROTOCOL_VERSION, "edgebench-agent 0", SYSTEM.device)
        if isinstance(request.message, m.Describe):
            reply = m.Described(SYSTEM)
        elif isinstance(request.message, m.SeatList):
            reply = m.Seats((SEAT,))
        self._replies.append(encode(request.number, reply))

    def receive(self, timeout_s: float | None) -> bytes:
        """Reply to the request."""
        return self._replies.pop(0)

    def close(self) -> None:
        """Record that the link was closed."""
        self.closed.set()


@pytest.fixture
def usb(monkeypatch: pytest.MonkeyPatch) -> UsbTransport:
    """The only transport of this version; the phone has been plugged in at another socket."""
    made = UsbTransport(replace(PHONE.endpoint, name="sm-a52", addresses=("R58M12-2",)))
    every: dict[str, Transport] = {made.name: made}
    monkeypatch.setattr(discovery, "transports", lambda *_, **__: every)
    return made


def test_device_is_reached_by_its_transport_and_its_new_address_is_kept(
    tmp_path: Path, usb: UsbTransport
) -> None:
    """Otherwise a new transport would need changes where devices are opened.

    A device that moved would be lost.
    """
    files = HostFiles(tmp_path)
    files.remember(PHONE)
    with open_device(files, "phone") as client:
        assert client.device.name == "sm-a52"
    assert [endpoint.addresses for endpoint in usb.opened] == [("R58M12",), ("R58M12-2",)]
    assert files.devices() == (replace(PHONE, addresses=("R58M12-2",), arch=DEVICE.arch),)


def test_devices_of_every_transport_are_listed(tmp_path: Path, usb: UsbTransport) -> None:
    """Otherwise a new transport would need changes where devices are listed.

    Or it would be listed with the reason of another transport.
    """
    files = HostFiles(tmp_path)
    local, stranger = find_devices(files, timeout_s=0.0)
    assert (local.name, local.access) == ("local", Access.UNREACHABLE)
    assert stranger == DiscoveredDevice(
        "sm-a52", "R58M12-2", Access.NOT_PAIRED, "0f", "allow USB debugging on it"
    )
    files.remember(PHONE)
    _, phone = find_devices(files, timeout_s=0.0)
    assert phone == DiscoveredDevice(
        "phone", "R58M12-2, sm-a52", Access.READY, "0f", system=SYSTEM, seat=SEAT
    )


def test_unknown_transport_is_one_clear_line(files: HostFiles) -> None:
    """Otherwise a list written by a newer version would end in a traceback."""
    files.remember(PHONE)
    with pytest.raises(Unreachable) as caught:
        open_device(files, "phone", timeout_s=0.0)
    line = "phone needs the transport 'usb', but this version supports only local, tls, adb, ssh"
    assert str(caught.value) == line


def test_unknown_transport_does_not_hide_the_other_devices(
    tmp_path: Path, usb: UsbTransport
) -> None:
    """Otherwise one device of a newer version would make `edgebench devices` useless."""
    files = HostFiles(tmp_path)
    files.remember(PHONE)
    files.remember(replace(PHONE, name="car", pin="c" * 43, id="0c", via="can"))
    by_name = {device.name: device for device in find_devices(files, timeout_s=0.0)}
    assert by_name["phone"].access == Access.READY
    assert by_name["car"].access == Access.UNREACHABLE
    assert (
        by_name["car"].reason == "car needs the transport 'can', but this version supports only usb"
    )


@pytest.mark.parametrize(
    ("name", "shown"),
    [("jet/nucleo", "jetson/nucleo"), ("local/x", "local/x"), ("lab/pi/x", "lab/pi/x")],
)
def test_slash_separates_a_seat_from_its_agent(
    files: HostFiles, name: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a seat could not be named."""
    asked: list[str] = []

    def connect(_: object, endpoint: Endpoint) -> Link:
        asked.append(endpoint.name)
        raise Unreachable(f"{endpoint.name} is away")

    files.remember(KnownDevice("lab/pi", "99", "k" * 43, ("127.0.0.1",), CLOSED_PORT))
    monkeypatch.setattr(TlsTransport, "connect", connect)
    monkeypatch.setattr(LocalTransport, "connect", connect)
    monkeypatch.setattr(TlsTransport, "discover", lambda *_: [])
    with pytest.raises(Unreachable):
        open_device(files, name)
    assert asked == [shown]
    assert not any(device.seat for device in files.devices()), "agents are remembered"


def test_device_whose_name_has_a_slash_is_not_a_seat(
    files: HostFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a device named a/b before there were seats could not be reached any more."""
    files.remember(KnownDevice("lab/pi", "99", "k" * 43, ("127.0.0.1",), CLOSED_PORT))
    monkeypatch.setattr(TlsTransport, "discover", lambda *_: [])
    with pytest.raises(Unreachable, match="lab/pi"):
        open_device(files, "lab/pi")


def test_wrong_agent_at_one_address_does_not_hide_that_others_are_silent(
    files: HostFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise only the wrong agent would be named while the device is off.

    The device is off, and another device has got one of its addresses.
    """

    def connect(endpoint: Endpoint, *_: object) -> NoReturn:
        if endpoint.addresses == ("10.0.0.2",):
            raise WrongAgent("pi (10.0.0.2:1) is not the paired agent")
        raise Unreachable("no answer from it", reason="no answer within 10 s")

    monkeypatch.setattr(pinned, "_connect", connect)
    with pytest.raises(WrongAgent) as caught:
        TlsTransport(files.identity_path).connect(
            Endpoint("pi", "", ("10.0.0.1", "10.0.0.2", "fe80::1"), 1)
        )
    assert str(caught.value) == (
        "pi (10.0.0.2:1) is not the paired agent; no answer within 10 s at 10.0.0.1:1, [fe80::1]:1"
    )
