"""All devices in one list: this machine, the paired ones, and the ones that announce themselves."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from edgebench.host.client import Client
from edgebench.host.devices.files import LOCAL_NAME, HostFiles, KnownDevice
from edgebench.host.devices.mdns import Advertised, discover
from edgebench.host.transports import local, tls
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import EdgebenchError, NoSuchDevice, NotPaired

MAX_PARALLEL = 16


class Access(str, Enum):
    """Whether a device can be used."""

    READY = "ready"
    NOT_PAIRED = "not paired"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Found:
    """One line of the list."""

    name: str
    address: str
    access: Access
    id: str = ""
    reason: str = ""
    """Why it cannot be used, when it cannot."""
    system: SystemDescription | None = None
    """What it says about itself, when it can."""


def find_devices(files: HostFiles, *, timeout_s: float, state: Path | None = None) -> list[Found]:
    """Every device, including those that cannot be used, with the reason."""
    advertised = discover(timeout_s)
    known = files.devices()
    pins = {device.pin for device in known}
    strangers = [agent for agent in advertised if agent.pin not in pins]
    with ThreadPoolExecutor(MAX_PARALLEL) as pool:
        here = pool.submit(_look_here, state)
        there = pool.map(lambda device: _look_at(files, device, advertised), known)
        return [here.result(), *there, *map(_stranger, strangers)]


def open_device(
    files: HostFiles, name: str, *, state: Path | None = None, timeout_s: float = 3.0
) -> Client:
    """Connect to a device by name, id, or a unique part of either.

    Raises:
        NoSuchDevice: no paired device has that name, or several do.
        TransportError: it cannot be reached.
    """
    if name == LOCAL_NAME:
        return Client(local.connect(state))
    device = _by_name(files.devices(), name)
    try:
        return _connect(files, device)
    except EdgebenchError:
        # Its address may have changed since it was paired: ask the network where it is now.
        moved = [agent for agent in discover(timeout_s) if agent.pin == device.pin]
        if not moved:
            raise
        # Anybody can announce a pin: only an address that was proven is remembered.
        current = _at(device, moved[0])
        client = _connect(files, current)
        files.remember(current)
        return client


def _by_name(devices: Sequence[KnownDevice], name: str) -> KnownDevice:
    exact = [device for device in devices if name in (device.name, device.id, device.pin)]
    partly = [device for device in devices if name in device.name or device.id.startswith(name)]
    found = exact or (partly if name else [])
    if len(found) == 1:
        return found[0]
    if not found:
        names = ", ".join([LOCAL_NAME, *(device.name for device in devices)])
        raise NoSuchDevice(f"no paired device is called {name!r}: there are {names}")
    raise NoSuchDevice(f"{len(found)} devices match {name!r}: {', '.join(d.name for d in found)}")


def _connect(files: HostFiles, device: KnownDevice) -> Client:
    link = tls.connect(
        device.addresses,
        device.port,
        pin=device.pin,
        identity_path=files.identity_path(),
        name=device.name,
    )
    return Client(link)


def _at(device: KnownDevice, agent: Advertised) -> KnownDevice:
    return replace(device, addresses=agent.addresses, port=agent.port)


def _look_here(state: Path | None) -> Found:
    try:
        with Client(local.connect(state)) as client:
            system = client.describe()
            address = f"this machine, {system.device.name}"
            return Found(LOCAL_NAME, address, Access.READY, system.device.id, "", system)
    except EdgebenchError as exc:
        return Found(LOCAL_NAME, "this machine", Access.UNREACHABLE, reason=str(exc))


def _look_at(files: HostFiles, device: KnownDevice, advertised: list[Advertised]) -> Found:
    places = [device, *(_at(device, agent) for agent in advertised if agent.pin == device.pin)]
    failure: EdgebenchError | None = None
    for place in places:  # where it was before, then where it says that it is
        try:
            with _connect(files, place) as client:
                system = client.describe()
                return Found(device.name, _address(place), Access.READY, device.id, "", system)
        except EdgebenchError as exc:
            failure = failure or exc
    access = Access.NOT_PAIRED if isinstance(failure, NotPaired) else Access.UNREACHABLE
    return Found(device.name, _address(device), access, device.id, str(failure))


def _address(place: KnownDevice | Advertised) -> str:
    return f"{place.addresses[0] if place.addresses else '?'}:{place.port}"


def _stranger(agent: Advertised) -> Found:
    return Found(
        agent.name,
        _address(agent),
        Access.NOT_PAIRED,
        agent.id,
        "run `edgebench-agent pair` on it",
    )
