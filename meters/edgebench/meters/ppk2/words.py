"""The stream of a PPK2: 32-bit words, little-endian, 100,000 per second.

    bits 0..13   converter, 14..16 range (0..4), 17 unused, 18..23 counter, 24..31 digital inputs

Theory of operation. Converter and range are 17 bits, so calibration is a table lookup. The
counter shows how many words are lost, modulo 64. If one to three bytes are lost, all following
words consist of the wrong bytes, and the counter jumps. After five counter mismatches in eight
words, the three other byte offsets are tried over the next kilobyte. After a mismatch, words are
held back until seven more words have arrived, because words with lost framing must not be decoded
as samples.

Source: fields and conversion: IRNAS/ppk2-api-python, src/ppk2_api/ppk2_api.py; the recovery of the
framing was inspired by ppk2lab's description, and written from scratch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.ppk2.metadata import RANGES, Calibration

RATE_HZ = 100_000
WORD_BYTES = 4
COUNTERS = 64
SATURATED_ADC = 0x3FFF
HIGHEST_A = 1.0
"""Highest current that Nordic allows (PPK2 user guide). The converter saturates at a higher
current."""
_ADC_MULT = 1.8 / 163840
_TABLE_SIZE = 1 << 17
_MISMATCHES, _AMONG = 5, 8
_TRIAL_WORDS = 256
"""Number of words, in total a kilobyte, over which the four byte offsets are compared."""

Words = NDArray[np.uint32]


def calibration_table(calibration: Calibration, supply_v: float) -> NDArray[np.float64]:
    """Table from the lowest 17 bits of a word to the current in A; NaN if the range is invalid."""
    table = np.full(_TABLE_SIZE, np.nan)
    adc = np.arange(1 << 14)
    for r in range(RANGES):
        c = calibration
        x = (4 * adc - c.o[r]) * (_ADC_MULT / c.r[r])
        table[r << 14 : (r + 1) << 14] = c.ug[r] * (
            x * (c.gs[r] * x + c.gi[r]) + (c.s[r] * supply_v + c.i[r])
        )
    return table


def ranges_of(words: Words) -> NDArray[np.uint8]:
    """Range of each word, 0..7."""
    return ((words >> 14) & 7).astype(np.uint8)


def counters_of(words: Words) -> NDArray[np.int64]:
    """Counter of each word, 0..63."""
    return ((words >> 18) & (COUNTERS - 1)).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class WordRun:
    """Consecutive words with the same framing."""

    words: Words
    lost: NDArray[np.int64]
    """Number of words known to be lost before each word, modulo 64."""
    is_desync: bool
    """Whether the framing was lost before the first word."""


@dataclass(slots=True)
class WordFramer:
    """Finds the words in a byte stream that may have gaps."""

    desync_count: int = 0
    _rest: bytes = b""
    _next_counter: int | None = None
    _is_desync: bool = False
    _is_trusted: bool = False
    """Whether the byte offset has been tested; after the test, counter mismatches mean lost
    words."""

    def feed(self, data: bytes, *, is_last: bool = False) -> list[WordRun]:
        """Return the complete words as runs; all words of a run have the same framing."""
        self._rest += data
        found: list[WordRun] = []
        while (framed := self._frame(is_last)) is not None:
            found.append(framed)
        return found

    def _frame(self, is_last: bool) -> WordRun | None:
        count = len(self._rest) // WORD_BYTES
        if not count:
            return None
        words = np.frombuffer(self._rest, "<u4", count)
        lost = self._lost(words)
        if self._is_trusted:
            self._is_trusted = False
            return self._take(words[:_TRIAL_WORDS], lost[:_TRIAL_WORDS])
        end, is_bad = _believable(lost != 0, is_last)
        if end > 0:
            return self._take(words[:end], lost[:end])
        return self._rescue(words, is_last) if is_bad else None

    def _rescue(self, words: Words, is_last: bool) -> WordRun | None:
        """Determine whether counter mismatches at this word mean lost framing or lost words."""
        if len(words) <= _TRIAL_WORDS and not is_last:
            return None  # wait for more words to compare
        trials = [self._score(offset) for offset in range(WORD_BYTES)]
        best = int(np.argmin(trials))
        if best:
            self.desync_count += 1
            self._is_desync = True
            self._rest = self._rest[best:]
        self._is_trusted = True
        return self._frame(is_last)

    def _score(self, offset: int) -> int:
        """Number of counter mismatches if words start at this byte offset; fewer is better."""
        count = min(_TRIAL_WORDS, (len(self._rest) - offset) // WORD_BYTES)
        if count < 2:
            return _TRIAL_WORDS
        words = np.frombuffer(self._rest, "<u4", count, offset)
        is_wrong = (np.diff(counters_of(words)) - 1) % COUNTERS != 0
        return int(np.count_nonzero(is_wrong) + np.count_nonzero(ranges_of(words) >= RANGES))

    def _lost(self, words: Words) -> NDArray[np.int64]:
        counters = counters_of(words)
        first = counters[0] if self._next_counter is None else self._next_counter
        expected = np.empty_like(counters)
        expected[0], expected[1:] = first, counters[:-1] + 1
        return (counters - expected) % COUNTERS

    def _take(self, words: Words, lost: NDArray[np.int64]) -> WordRun:
        taken = WordRun(words.copy(), lost, self._is_desync)
        self._is_desync = False
        self._next_counter = int(counters_of(words[-1:])[0] + 1) % COUNTERS
        self._rest = self._rest[len(words) * WORD_BYTES :]
        return taken


def _believable(is_wrong: NDArray[np.bool_], is_last: bool) -> tuple[int, bool]:
    """Number of words that are samples, and whether the framing is lost after them.

    If `is_last` is true, words at the end count as samples although no words follow them.
    """
    wrong = np.flatnonzero(is_wrong)
    if not wrong.size:
        return len(is_wrong), False
    running = np.concatenate([[0], np.cumsum(is_wrong)])
    ends = np.minimum(wrong + _AMONG, len(is_wrong))
    is_bad = running[ends] - running[wrong] >= _MISMATCHES
    is_open = (wrong + _AMONG > len(is_wrong)) & (not is_last)
    doubtful = np.flatnonzero(is_bad | is_open)
    if not doubtful.size:
        return len(is_wrong), False
    first = int(doubtful[0])
    return int(wrong[first]), bool(is_bad[first])
