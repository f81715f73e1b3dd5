"""USB ids of serial ports that may belong to boards; an id is a hint, not proof of a board.

A debug probe has the same USB id on every board of its vendor. The id of a USB serial adapter does
not depend on the device behind the adapter. Therefore the id of a port only determines whether an
agent opens the port without a request. Only a port that replies with a name has a board. At a
user's request, any other port on USB is also opened.

Sources:

- mlcommons/tiny, benchmark/runner (the first six ids)
- udev rules of the vendors
- usb.ids
- boards.txt of the Arduino cores (Adafruit, Seeed, Teensy)
- Zephyr, CONFIG_USB_DEVICE_VID and _PID
"""

from __future__ import annotations

from dataclasses import dataclass

from edgebench.protocol.bridge import BAUD_RATE

DEFAULT_BAUD_RATES = (BAUD_RATE, 921_600, 9600, 76_800)
"""Speeds of MLPerf Tiny's firmware, in this order: performance mode, anomaly detection, energy
mode, image classification."""


@dataclass(frozen=True, slots=True)
class BoardHint:
    """Kind of device to which a USB id may belong."""

    vendor: int
    product: int | None
    """USB product id; None for any product of the vendor."""
    text: str
    baud_rates: tuple[int, ...] = DEFAULT_BAUD_RATES
    """Speeds to try, in this order; 1200 baud is never tried, because it starts bootloaders."""


BOARD_HINTS: tuple[BoardHint, ...] = (
    BoardHint(0x0483, 0x374E, "STM32H573I-DK, MLPerf Tiny's interface board"),
    BoardHint(0x0483, 0x374B, "ST-LINK of a Nucleo or Discovery board"),
    BoardHint(0x2341, 0x0043, "Arduino Uno"),
    BoardHint(0x2341, 0x0001, "Arduino Uno"),
    BoardHint(0x2A03, 0x0043, "Arduino Uno"),
    BoardHint(0x2A03, 0x0243, "Arduino Uno"),
    BoardHint(0x2341, None, "Arduino board"),
    *(
        BoardHint(0x0483, product, "ST-LINK of a Nucleo or Discovery board")
        for product in (0x374F, 0x3752, 0x3753, 0x3754, 0x3757)
    ),
    BoardHint(0x0D28, 0x0204, "DAPLink of an mbed board"),
    BoardHint(0x1366, None, "SEGGER J-Link"),
    BoardHint(0x2E8A, 0x000A, "Raspberry Pi Pico"),
    BoardHint(0x2E8A, 0x000C, "Raspberry Pi Debug Probe"),
    BoardHint(0x2E8A, None, "Raspberry Pi Pico"),
    BoardHint(0x303A, None, "Espressif board"),
    BoardHint(0x2FE3, None, "Zephyr board"),
    BoardHint(0x1915, None, "Nordic board"),
    BoardHint(0x2886, None, "Seeed board"),
    BoardHint(0x239A, None, "Adafruit board"),
    BoardHint(0x16C0, 0x0483, "Teensy"),
    BoardHint(0xCAFE, None, "TinyUSB board"),
    BoardHint(0x1FC9, 0x0143, "MCU-Link of an NXP board"),
    BoardHint(0x1FC9, 0x0090, "LPC-Link of an NXP board"),
    BoardHint(0x04B4, 0xF155, "KitProg3 of an Infineon board"),
    BoardHint(0x0451, 0xBEF3, "XDS110 of a TI board"),
    BoardHint(0x03EB, 0x2111, "EDBG of a Microchip board"),
    BoardHint(0x03EB, 0x2175, "nEDBG of a Microchip board"),
    BoardHint(0x10C4, 0xEA60, "CP210x serial adapter"),
    BoardHint(0x10C4, 0xEA70, "CP2105 serial adapter"),
    BoardHint(0x10C4, 0xEA71, "CP2108 serial adapter"),
    BoardHint(0x1A86, 0x7523, "CH340 serial adapter"),
    BoardHint(0x1A86, 0x55D3, "CH343 serial adapter"),
    BoardHint(0x1A86, 0x55D4, "CH9102 serial adapter"),
    BoardHint(0x067B, 0x2303, "PL2303 serial adapter"),
    BoardHint(0x0403, 0x6001, "FTDI serial adapter"),
    BoardHint(0x0403, 0x6010, "FTDI serial adapter"),
    BoardHint(0x0403, 0x6014, "FTDI serial adapter"),
    BoardHint(0x0403, 0x6015, "FTDI serial adapter"),
)
"""Hints for USB ids; the first hint that matches an id is used."""

METER_IDS = frozenset({(0x1915, 0xC00A)})
"""Ids that only energy meters have (PPK2). No `name` command is sent to these ports, because its
terminator `%` begins a command that changes the PPK2's calibration. Source: IRNAS/ppk2-api-python
(SET_USER_GAINS)."""
SHARED_IDS = {(0x0483, 0x5740): "STM32 with its own USB port, or LPM01A"}
"""USB ids that meters and boards share. The LPM01A meter has the id of all serial ports with ST's
USB software, so only the reply to a query distinguishes the meter from a board. These ports are
opened only at the user's request."""


def hint_of(vendor: int | None, product: int | None) -> BoardHint | None:
    """Hint for a USB id; None if the id is unknown, or if meters have it."""
    if vendor is None or (vendor, product) in METER_IDS | SHARED_IDS.keys():
        return None
    fitting = (board_hint for board_hint in BOARD_HINTS if board_hint.vendor == vendor)
    return next((one for one in fitting if one.product in (None, product)), None)
