"""Lists of the adb server, as it prints them."""

from __future__ import annotations

import pytest

from edgebench.host.adb.phones import WORDS, AdbState, Phone, parse_phones

LISTING = """\
R58M12ABCDE            device usb:1-2 product:panther model:Pixel_7 device:panther transport_id:1
192.168.1.7:5555       device product:x model:SM_A525F device:a52q transport_id:2
0123456789             unauthorized usb:1-3 transport_id:3
emulator-5554          offline transport_id:4
9A041FFAZ0             no permissions (user in plugdev group; are your udev rules wrong?); see \
[http://developer.android.com/tools/device.html] usb:1-4 transport_id:5
ABC                    recovery usb:1-5 product:p model:M device:d transport_id:6
ABD                    authorizing transport_id:7
ABE                    device-like transport_id:8
ABF                    detached

"""
"""Source: adb 29.0.6 and 36.0.0; AOSP, packages/modules/adb, transport.cpp."""


def test_every_state_is_read() -> None:
    """Otherwise a phone with a trouble that adb reports would be left out, or look usable."""
    assert parse_phones(LISTING) == (
        Phone("R58M12ABCDE", AdbState.READY, "Pixel_7"),
        Phone("192.168.1.7:5555", AdbState.READY, "SM_A525F"),
        Phone("0123456789", AdbState.UNAUTHORISED),
        Phone("emulator-5554", AdbState.OFFLINE),
        Phone("9A041FFAZ0", AdbState.NO_PERMISSIONS),
        Phone("ABC", AdbState.RECOVERY, "M"),
        Phone("ABD", AdbState.AUTHORISING),
        Phone("ABE", AdbState.OTHER),
        Phone("ABF", AdbState.OTHER),
    )


@pytest.mark.parametrize("listing", ["", "\n\n", "serial-alone\n", "\x1b[2J\n"])
def test_lines_without_a_phone_are_left_out(listing: str) -> None:
    """Otherwise a version of adb with another line would end `edgebench devices`."""
    assert parse_phones(listing) == ()


@pytest.mark.parametrize("state", AdbState)
def test_every_state_has_words_and_a_next_step(state: AdbState) -> None:
    """Otherwise a phone would be listed without what to do about it."""
    assert state in WORDS
    phone = Phone("R58M", state)
    assert phone.meaning
    assert "{" not in phone.next_step
