"""Phones as the adb server lists them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from edgebench.protocol.text import printable


class AdbState(str, Enum):
    """State of a phone; the value is the adb server's name of the state."""

    READY = "device"
    UNAUTHORISED = "unauthorized"
    AUTHORISING = "authorizing"
    CONNECTING = "connecting"
    OFFLINE = "offline"
    NO_PERMISSIONS = "no permissions"
    RECOVERY = "recovery"
    SIDELOAD = "sideload"
    RESCUE = "rescue"
    BOOTLOADER = "bootloader"
    NO_SHELL_V2 = "no shell_v2"
    """The phone is ready, but its shell reports no exit codes; the adb server lists it as
    `device`."""
    ABSENT = "absent"
    """The adb server does not list the phone."""
    OTHER = "other"
    """Any state of the adb server that is unknown to this version of edgebench."""


_SEE = "list the phones: adb devices -l"
WORDS: dict[AdbState, tuple[str, str]] = {
    AdbState.READY: ("ready", "edgebench deploy {target}"),
    AdbState.UNAUTHORISED: (
        "unauthorised: USB debugging from this computer is not allowed yet",
        "unlock the phone and accept the dialog; if there is none: adb reconnect offline",
    ),
    AdbState.AUTHORISING: ("still being authorised", _SEE),
    AdbState.CONNECTING: ("still being connected", _SEE),
    AdbState.OFFLINE: (
        "offline: connected, but not responding to adb",
        "unplug the phone and plug it in again, or: adb reconnect offline",
    ),
    AdbState.NO_PERMISSIONS: (
        "no permissions: this user may not open the phone's USB device",
        "install the udev rules of phones, then plug the phone in again: apt install "
        "android-sdk-platform-tools-common; adb kill-server",
    ),
    AdbState.RECOVERY: ("in recovery, not in Android", "start Android: adb -s {serial} reboot"),
    AdbState.SIDELOAD: ("in sideload, not in Android", "start Android: adb -s {serial} reboot"),
    AdbState.RESCUE: ("in rescue mode, not in Android", "start Android: adb -s {serial} reboot"),
    AdbState.BOOTLOADER: ("in its bootloader", "start Android: fastboot -s {serial} reboot"),
    AdbState.NO_SHELL_V2: (
        "without shell_v2: the phone's adb shell reports no exit codes, as is the case before "
        "Android 7",
        "use a newer phone or a newer adb; list the features: adb -s {serial} features",
    ),
    AdbState.ABSENT: (
        "not connected",
        "plug the phone in, or connect over Wi-Fi: adb connect HOST:PORT",
    ),
    AdbState.OTHER: ("in an unknown state", _SEE),
}
"""Maps each state to its meaning, and to the user's next step as a template that `Phone.next_step`
fills in."""


@dataclass(frozen=True, slots=True)
class Phone:
    """A phone in the adb server's list."""

    serial: str
    """Name of the phone at the adb server: its serial number, or HOST:PORT over Wi-Fi."""
    state: AdbState
    model: str = ""

    @property
    def target(self) -> str:
        """Text that names the phone for `edgebench deploy`."""
        return target_of(self.serial)

    @property
    def meaning(self) -> str:
        """Meaning of the phone's state, as text."""
        return WORDS[self.state][0]

    @property
    def next_step(self) -> str:
        """Next step of the user in this state of the phone, with a command."""
        return WORDS[self.state][1].format(target=self.target, serial=self.serial)


def target_of(serial: str) -> str:
    """Text that names a phone for `edgebench deploy`."""
    return f"adb:{serial}"


def parse_phones(listing: str) -> tuple[Phone, ...]:
    """Parse the phones in the reply to `host:devices-l`; other lines are ignored.

    >>> parse_phones("R58M12  device usb:1-2 product:p model:Pixel_8 device:d transport_id:3")
    (Phone(serial='R58M12', state=<AdbState.READY: 'device'>, model='Pixel_8'),)
    """
    phones: list[Phone] = []
    for line in listing.splitlines():
        match = re.fullmatch(r"(?P<serial>\S+)\s+(?P<rest>\S.*)", printable(line).strip())
        if match is not None:
            rest = match["rest"]
            known = (state for state in AdbState if re.match(rf"{state.value}(?![\w-])", rest))
            model = re.search(r"(?<!\S)model:(\S+)", rest)
            state = next(known, AdbState.OTHER)
            phones.append(Phone(match["serial"], state, model[1] if model else ""))
    return tuple(phones)
