r"""The binary stream of a PowerShield.

    sample   16 bits, big-endian: 4 bits of exponent, 0..E, then 12 bits of mantissa;
             value = mantissa * 16**-exponent
    record   F0 F1 text FF FF   error            F0 F4 FF FF        end
             F0 F2 text FF FF   information      F0 F5 FF FF        overcurrent
             F0 F3 ms u32 (bit 31: overflow)     F0 F6 FF FF        device's supply off
                   buffer % u8 FF FF             F0 F7 mV u16 FF FF supply voltage

Theory of operation. No sample starts with F, so F0 followed by F1 to F7 starts a record, even if
bytes before the record were lost. Samples have two bytes, so an odd number of bytes between two
records, or a sample that starts with F, shows that a byte was lost. The boundaries of the samples
after the loss are unknown, so all bytes between the two records are discarded. After a damaged
record, all bytes up to the next record are discarded. Therefore samples are held back until the
next record arrives, for at most a second.

Source: ST UM2243, Getting started with the X-NUCLEO-LPM01A; the help text of its firmware, quoted
in mlcommons/tiny, benchmark/runner, power_manager.py.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np

from edgebench.meters.base import Floats
from edgebench.meters.lpm01a.items import (
    End,
    ErrorMessage,
    Hole,
    Item,
    Overcurrent,
    PowerDown,
    Stamp,
    SupplyVoltage,
    Values,
)

RADIX = 16
WORD_BYTES = 2
RESERVED = 0xF000
"""Lowest 16-bit word that is not a sample; all higher words are not samples either."""
_TEXT_MAX_BYTES = 256
_START = re.compile(rb"\xf0[\xf1-\xf7]")
_RECORD = re.compile(
    rb"\xf0(?:([\xf1\xf2])([\x00-\x7f]{0,%d})|(\xf3)(.{5})|([\xf4-\xf6])()|(\xf7)(.{2}))\xff\xff"
    % _TEXT_MAX_BYTES,
    re.DOTALL,
)
_FRAME_BYTES = 4
_PAYLOAD_BYTES = {0xF1: _TEXT_MAX_BYTES, 0xF2: _TEXT_MAX_BYTES, 0xF3: 5, 0xF7: 2}
_HELD_MAX_BYTES = 1 << 22
"""Number of bytes in twenty seconds at the highest rate. A stream counts as broken if this many
successive bytes contain no record."""
_OVERFLOW_BIT = 1 << 31


@cache
def value_table() -> Floats:
    """Value of each possible 16-bit word, shape (65536,)."""
    words = np.arange(1 << 16)
    table: Floats = (words & 0xFFF) * float(RADIX) ** -(words >> 12)
    return table


class BinaryReader:
    """Finds samples and records in bytes that arrive in pieces of any size."""

    def __init__(self) -> None:
        self._table = value_table()
        self._rest = b""
        self._searched = 0
        """Offset in the held bytes; no record starts before this offset."""
        self._is_doubtful = False
        """Whether the record before the held bytes was damaged, so that its length is unknown."""
        self._is_over = False

    def feed(self, data: bytes, *, is_last: bool = False) -> list[Item]:
        """Return the items that these bytes complete."""
        items: list[Item] = []
        self._rest += data
        while not self._is_over and (start := _START.search(self._rest, self._searched)):
            place = start.start()
            record = _RECORD.match(self._rest, place)
            longest = _FRAME_BYTES + _PAYLOAD_BYTES.get(self._rest[place + 1], 0)
            if record is None and len(self._rest) - place < longest:
                self._searched = place
                return items + (self._samples(self._rest[:place]) if is_last else [])
            items += self._samples(self._rest[:place])
            items += [Hole(0)] if record is None else self._record(record)
            self._rest = self._rest[(record or start).end() :]
            self._is_doubtful = record is None
            self._searched = 0
        return items + self._leave(is_last)

    def _leave(self, is_last: bool) -> list[Item]:
        """Keep bytes until the next record arrives, or decode them at the end of the stream."""
        rest = self._rest
        self._searched = max(0, len(rest) - 1)  # the last byte may be the first of a record
        is_broken = len(rest) > _HELD_MAX_BYTES
        if not (is_last or is_broken or self._is_over):
            return []
        self._rest, self._searched = b"", 0
        if self._is_over:
            return []
        if is_broken:
            return [Hole(len(rest) // WORD_BYTES)]
        return self._samples(rest[: len(rest) // WORD_BYTES * WORD_BYTES])

    def _samples(self, raw: bytes) -> list[Item]:
        if not raw:
            return []
        if self._is_doubtful:
            return [Hole(0)]
        if len(raw) % WORD_BYTES:
            return [Hole(len(raw) // WORD_BYTES + 1)]
        words = np.frombuffer(raw, ">u2").astype(np.uint16)
        if words.max() >= RESERVED:
            return [Hole(len(words))]
        return [Values(self._table[words], (words >> 12).astype(np.uint8))]

    def _record(self, record: re.Match[bytes]) -> list[Item]:
        place = record.lastindex or 0
        kind, payload = record[place - 1][0], record[place]
        if kind == 0xF1:
            return [ErrorMessage(payload.decode("ascii", "replace").strip())]
        if kind == 0xF3:
            word = int.from_bytes(payload[:4], "big")
            time_ms, is_overflow = word & ~_OVERFLOW_BIT, bool(word & _OVERFLOW_BIT)
            return [Stamp(time_ms, payload[4] / 100, is_overflow)]
        if kind == 0xF4:
            self._is_over = True
            return [End()]
        if kind == 0xF5:
            return [Overcurrent()]
        if kind == 0xF6:
            return [PowerDown()]
        if kind == 0xF7:
            return [SupplyVoltage(int.from_bytes(payload, "big") / 1000)]
        return []
