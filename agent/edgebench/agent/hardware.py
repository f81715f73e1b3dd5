"""Detects, by hardware ids, whether a directory was created on another machine.

An agent's identity is a file, so a copy of an SD card contains the identity as well. The directory
of the identity and the directory of the agent's state therefore store ids of the hardware. An agent
that finds the ids of another machine runs from a copied or moved card, and creates a new identity.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from pathlib import Path

from edgebench.agent.files import write_private
from edgebench.agent.system import board_id
from edgebench.agent.telemetry.source import read_text
from edgebench.protocol.errors import RemoteProtocolError
from edgebench.protocol.hardware import BoardChange, Hardware
from edgebench.protocol.plain import from_outside, to_plain

HARDWARE_FILE = "hardware.json"
MAX_CARDS = 16
"""Maximum number of network cards that are read."""
_PERMANENT = "0"
"""Value NET_ADDR_PERM in the file addr_assign_type: the address is the card's permanent address.
Source: Linux, Documentation/ABI/testing/sysfs-class-net."""
_NOT_BURNT_IN = 0x03
"""Bits of a MAC address's first byte that are 0 in a card's permanent address: the bits of group
addresses and of locally administered addresses. Source: IEEE 802-2014, 8.2.2."""
_AT_USB = re.compile(r"/usb\d+/")

logger = logging.getLogger(__name__)


def read_hardware(root: Path = Path("/"), serial: str = "") -> Hardware:
    """Ids of this machine's hardware, as far as the kernel exposes them.

    Args:
        root: Directory that replaces / in tests.
        serial: Serial number that does not come from a file under `root`; empty if there is none.
    """
    networks = root / "sys/class/net"
    try:
        interfaces = sorted(path for path in networks.iterdir() if _is_built_in(path))
    except OSError:  # no interfaces, or a container hides them
        interfaces = []
    addresses = {read_text(path / "address").lower() for path in interfaces[:MAX_CARDS]}
    cards = {_hashed(address) for address in addresses if _is_of_card(address)}
    return Hardware(board_id(root, serial), tuple(sorted(cards)))


def changed_hardware(directory: Path, now: Hardware) -> BoardChange | None:
    """Evidence that a directory was created on another machine; None without such evidence."""
    return _remembered(directory).change_to(now)


def remember_hardware(directory: Path, now: Hardware) -> None:
    """Store the ids of this machine's hardware in a directory; a disk error is only logged."""
    before = _remembered(directory)
    if (after := before.updated(now)) == before:
        return
    path = directory / HARDWARE_FILE
    try:
        write_private(path, json.dumps(to_plain(after), indent=1))
    except OSError as exc:
        logger.warning("a copy of this SD card will not be detected: %s: %s", exc.strerror, path)


def forget_hardware(directory: Path) -> None:
    """Remove the stored hardware ids from a directory, which is then valid on any machine."""
    (directory / HARDWARE_FILE).unlink(missing_ok=True)


def _remembered(directory: Path) -> Hardware:
    path = directory / HARDWARE_FILE
    try:
        return from_outside(json.loads(path.read_text()), Hardware)
    except FileNotFoundError:
        return Hardware()
    except (OSError, ValueError, RemoteProtocolError) as exc:
        logger.warning("cannot read the stored hardware IDs: %s: %s", exc, path)
        return Hardware()


def _is_built_in(interface: Path) -> bool:
    """Whether an interface is a built-in card, neither virtual nor on USB (removable)."""
    device = interface / "device"
    if not device.exists() or _AT_USB.search(str(device.resolve())):
        return False
    return read_text(interface / "addr_assign_type") == _PERMANENT


def _is_of_card(address: str) -> bool:
    try:
        octets = bytes.fromhex(address.replace(":", ""))
    except ValueError:
        return False
    return len(octets) == 6 and not octets[0] & _NOT_BURNT_IN and any(octets[3:])


def _hashed(address: str) -> str:
    """Hash of a MAC address; the hash does not hide the address from an exhaustive search."""
    return hashlib.blake2b(address.encode(), key=b"edgebench card", digest_size=8).hexdigest()
