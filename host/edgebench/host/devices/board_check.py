"""Check that an agent with a known identity is on the board on which it was paired."""

from __future__ import annotations

from edgebench.host.devices.files import KnownDevice
from edgebench.protocol.errors import WrongBoard
from edgebench.protocol.hardware import BoardChange, Hardware

_REASONS = {
    BoardChange.SERIAL: "its serial number differs",
    BoardChange.NETWORK_CARDS: "it has none of its network cards",
}


def require_board(device: KnownDevice, hardware: Hardware, address: str) -> None:
    """Check that the machine of an agent is that of the device.

    Args:
        device: The device.
        hardware: Machine of the agent.
        address: Address of the agent.

    Raises:
        WrongBoard: the machine is another one.
    """
    if (change := device.machine.change_to(hardware)) is not None:
        raise WrongBoard(
            f"agent at {address} has the identity of {device.name}, and is on another board: "
            f"{_REASONS[change]}"
        )


def require_single(device: KnownDevice) -> None:
    """Check that no other agent was seen with the identity of the device.

    Raises:
        WrongBoard: several agents were seen, and their hardware does not distinguish them.
    """
    if device.copies:
        raise WrongBoard(copies_text(device.name, device.copies))


def copies_text(name: str, addresses: tuple[str, ...]) -> str:
    """Message about several agents with one identity."""
    return f"{len(addresses)} agents have the identity of {name}: at {', '.join(addresses)}"
