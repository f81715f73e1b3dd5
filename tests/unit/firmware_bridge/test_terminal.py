"""A user types commands to a board."""

from __future__ import annotations

import pytest
from support.board_double import BoardDouble, InterfaceDouble, LineFaults, VirtualLine

from edgebench.firmware_bridge.terminal import converse
from edgebench.protocol.errors import LocalProtocolError


def test_commands_are_answered_and_an_empty_one_is_not_sent() -> None:
    """Otherwise a user who presses Enter would crash the board."""
    line = VirtualLine(BoardDouble(), LineFaults(pieces=(7,)))
    text = "".join(converse(line, ["name%", "", "  ", "%", "timestamp", "nonsense"], silence_s=5))
    assert line.sent == b"name%timestamp%nonsense%"
    assert text == (
        "m-timestamp-mode-performance\nm-lap-us-1000\nm-init-done\nm-ready\n"
        "m-name-dut-[unspecified]\nm-ready\nm-lap-us-1000\nm-ready\n"
        "e-[Unknown command: nonsense]\nm-ready\n"
    )


def test_reply_of_a_board_behind_an_interface_board_is_shown() -> None:
    """Otherwise the text would end with the interface board's own `m-ready`."""
    line = VirtualLine(InterfaceDouble(BoardDouble()))
    text = "".join(converse(line, ["dut profile"], silence_s=5))
    assert text.endswith("[dut]: m-model-[kws01]\n[dut]: m-ready\n")


def test_two_commands_in_a_line_are_refused() -> None:
    """Otherwise the second command would be sent while the board works on the first."""
    line = VirtualLine(BoardDouble())
    with pytest.raises(LocalProtocolError):
        list(converse(line, ["name%profile"], silence_s=5))
    assert line.sent == b""
