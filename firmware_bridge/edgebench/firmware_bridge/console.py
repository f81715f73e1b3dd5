"""Log of everything that went over a line, byte for byte, with the times."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

MAX_BYTES = 8 << 20
"""Bytes that a log keeps: half from its begin, and half from its end."""


class ConsoleDirection(Enum):
    """Which way bytes went."""

    RECEIVED = "received"
    SENT = "sent"


@dataclass(frozen=True, slots=True)
class ConsoleEntry:
    """Bytes of one read or write."""

    time_ns: int
    """When the call returned, bridge clock."""
    direction: ConsoleDirection
    data: bytes


@dataclass(slots=True)
class ConsoleLog:
    """Log of one line; what does not fit is left out in the middle, and counted."""

    max_bytes: int = MAX_BYTES
    dropped_bytes: int = 0
    _head: list[ConsoleEntry] = field(default_factory=list[ConsoleEntry])
    _head_bytes: int = 0
    _tail: deque[ConsoleEntry] = field(default_factory=deque[ConsoleEntry])
    _tail_bytes: int = 0

    def add(self, time_ns: int, direction: ConsoleDirection, data: bytes) -> None:
        """Keep what was sent or received; nothing is kept of no bytes."""
        if not data:
            return
        entry = ConsoleEntry(time_ns, direction, data)
        if not self._tail and self._head_bytes + len(data) <= self.max_bytes // 2:
            self._head.append(entry)
            self._head_bytes += len(data)
            return
        self._tail.append(entry)
        self._tail_bytes += len(data)
        while self._tail_bytes > self.max_bytes // 2 and len(self._tail) > 1:
            dropped = len(self._tail.popleft().data)
            self._tail_bytes -= dropped
            self.dropped_bytes += dropped

    def entries(self) -> Iterator[ConsoleEntry]:
        """Everything that was kept, in order."""
        yield from self._head
        yield from self._tail

    def write(self, path: Path) -> None:
        """Write a line of JSON for each entry: time_ns, direction, text; a byte is a character."""
        with path.open("w", encoding="utf-8") as file:
            for entry in self.entries():
                line = {
                    "time_ns": entry.time_ns,
                    "direction": entry.direction.value,
                    "text": entry.data.decode("latin-1"),
                }
                file.write(json.dumps(line) + "\n")
            if self.dropped_bytes:
                file.write(json.dumps({"dropped_bytes": self.dropped_bytes}) + "\n")
