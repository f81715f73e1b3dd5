"""Hardware of an agent's machine, which distinguishes machines with copies of an SD card.

Both sides compare the hardware by the same rule: an agent compares it with the hardware that is
stored with its identity, before it uses that identity; a host with the hardware that is stored with
a device, before it measures there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class BoardChange(str, Enum):
    """Evidence that the machine has changed."""

    SERIAL = "serial"
    """The serial number differs."""
    NETWORK_CARDS = "network_cards"
    """None of the known network cards is present, but other cards are."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """Hashes of the identifiers of a machine; each is empty if the kernel does not report it."""

    board: str = ""
    """Serial number of the board, or UUID of the mainboard. Strong evidence: sufficient alone."""
    network_cards: tuple[str, ...] = ()
    """Permanent addresses of the built-in network cards. Weak evidence: a card may be replaced."""

    def change_to(self, now: Hardware) -> BoardChange | None:
        """Evidence that the machine has changed since; None if there is no evidence.

        >>> pi = Hardware("5a", ("01",))
        >>> pi.change_to(Hardware("5b", ("01",))), pi.change_to(Hardware("5a", ("02",)))
        (<BoardChange.SERIAL: 'serial'>, None)
        >>> pi.change_to(Hardware("", ("02",))), pi.change_to(Hardware())
        (<BoardChange.NETWORK_CARDS: 'network_cards'>, None)
        """
        if self.board and now.board:
            return BoardChange.SERIAL if self.board != now.board else None
        if (
            self.network_cards
            and now.network_cards
            and not set(self.network_cards) & set(now.network_cards)
        ):
            return BoardChange.NETWORK_CARDS
        return None

    def is_proven_by(self, now: Hardware) -> bool:
        """Whether there is evidence that the machine is the same.

        >>> Hardware("", ("01", "02")).is_proven_by(Hardware("5a", ("02",)))
        True
        >>> Hardware("5a").is_proven_by(Hardware("", ("02",)))
        False
        """
        if self.board and now.board:
            return self.board == now.board
        return bool(set(self.network_cards) & set(now.network_cards))

    def updated(self, now: Hardware) -> Hardware:
        """Hardware with the present identifiers; identifiers that are missing now are kept."""
        return Hardware(now.board or self.board, now.network_cards or self.network_cards)
