"""All devices in one list: this machine, the paired ones, and the ones that announce themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from edgebench.host.client import Client
from edgebench.host.devices.files import SEAT_MARK, HostFiles, KnownDevice
from edgebench.host.devices.health import DeviceHealth
from edgebench.host.devices.names import EMULATED, LOCAL_NAME
from edgebench.host.transports.base import Announcement, Transport
from edgebench.host.transports.link import Link
from edgebench.host.transports.local import LocalTransport
from edgebench.host.transports.registry import transports
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import (
    EdgebenchError,
    NoSuchDevice,
    NotPaired,
    SeatLeft,
    Unreachable,
    with_meant,
)
from edgebench.protocol.messages import MAX_SEATS, SeatState

MAX_PARALLEL = 16
THIS_MACHINE = KnownDevice(
    LOCAL_NAME, id="", pin="", addresses=("this machine",), port=0, via=LocalTransport.name
)
"""The one device that every host knows."""


@dataclass(frozen=True, slots=True)
class PlaceState:
    """The place of a device in labgrid."""

    name: str
    acquired_by: str | None = None
    """Who has acquired it, as `HOST/USER`; None where nobody else has."""


class Access(str, Enum):
    """Whether a device can be used."""

    READY = "ready"
    NOT_PAIRED = "not paired"
    UNREACHABLE = "unreachable"
    GONE = "gone"
    """The device was unplugged; its agent is there and knows it."""


@dataclass(frozen=True, slots=True)
class DiscoveredDevice:
    """One line of the list of devices."""

    name: str
    address: str
    access: Access
    id: str = ""
    reason: str = ""
    """Why it cannot be used, when it cannot."""
    system: SystemDescription | None = None
    """Description by its agent; None if it cannot be used."""
    seat: SeatState | None = None
    """Who has it, what runs there, how warm it is; None where its agent is too old to report it."""
    labels: tuple[str, ...] = ()
    """Labels in the farm file."""
    health: DeviceHealth | None = None
    """Health, as this host has seen it; None where it is not paired."""
    place: PlaceState | None = None
    """Place in labgrid; None where it has none."""


Record = Callable[[DiscoveredDevice, KnownDevice], DiscoveredDevice]
"""Adds what is known of a device to its line; an agent's first seat is the agent's own device."""


def find_devices(
    files: HostFiles,
    *,
    timeout_s: float,
    state: Path | None = None,
    record: Record = lambda line, _: line,
) -> list[DiscoveredDevice]:
    """Every device, including those that cannot be used, with the reason."""
    registry = transports(files.identity_path, state)
    paired = files.devices()
    pins = {device.pin for device in paired}
    with ThreadPoolExecutor(MAX_PARALLEL) as pool:
        heard = pool.map(lambda transport: transport.discover(timeout_s), registry.values())
        announced = dict(zip(registry, heard, strict=True))
        known = pool.map(
            lambda device: _look_at(device, registry, announced.get(device.via, [])),
            (THIS_MACHINE, *paired),
        )
        listed = [record(line, device) for lines in known for line, device in lines]
        strangers = [
            DiscoveredDevice(
                stranger.endpoint.name,
                stranger.endpoint.address,
                Access.NOT_PAIRED,
                stranger.id,
                stranger.next_step,
            )
            for announcements in announced.values()
            for stranger in announcements
            if stranger.endpoint.pin not in pins
        ]
        return [*listed, *strangers]


def open_device(
    files: HostFiles, name: str, *, state: Path | None = None, timeout_s: float = 3.0
) -> Client:
    """Connect to a device by name, id, or a unique part of either; behind a slash: to this seat.

    Raises:
        NoSuchDevice: no paired device or seat has that name, or several do.
        TransportError: it cannot be reached.
    """
    return open_known(files, named(files.devices(), name), state=state, timeout_s=timeout_s)


def open_known(
    files: HostFiles, device: KnownDevice, *, state: Path | None = None, timeout_s: float = 3.0
) -> Client:
    """Connect to a device of this host's.

    Raises:
        NoSuchDevice: its agent has no such seat.
        TransportError: it cannot be reached.
    """
    transport = _transport_of(device, transports(files.identity_path, state))
    try:
        client = _client(device, transport.connect(device.endpoint))
        return _remembered(files, device, client)
    except NoSuchDevice:
        raise  # the agent is where it was
    except EdgebenchError:
        # Its address may have changed since it was paired: see where it announces itself now.
        announcements = transport.discover(timeout_s)
        moved = [a.endpoint for a in announcements if a.endpoint.pin == device.pin]
        if not moved:
            raise
        # Anybody can announce a pin: only an address that was proven is remembered.
        client = _client(device, transport.connect(device.moved_to(moved[0]).endpoint))
        files.revise(device.pin, lambda known: known.moved_to(moved[0]))
        return _remembered(files, device, client)


def _client(device: KnownDevice, link: Link) -> Client:
    return Client(link, device.via, device.seat, device.pin)


def _remembered(files: HostFiles, device: KnownDevice, client: Client) -> Client:
    """The client, after what devices are chosen and recognised by is remembered of its device."""

    def learn(known: KnownDevice) -> KnownDevice:
        known = replace(known, arch=client.device.arch)
        # The id of a board that an older agent gave was that of the machine.
        return replace(known, id=client.device.id, board=client.board) if client.board else known

    if device.via != LocalTransport.name and not device.seat and learn(device) != device:
        files.revise(device.pin, learn)
    return client


def named(paired: Sequence[KnownDevice], name: str) -> KnownDevice:
    """The device with this name or id, or the one of which it is a part; `AGENT/SEAT` of several.

    Raises:
        NoSuchDevice: there is none, or several.
    """
    if name.startswith(EMULATED):
        return THIS_MACHINE.at_seat(name)
    agent, _, seat = name.rpartition(SEAT_MARK)
    has_seat = agent and seat and name not in (device.name for device in paired)
    return _agent_named(paired, agent).at_seat(seat) if has_seat else _agent_named(paired, name)


def _agent_named(paired: Sequence[KnownDevice], name: str) -> KnownDevice:
    if name == LOCAL_NAME:
        return THIS_MACHINE
    exact = [device for device in paired if name in (device.name, device.id, device.pin)]
    partly = [device for device in paired if name in device.name or device.id.startswith(name)]
    matches = exact or (partly if name else [])
    if len(matches) == 1:
        return matches[0]
    if not matches:
        names = [LOCAL_NAME, *(device.name for device in paired)]
        text = f"no paired device is called {name!r}; available: {', '.join(names)}"
        raise with_meant(NoSuchDevice(text), name, names)
    device_names = ", ".join(device.name for device in matches)
    raise NoSuchDevice(f"{len(matches)} devices match {name!r}: {device_names}")


def _transport_of(device: KnownDevice, registry: Mapping[str, Transport]) -> Transport:
    if device.via not in registry:  # written by a newer version
        raise Unreachable(
            f"{device.name} is reached by {device.via!r}, "
            f"and this version knows only {', '.join(registry)}"
        )
    return registry[device.via]


def _look_at(
    device: KnownDevice, registry: Mapping[str, Transport], announcements: Sequence[Announcement]
) -> list[tuple[DiscoveredDevice, KnownDevice]]:
    """The device; one line for each seat where its agent serves several."""
    moved = [device.moved_to(a.endpoint) for a in announcements if a.endpoint.pin == device.pin]
    failure: EdgebenchError | None = None
    for place in (device, *moved):  # where it was before, then where it says that it is
        try:
            return _seats_of(device, place, _transport_of(place, registry))
        except EdgebenchError as exc:
            failure = failure or exc
    access = Access.NOT_PAIRED if isinstance(failure, NotPaired) else Access.UNREACHABLE
    address = device.endpoint.address
    line = DiscoveredDevice(device.name, address, access, device.id, reason=str(failure))
    return [(line, device)]


def _seats_of(
    device: KnownDevice, place: KnownDevice, transport: Transport
) -> list[tuple[DiscoveredDevice, KnownDevice]]:
    """What the agent at this place serves."""
    with Client(transport.connect(place.endpoint)) as client:
        system, seats = client.describe(), client.seats()[:MAX_SEATS]
    if len(seats) < 2:
        address = place.endpoint.address
        if not place.port:  # such an address says less than the name that the device has itself
            address += f", {system.device.name}"
        device_id = device.id or system.device.id
        [seat] = seats or (None,)
        line = DiscoveredDevice(
            device.name, address, Access.READY, device_id, system=system, seat=seat
        )
        return [(line, device)]
    lines = [_seat_of(device, place, transport, seat) for seat in seats]
    others = [device.at_seat(seat.name) for seat in seats[1:]]
    return list(zip(lines, [device, *others], strict=True))


def _seat_of(
    device: KnownDevice, place: KnownDevice, transport: Transport, seat: SeatState
) -> DiscoveredDevice:
    """One of several seats, which a conversation of its own describes if its device is there."""
    system: SystemDescription | None = None
    if seat.gone_for_s is None:
        try:
            with Client(transport.connect(place.endpoint), seat=seat.name) as client:
                system = client.describe()
        except SeatLeft:  # just now
            seat = replace(seat, gone_for_s=0.0)
    return DiscoveredDevice(
        f"{device.name}{SEAT_MARK}{seat.name}",
        f"{place.endpoint.address}, {seat.device.name}",
        Access.READY if system else Access.GONE,
        seat.device.id,
        system=system,
        seat=seat,
    )
