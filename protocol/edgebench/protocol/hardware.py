"""Hardware identifiers, by which machines with copies of the same SD card are distinguished.

Agent and host compare hardware by the same rule. An agent compares the present hardware with the
hardware that is stored with the agent's identity, before it uses that identity. A host compares the
hardware that an agent reports with the hardware that is stored for the known device, before it
measures on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class BoardChange(str, Enum):
    """Kind of evidence that the machine differs from the machine with which it is compared."""

    SERIAL = "serial"
    """The serial number differs."""
    NETWORK_CARDS = "network_cards"
    """None of the known network cards is present, but unknown network cards are present."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """Hashed identifiers of a machine; an identifier that the kernel does not report is empty."""

    board: str = ""
    """Hashed serial number of the board, or UUID of the mainboard; this identifier alone is
    sufficient evidence."""
    network_cards: tuple[str, ...] = ()
    """Hashed permanent addresses of the built-in network cards; weak evidence, because a card may
    be replaced."""

    def change_to(self, now: Hardware) -> BoardChange | None:
        """Evidence that `now` describes another machine; None if there is no evidence.

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
        """Whether there is evidence that `now` describes the same machine.

        >>> Hardware("", ("01", "02")).is_proven_by(Hardware("5a", ("02",)))
        True
        >>> Hardware("5a").is_proven_by(Hardware("", ("02",)))
        False
        """
        if self.board and now.board:
            return self.board == now.board
        return bool(set(self.network_cards) & set(now.network_cards))

    def updated(self, now: Hardware) -> Hardware:
        """Copy with the identifiers in `now`; an identifier that `now` lacks is unchanged."""
        return Hardware(now.board or self.board, now.network_cards or self.network_cards)
