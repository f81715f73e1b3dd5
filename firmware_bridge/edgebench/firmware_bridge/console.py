"""Log of all bytes sent and received over a line, with their times."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

MAX_BYTES = 8 << 20
"""Maximum number of bytes in a log. If there are more, half of this number is kept from the
beginning, and the other half from the end."""


class ConsoleDirection(Enum):
    """Direction of bytes, as seen from the bridge."""

    RECEIVED = "received"
    SENT = "sent"


@dataclass(frozen=True, slots=True)
class ConsoleEntry:
    """Bytes of a single read or write."""

    time_ns: int
    """Time when the read or write returned, by the bridge's clock."""
    direction: ConsoleDirection
    data: bytes


@dataclass(slots=True)
class ConsoleLog:
    """Log of a serial line; above the size limit, bytes in its middle are dropped and counted."""

    max_bytes: int = MAX_BYTES
    dropped_bytes: int = 0
    _head: list[ConsoleEntry] = field(default_factory=list[ConsoleEntry])
    _head_bytes: int = 0
    _tail: deque[ConsoleEntry] = field(default_factory=deque[ConsoleEntry])
    _tail_bytes: int = 0

    def add(self, time_ns: int, direction: ConsoleDirection, data: bytes) -> None:
        """Add sent or received bytes; empty data is ignored."""
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
        """All kept entries, in order."""
        yield from self._head
        yield from self._tail

    def write(self, path: Path) -> None:
        """Write a JSON line per entry: `time_ns`, `direction`, and `text` in Latin-1."""
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
