"""All devices in one list: this machine, the paired ones, and the ones that announce themselves."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from edgebench.host.client import Client
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.devices.mdns import Advertised, discover
from edgebench.host.transports import local, tls
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import EdgebenchError, NotPaired, UsageError

LOCAL_NAME = "local"
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
        UsageError: no paired device has that name, or several do.
        TransportError: it cannot be reached.
    """
    if name == LOCAL_NAME:
        return Client(local.connect(state))
    device = _by_name(files.devices(), name)
    try:
        return _connect(files, device)
    except NotPaired:
        raise
    except EdgebenchError:
        # Its address may have changed since it was paired: ask the network where it is now.
        moved = [agent for agent in discover(timeout_s) if agent.pin == device.pin]
        if not moved:
            raise
        return _connect(files, _moved(files, device, moved[0]))


def _by_name(devices: Sequence[KnownDevice], name: str) -> KnownDevice:
    exact = [device for device in devices if name in (device.name, device.id, device.pin)]
    partly = [device for device in devices if name in device.name or device.id.startswith(name)]
    found = exact or partly
    if len(found) == 1:
        return found[0]
    names = ", ".join([LOCAL_NAME, *(device.name for device in devices)])
    if not found:
        raise UsageError(f"no paired device is called {name!r}: there are {names}")
    raise UsageError(f"{len(found)} devices match {name!r}: {names}")


def _connect(files: HostFiles, device: KnownDevice) -> Client:
    link = tls.connect(
        device.addresses,
        device.port,
        pin=device.pin,
        identity_path=files.identity_path(),
        name=device.name,
    )
    return Client(link)


def _moved(files: HostFiles, device: KnownDevice, agent: Advertised) -> KnownDevice:
    moved = KnownDevice(
        device.name, device.id, device.pin, agent.addresses, agent.port, device.deployed_to
    )
    files.remember(moved)
    return moved


def _look_here(state: Path | None) -> Found:
    try:
        with Client(local.connect(state)) as client:
            system = client.describe()
            return Found(LOCAL_NAME, "this machine", Access.READY, system.device.id, "", system)
    except EdgebenchError as exc:
        return Found(LOCAL_NAME, "this machine", Access.UNREACHABLE, reason=str(exc))


def _look_at(files: HostFiles, device: KnownDevice, advertised: list[Advertised]) -> Found:
    now = next((agent for agent in advertised if agent.pin == device.pin), None)
    current = _moved(files, device, now) if now and _has_moved(device, now) else device
    address = f"{current.addresses[0] if current.addresses else '?'}:{current.port}"
    try:
        with _connect(files, current) as client:
            system = client.describe()
            return Found(device.name, address, Access.READY, device.id, "", system)
    except NotPaired as exc:
        return Found(device.name, address, Access.NOT_PAIRED, device.id, str(exc))
    except EdgebenchError as exc:
        return Found(device.name, address, Access.UNREACHABLE, device.id, str(exc))


def _has_moved(device: KnownDevice, agent: Advertised) -> bool:
    return set(device.addresses) != set(agent.addresses) or device.port != agent.port


def _stranger(agent: Advertised) -> Found:
    address = f"{agent.addresses[0] if agent.addresses else '?'}:{agent.port}"
    return Found(
        agent.name, address, Access.NOT_PAIRED, agent.id, "run `edgebench-agent pair` on it"
    )
