"""The list of devices: this machine, paired devices, and devices that announce themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path

from edgebench.host.adb.phones import target_of
from edgebench.host.client import Client
from edgebench.host.devices.board_check import copies_text, require_board, require_single
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.devices.health import DeviceHealth
from edgebench.host.devices.names import EMULATED, LOCAL_NAME, SEAT_MARK
from edgebench.host.transports.base import Announcement, Endpoint, Transport
from edgebench.host.transports.local import LocalTransport
from edgebench.host.transports.registry import transports
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import (
    EdgebenchError,
    NoSuchDevice,
    NotPaired,
    NotSimulated,
    SeatLeft,
    Unreachable,
    WrongBoard,
    with_meant,
)
from edgebench.protocol.hardware import Hardware
from edgebench.protocol.messages import MAX_SEATS, SeatState
from edgebench.protocol.simulation import SIMULATED_SUFFIX

MAX_PARALLEL = 16
THIS_MACHINE = KnownDevice(
    LOCAL_NAME, id="", pin="", addresses=("this machine",), port=0, via=LocalTransport.name
)
"""This machine as a device; it needs no pairing, and is in every host's list of devices."""


@dataclass(frozen=True, slots=True)
class PlaceState:
    """The place (labgrid's term for an allocatable device) that corresponds to a device."""

    name: str
    acquired_by: str | None = None
    """Other user who has acquired the place, as `HOST/USER`; None if no other user has acquired
    it."""


class Access(str, Enum):
    """Whether a device can be used."""

    READY = "ready"
    NOT_PAIRED = "not paired"
    UNREACHABLE = "unreachable"
    COPIED = "copied"
    """The device's identity was found on another board, or on several agents."""
    GONE = "gone"
    """The device was unplugged from its agent; the agent is reachable and still lists the
    device."""


@dataclass(frozen=True, slots=True)
class DiscoveredDevice:
    """A row of the list of devices: a device, with its state and stored facts."""

    name: str
    address: str
    access: Access
    id: str = ""
    reason: str = ""
    """Reason why the device cannot be used; empty if it can be used."""
    system: SystemDescription | None = None
    """Description of the device as its agent reports it; None if the device cannot be used."""
    seat: SeatState | None = None
    """Lease holder, current run and temperature; None if the agent is too old to report them."""
    labels: tuple[str, ...] = ()
    """Labels that the farm file gives to the device."""
    health: DeviceHealth | None = None
    """Health as observed by this host; None if the device is not paired."""
    place: PlaceState | None = None
    """Labgrid place that corresponds to the device; None if there is no such place."""


Record = Callable[[DiscoveredDevice, KnownDevice], DiscoveredDevice]
"""Function that adds stored facts about a device to its row in the list. For an agent's first seat
(the first of its devices), the `KnownDevice` that is passed is the entry of the agent itself."""


def find_devices(
    files: HostFiles,
    *,
    timeout_s: float,
    state: Path | None = None,
    record: Record = lambda line, _: line,
) -> list[DiscoveredDevice]:
    """Find all devices; a device that cannot be used is also listed, with the reason.

    Args:
        files: Files of this host.
        timeout_s: Time to wait for announcements.
        state: State directory of the agent on this machine; None for the user's own.
        record: Function that adds stored facts to the row of each known device.
    """
    registry = transports(files.identity_path, state)
    paired = files.devices()
    pins = {device.pin for device in paired}
    places = {(device.via, address) for device in paired for address in device.addresses}

    def is_known(via: str, endpoint: Endpoint) -> bool:
        if endpoint.pin:
            return endpoint.pin in pins
        return any((via, address) in places for address in endpoint.addresses)

    with ThreadPoolExecutor(MAX_PARALLEL) as pool:
        discovered = pool.map(lambda transport: transport.discover(timeout_s), registry.values())
        announced = dict(zip(registry, discovered, strict=True))
        known = pool.map(
            lambda device: _look_at(files, device, registry, announced.get(device.via, [])),
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
            for via, announcements in announced.items()
            for stranger in announcements
            if not is_known(via, stranger.endpoint)
        ]
        return [*listed, *strangers]


def open_device(
    files: HostFiles, name: str, *, state: Path | None = None, timeout_s: float = 3.0
) -> Client:
    """Connect to a device by name, id, a unique part of either, or `AGENT/SEAT` for a seat.

    Raises:
        NoSuchDevice: no paired device or seat has that name, or several do.
        TransportError: the device cannot be reached.
    """
    return open_known(files, named(files.devices(), name), state=state, timeout_s=timeout_s)


def open_known(
    files: HostFiles,
    device: KnownDevice,
    *,
    state: Path | None = None,
    timeout_s: float = 3.0,
    any_environment: bool = False,
) -> Client:
    """Connect to a known device.

    Args:
        files: Files of this host.
        device: The device.
        state: State directory of the agent on this machine; None for the user's own.
        timeout_s: Time to search for a device whose address has changed.
        any_environment: Whether the agent on this machine may run in another Python environment.

    Raises:
        NoSuchDevice: the device's agent has no such seat.
        WrongBoard: the device's identity was found on another board, or on several agents.
        TransportError: the device cannot be reached.
    """
    require_single(device)
    registry = transports(files.identity_path, state, any_environment=any_environment)
    transport = transport_of(device, registry)
    try:
        return _remembered(files, device, _client(device, transport))
    except NoSuchDevice:
        raise  # the agent was reached, so its address has not changed
    except EdgebenchError as exc:
        failure = exc
    # The address may have changed since the pairing: search for its current announcement.
    for announcement in transport.discover(timeout_s):
        if announcement.endpoint.pin != device.pin:
            continue
        moved = device.moved_to(announcement.endpoint)
        try:
            client = _client(moved, transport)
        except EdgebenchError as exc:
            failure = failure if isinstance(failure, WrongBoard) else exc
            continue
        # Any device can announce a pin: only an address with a verified certificate is stored.
        files.revise(device.pin, partial(KnownDevice.moved_to, endpoint=moved.endpoint))
        return _remembered(files, device, client)
    raise failure


def _client(device: KnownDevice, transport: Transport) -> Client:
    """Connect to the agent of a device, and check that it runs on the paired board."""
    client = Client(transport.connect(device.endpoint), device.via, device.seat, device.pin)
    try:
        require_board(device, client.hardware, device.endpoint.address)
    except WrongBoard:
        client.close()
        raise
    return client


def _remembered(files: HostFiles, device: KnownDevice, client: Client) -> Client:
    """Store architecture, board and hardware of the client's device; return the client."""

    def learn(known: KnownDevice) -> KnownDevice:
        hardware = known.hardware.updated(client.hardware)
        known = replace(known, arch=client.device.arch, hardware=hardware)
        # Older agents reported the id of the machine as the id of a board.
        return replace(known, id=client.device.id, board=client.board) if client.board else known

    if device.via != LocalTransport.name and not device.seat and learn(device) != device:
        files.revise(device.pin, learn)
    return client


def named(paired: Sequence[KnownDevice], name: str) -> KnownDevice:
    """Find a device by name, id, a unique part of either, or `AGENT/SEAT` for a seat.

    Raises:
        NoSuchDevice: no device matches, or several do.
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
        if name.startswith(target_of("")):
            text = f"{name} names a phone to deploy to, not a device; paired: {', '.join(names)}"
        board = name.removesuffix(SIMULATED_SUFFIX)
        error = NoSuchDevice(text) if board == name else NotSimulated(text, board)
        raise with_meant(error, name, names)
    device_names = ", ".join(device.name for device in matches)
    raise NoSuchDevice(f"{len(matches)} devices match {name!r}: {device_names}")


def transport_of(device: KnownDevice, registry: Mapping[str, Transport]) -> Transport:
    """The transport that reaches a device.

    Raises:
        Unreachable: the transport is unknown to this version.
    """
    if device.via not in registry:  # written by a newer version
        raise Unreachable(
            f"{device.name} needs the transport {device.via!r}, but this version supports only "
            f"{', '.join(registry)}"
        )
    return registry[device.via]


def _look_at(
    files: HostFiles,
    device: KnownDevice,
    registry: Mapping[str, Transport],
    announcements: Sequence[Announcement],
) -> list[tuple[DiscoveredDevice, KnownDevice]]:
    """Make a row of the list for each seat of a device's agent, and for each copied identity."""
    announced = [a.endpoint for a in announcements if a.endpoint.pin == device.pin]
    places = [device, *(device.moved_to(endpoint) for endpoint in announced)]
    failure: EdgebenchError | None = None
    agents: list[_Agent] = []
    for place in places:
        # A single announcement at the known address comes from the agent that was reached there.
        is_same = len(announced) < 2 and set(place.addresses) & set(device.addresses)
        if agents and is_same and place.port == device.port:
            continue
        refusal: WrongBoard | None = None
        try:
            transport = transport_of(place, registry)
            with Client(transport.connect(place.endpoint)) as client:
                try:
                    require_board(device, client.hardware, place.endpoint.address)
                except WrongBoard as exc:
                    refusal = exc
                system, seats = client.describe(), client.seats()[:MAX_SEATS]
        except EdgebenchError as exc:
            failure = failure or exc
            continue
        agent = _Agent(place, transport, client.instance, client.hardware, refusal, system, seats)
        # Older agents have no instance; the first that responds counts.
        if not agents or agent.instance not in ("", *(other.instance for other in agents)):
            agents.append(agent)
    if not agents:
        access = Access.NOT_PAIRED if isinstance(failure, NotPaired) else Access.UNREACHABLE
        address = device.endpoint.address
        line = DiscoveredDevice(device.name, address, access, device.id, reason=str(failure))
        return [(line, device)]
    device = _with_copies(files, device, [agent for agent in agents if agent.refusal is None])
    lines: list[tuple[DiscoveredDevice, KnownDevice]] = []
    for agent in agents:
        if agent.refusal is None and not device.copies:
            lines += _seats_of(device, agent)
        else:
            reason = str(agent.refusal or copies_text(device.name, device.copies))
            device_id = agent.system.device.id
            address = agent.place.endpoint.address
            copy = DiscoveredDevice(device.name, address, Access.COPIED, device_id, reason=reason)
            lines.append((copy, device))
    return lines


@dataclass(frozen=True, slots=True)
class _Agent:
    """An agent that was reached, and has the identity of a paired device."""

    place: KnownDevice
    transport: Transport
    instance: str
    hardware: Hardware
    refusal: WrongBoard | None
    """Error that the agent does not run on the device's board; None if the agent runs on that
    board."""
    system: SystemDescription
    seats: tuple[SeatState, ...]


def _with_copies(files: HostFiles, device: KnownDevice, agents: Sequence[_Agent]) -> KnownDevice:
    """Update the addresses that are stored for agents with a device's identity; return the device.

    If there are several agents, each of them may be the device, so all of their addresses are
    stored. The addresses are removed when only one agent is found, and its hardware proves that it
    runs on the device's board.
    """
    copies = device.copies
    if len(agents) > 1:
        copies = tuple(agent.place.endpoint.address for agent in agents)
    elif len(agents) == 1 and device.machine.is_proven_by(agents[0].hardware):
        copies = ()
    if copies != device.copies and device.via != LocalTransport.name:
        files.revise(device.pin, lambda known: replace(known, copies=copies))
    return replace(device, copies=copies)


def _seats_of(device: KnownDevice, agent: _Agent) -> list[tuple[DiscoveredDevice, KnownDevice]]:
    place, system, seats = agent.place, agent.system, agent.seats
    if len(seats) < 2:
        address = place.endpoint.address
        if not place.port:  # the device's own name is more specific than such an address
            address += f", {system.device.name}"
        device_id = device.id or system.device.id
        [seat] = seats or (None,)
        line = DiscoveredDevice(
            device.name, address, Access.READY, device_id, system=system, seat=seat
        )
        return [(line, device)]
    lines: list[tuple[DiscoveredDevice, KnownDevice]] = []
    for seat in seats:
        described: SystemDescription | None = None
        if seat.gone_for_s is None:
            # The description of a seat needs a separate connection.
            try:
                connection = agent.transport.connect(place.endpoint)
                with Client(connection, seat=seat.name) as client:
                    described = client.describe()
            except SeatLeft:  # unplugged since the list of seats was read
                seat = replace(seat, gone_for_s=0.0)
        line = DiscoveredDevice(
            f"{device.name}{SEAT_MARK}{seat.name}",
            f"{place.endpoint.address}, {seat.device.name}",
            Access.READY if described else Access.GONE,
            seat.device.id,
            system=described,
            seat=seat,
        )
        lines.append((line, device.at_seat(seat.name) if lines else device))
    return lines
