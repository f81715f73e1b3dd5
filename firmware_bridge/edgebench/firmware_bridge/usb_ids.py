"""USB ids of the connections of boards: hints, never identities.

A debug probe has the same id on every board of its vendor, and a USB serial adapter on any device.
So an id makes a port a candidate, and the board's own name decides.

Source: mlcommons/tiny, benchmark/runner (the first six); udev rules of the vendors.
"""

from __future__ import annotations

from dataclasses import dataclass

from edgebench.protocol.bridge import BAUD_RATE

DEFAULT_BAUD_RATES = (BAUD_RATE, 921_600, 9600, 76_800)
"""Performance mode, the reference for anomaly detection, energy mode, and the reference for image
classification."""


@dataclass(frozen=True, slots=True)
class BoardHint:
    """Kind of device that may have a USB id."""

    vendor: int
    product: int | None
    """None: any of this vendor's."""
    text: str
    baud_rates: tuple[int, ...] = DEFAULT_BAUD_RATES
    """Speeds to try, in this order; never 1200, which starts bootloaders."""
    is_interface: bool = False
    """Whether it is MLPerf Tiny's interface board, with a board behind it."""


BOARD_HINTS: tuple[BoardHint, ...] = (
    BoardHint(0x0483, 0x374E, "STM32H573I-DK, MLPerf Tiny's interface board", is_interface=True),
    BoardHint(0x0483, 0x374B, "ST-LINK of a Nucleo or Discovery board"),
    BoardHint(0x2341, 0x0043, "Arduino Uno"),
    BoardHint(0x2341, 0x0001, "Arduino Uno"),
    BoardHint(0x2A03, 0x0043, "Arduino Uno"),
    BoardHint(0x2A03, 0x0243, "Arduino Uno"),
    BoardHint(0x2341, None, "Arduino board"),
    BoardHint(0x0483, 0x374F, "ST-LINK of a Nucleo or Discovery board"),
    BoardHint(0x0483, 0x3752, "ST-LINK of a Nucleo or Discovery board"),
    BoardHint(0x0D28, 0x0204, "DAPLink of an mbed board"),
    BoardHint(0x1366, None, "SEGGER J-Link"),
    BoardHint(0x2E8A, 0x000A, "Raspberry Pi Pico"),
    BoardHint(0x2E8A, 0x000C, "Raspberry Pi Debug Probe"),
    BoardHint(0x2E8A, None, "Raspberry Pi Pico"),
    BoardHint(0x303A, None, "Espressif board"),
    BoardHint(0x10C4, 0xEA60, "CP210x serial adapter"),
    BoardHint(0x1A86, 0x7523, "CH340 serial adapter"),
    BoardHint(0x0403, 0x6001, "FTDI serial adapter"),
    BoardHint(0x0403, 0x6010, "FTDI serial adapter"),
    BoardHint(0x0403, 0x6014, "FTDI serial adapter"),
    BoardHint(0x0403, 0x6015, "FTDI serial adapter"),
)
"""Hints; the first match is used."""

METER_IDS = frozenset({(0x0483, 0x5740), (0x1915, 0xC00A)})
"""Ids of energy meters (LPM01A, PPK2), which never get a `name` command: they do not support it,
and it could disturb a recording."""


def hint_of(vendor: int | None, product: int | None) -> BoardHint | None:
    """Hint for a USB id; None: the id is unknown, or that of a meter."""
    if vendor is None or (vendor, product) in METER_IDS:
        return None
    fitting = (board_hint for board_hint in BOARD_HINTS if board_hint.vendor == vendor)
    return next((one for one in fitting if one.product in (None, product)), None)
