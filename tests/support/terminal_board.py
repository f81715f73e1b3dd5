"""A made-up microcontroller on a pseudo-terminal, in real time."""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from dataclasses import dataclass, field

from support.board_double import PULSE, BoardDouble, InterfaceDouble
from support.threaded import Threaded


@dataclass(slots=True)
class TerminalBoard(Threaded):
    """A double of a board, with a port of its own while a block lasts."""

    board: BoardDouble | InterfaceDouble = field(default_factory=BoardDouble)
    path: str = ""
    """Path of its port."""
    _ends: tuple[int, int] = (-1, -1)

    def _open(self) -> None:
        self._ends = os.openpty()
        self.path = os.ttyname(self._ends[1])

    def _run(self) -> None:
        line = self._ends[0]
        while not self._over.is_set():
            if not select.select([line], [], [], 0.02)[0]:
                continue
            with suppress(OSError):
                for delay_us, data in self.board.hear(os.read(line, 4096)):
                    time.sleep(delay_us / 1e6)
                    if data != PULSE:
                        os.write(line, data)

    def _close(self) -> None:
        for end in self._ends:
            os.close(end)
