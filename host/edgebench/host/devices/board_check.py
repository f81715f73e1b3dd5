"""Check that an agent with a known identity runs on the board on which it was paired."""

from __future__ import annotations

from edgebench.host.devices.files import KnownDevice
from edgebench.protocol.errors import WrongBoard
from edgebench.protocol.hardware import BoardChange, Hardware

_REASONS = {
    BoardChange.SERIAL: "the serial number differs from that at pairing",
    BoardChange.NETWORK_CARDS: "all network cards differ from those at pairing",
}


def require_board(device: KnownDevice, hardware: Hardware, address: str) -> None:
    """Check that the machine of an agent is the device's machine.

    Raises:
        WrongBoard: the agent runs on another machine.
    """
    if (change := device.machine.change_to(hardware)) is not None:
        raise WrongBoard(
            f"agent at {address} has the identity of {device.name}, but runs on another board: "
            f"{_REASONS[change]}"
        )


def require_single(device: KnownDevice) -> None:
    """Check that the device's identity was not seen on several agents at the same time.

    Raises:
        WrongBoard: several agents were seen, and their hardware does not distinguish them.
    """
    if device.copies:
        raise WrongBoard(copies_text(device.name, device.copies))


def copies_text(name: str, addresses: tuple[str, ...]) -> str:
    """Error message about several agents with the same identity."""
    return f"{len(addresses)} agents have the identity of {name}: at {', '.join(addresses)}"
