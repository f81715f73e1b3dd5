"""The host's secret files: its identity, and the list of known devices."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import chain, count
from pathlib import Path

from edgebench.host.devices.locked import locked, write_host_file
from edgebench.host.devices.names import DEVICES_FILE, LOCAL_NAME, SEAT_MARK
from edgebench.host.transports.base import Endpoint
from edgebench.host.transports.tls import TlsTransport
from edgebench.protocol.errors import RemoteProtocolError, StoreError
from edgebench.protocol.hardware import Hardware
from edgebench.protocol.identity import new_identity
from edgebench.protocol.plain import from_outside, to_plain
from edgebench.system.paths import refuse_long, user_paths


@dataclass(frozen=True, slots=True)
class KnownDevice:
    """A paired device."""

    name: str
    id: str
    pin: str
    """Fingerprint of the agent's certificate."""
    addresses: tuple[str, ...]
    port: int
    deployed_to: str | None = None
    """Account (USER@HOST) in which `edgebench deploy` installed the agent; None if the agent was
    not installed by `edgebench deploy`."""
    via: str = TlsTransport.name
    """Name of the transport that reaches the device."""
    arch: str = ""
    """Architecture, as uname(1) prints it; empty before the first connection."""
    seat: str = ""
    """Seat (one of the devices that an agent serves); empty means the first. It is never stored."""

    board: str = ""
    """Id of the board. A new operating system does not change the id. Empty before the first
    connection, or if the board has no id."""
    hardware: Hardware = field(default_factory=Hardware)
    """Machine on which the device's agent runs; empty before the first connection, or if the agent
    reports nothing about the machine."""
    copies: tuple[str, ...] = ()
    """Addresses of several agents that had this identity at the same time. Empty if there was only
    one agent, or if the hardware of the agents distinguishes them."""

    identity_file: str = ""
    """File of the private key with which `edgebench deploy` logged in; empty if the transport to
    the agent needs no login."""

    def at_seat(self, seat: str) -> KnownDevice:
        """A copy of this device that refers to the given seat of the same agent."""
        name = f"{self.name}{SEAT_MARK}{seat}"
        return replace(self, name=name, id="", arch="", seat=seat, board="")

    @property
    def machine(self) -> Hardware:
        """Machine of the agent; only the board id is known if an older version made the pairing."""
        return Hardware(self.board) if self.hardware == Hardware() else self.hardware

    @property
    def endpoint(self) -> Endpoint:
        """Endpoint at which the transport reaches the device."""
        return Endpoint(self.name, self.pin, self.addresses, self.port, self.identity_file)

    def moved_to(self, endpoint: Endpoint) -> KnownDevice:
        """A copy of this device with the given endpoint of the same transport."""
        return replace(self, addresses=endpoint.addresses, port=endpoint.port)


class HostFiles:
    """Files of this user in the host's configuration directory."""

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory or Path(user_paths(os.environ).host_config)
        refuse_long(self._directory)

    def identity_path(self) -> Path:
        """File with the host's key and certificate; created if it does not exist."""
        path = self._directory / "identity.pem"
        if not path.exists():
            with self.locked():
                if not path.exists():
                    identity = new_identity(socket.gethostname())
                    write_host_file(path, identity.key_pem + identity.certificate_pem)
        return path

    def devices(self) -> tuple[KnownDevice, ...]:
        """Paired devices; empty if the file with the list does not exist.

        Raises:
            StoreError: the list cannot be read.
        """
        try:
            return from_outside(json.loads(self._inventory.read_text()), tuple[KnownDevice, ...])
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, RemoteProtocolError) as exc:
            raise StoreError(f"list of devices not readable: {exc}: {self._inventory}") from exc

    def remember(self, device: KnownDevice) -> None:
        """Add a device to the list; replace any stored device with the same identity or name."""
        with self.locked():
            others = [
                known
                for known in self.devices()
                if known.pin != device.pin and known.name != device.name
            ]
            self.save([*others, device])

    def forget(self, device: KnownDevice) -> None:
        """Remove the devices with the identity of this device."""
        with self.locked():
            self.save([known for known in self.devices() if known.pin != device.pin])

    def revise(self, pin: str, change: Callable[[KnownDevice], KnownDevice]) -> None:
        """Change the stored device that has this identity; no effect if it was removed meanwhile.

        The device is found by identity, because another process may have renamed it.
        """
        with self.locked():
            before = self.devices()
            after = [change(known) if known.pin == pin else known for known in before]
            if list(before) != after:
                self.save(after)

    def free_name(self, name: str, pin: str) -> str:
        """The given name if no other device has it; otherwise the name with a number appended."""
        taken = {known.name for known in self.devices() if known.pin != pin} | {LOCAL_NAME}
        numbered = (f"{name}-{number}" for number in count(2))
        return next(free for free in chain([name], numbered) if free not in taken)

    def locked(self) -> AbstractContextManager[None]:
        """Lock the files against changes by other processes of this user."""
        return locked(self._directory)

    @property
    def _inventory(self) -> Path:
        return self._directory / DEVICES_FILE

    def save(self, devices: Sequence[KnownDevice]) -> None:
        """Write the list of devices; the caller must hold the lock."""
        write_host_file(self._inventory, json.dumps(to_plain(tuple(devices)), indent=1) + "\n")
