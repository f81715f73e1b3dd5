"""A board behind MLPerf Tiny's interface board, which forwards commands and marks the replies.

    dut name%  →  m-dut-passthrough(name)
                  m-ready                        of the interface board
                  [dut]: m-name-dut-[…]
                  [dut]: m-ready                 of the board itself: the command has ended

The interface board itself replies at once. Its own `m-ready` arrives even if the board behind it
does not reply. The serial line is half duplex: nothing is sent while the board transmits.

EEMBC's IO Manager can be configured to print `m-lap-us-N`, by its own clock, whenever the board
pulls the timestamp pin. These laps appear between the lines of the board, but are not laps of
the board itself. The first lap appears before `m-infer-start`.

Source: mlcommons/tiny, benchmark/interface, InterfaceMenu::Passthrough; the logs of energy runs in
mlcommons/tiny_results_v1.0.
"""

from __future__ import annotations

import re
from dataclasses import replace

from edgebench.firmware_bridge.dialects.events import (
    CommandEcho,
    InterfaceName,
    OtherText,
    Quirk,
    TimedEvent,
)
from edgebench.firmware_bridge.dialects.lines import LineDialect, line_pattern
from edgebench.firmware_bridge.dialects.mlperf_tiny import MLPERF_TINY

PREFIX = "dut "
CHUNK_BYTES = 26
"""Number of input bytes per `db` command, as in MLPerf Tiny's runner; the command has at most 64
characters."""
_MARK = re.compile(r"\[dut\]: ?")
_OWN = InterfaceName | OtherText
"""Types of the events for lines that the interface board prints about itself."""


class PassthroughDialect:
    """The dialect of a board behind an interface board."""

    def __init__(self, board: LineDialect) -> None:
        self.name = f"interface_board+{board.name}"
        self.chunk_bytes = CHUNK_BYTES
        self.quirks: set[Quirk] = board.quirks
        self._board = board
        self._outer = LineDialect(
            "interface_board",
            (
                line_pattern(
                    r"dut-passthrough\((.*)\)?",
                    lambda m, _: CommandEcho(m[1].removesuffix(")")),
                ),
                # Marked lines are parsed by the board's own dialect, below.
                line_pattern(r"\[dut\]:.*", lambda m, _: OtherText(m[0]), has_prefix=False),
                *(one for one in MLPERF_TINY if one.has_prefix),
            ),
            r"m-dut-passthrough\(|\[dut\]:",
            chunk_bytes=CHUNK_BYTES,
            max_chars=board.max_chars + len(PREFIX),
        )
        self._outer.quirks = self.quirks

    def encode(self, command: str) -> bytes:
        """Encode a command for the board behind the interface board."""
        self._board.encode(command)  # for its checks, and to recognise an echo
        return self._outer.encode(PREFIX + command)

    def reset(self) -> None:
        """Discard a partial line and the last command."""
        self._board.reset()
        self._outer.reset()

    def receive(self, data: bytes, time_ns: int) -> list[TimedEvent]:
        """Parse lines of the board (marked `[dut]:`) and of the interface board (unmarked)."""
        events: list[TimedEvent] = []
        for timed in self._outer.receive(data, time_ns):
            if isinstance(timed.event, OtherText) and (mark := _MARK.match(timed.event.text)):
                line = timed.event.text[mark.end() :].encode("ascii") + b"\n"
                events += [
                    replace(inner, first_ns=timed.first_ns)
                    for inner in self._board.receive(line, timed.last_ns)
                ]
            elif isinstance(timed.event, _OWN):
                events.append(timed)
        return events
