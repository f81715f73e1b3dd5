"""The stream of a PPK2: 32-bit words, little-endian, 100,000 a second.

    bits 0..13   converter, 14..16 range (0..4), 17 unused, 18..23 counter, 24..31 digital inputs

Theory of operation. Converter and range are 17 bits, so calibration is one look into a table. The
counter shows how many words are lost, modulo 64. Where one to three bytes are lost, all words
behind are made of the wrong bytes, and the counter jumps about: four mismatches in a row, and the
other three offsets are tried over the next kilobyte.

Source: fields and conversion: IRNAS/ppk2-api-python, src/ppk2_api/ppk2_api.py; the rescue of the
framing was inspired by ppk2lab's description, and written anew.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.ppk2.metadata import RANGES, Calibration

RATE_HZ = 100_000
PERIOD_NS = 10_000
WORD_BYTES = 4
COUNTERS = 64
SATURATED_ADC = 0x3FFF
_ADC_MULT = 1.8 / 163840
_TABLE_SIZE = 1 << 17
_MISMATCHES = 4
_TRIAL_WORDS = 256
"""A kilobyte, over which the offsets are compared."""

Words = NDArray[np.uint32]


def calibration_table(calibration: Calibration, supply_v: float) -> NDArray[np.float64]:
    """Ampere by the lowest 17 bits of a word; NaN for ranges that there are none of."""
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
class Framed:
    """Words that belong together."""

    words: Words
    lost: NDArray[np.int64]
    """Words known to be lost before each, modulo 64."""
    is_desync: bool
    """The framing was lost before the first."""


@dataclass(slots=True)
class Framer:
    """Finds the words in a stream of bytes that may have holes."""

    desync_count: int = 0
    _rest: bytes = b""
    _next_counter: int | None = None
    _is_desync: bool = False
    _is_trusted: bool = field(default=False)
    """The offset was tried already: the mismatches are really losses."""

    def feed(self, data: bytes, *, is_last: bool = False) -> list[Framed]:
        """The words that are whole, in parts where the framing was lost between them."""
        self._rest += data
        found: list[Framed] = []
        while (framed := self._frame(is_last)) is not None:
            found.append(framed)
        return found

    def _frame(self, is_last: bool) -> Framed | None:
        count = len(self._rest) // WORD_BYTES
        if not count:
            return None
        words = np.frombuffer(self._rest, "<u4", count)
        lost = self._lost(words)
        bad = -1 if self._is_trusted else _first_mismatches(lost)
        if bad < 0:
            self._is_trusted = False
            return self._take(words, lost)
        if bad > 0:
            return self._take(words[:bad], lost[:bad])
        return self._rescue(words, lost, is_last)

    def _rescue(self, words: Words, lost: NDArray[np.int64], is_last: bool) -> Framed | None:
        """Four mismatches begin here: is the framing lost, or are the words?"""
        if len(words) <= _TRIAL_WORDS and not is_last:
            return None  # wait for more to compare
        trials = [self._score(offset) for offset in range(WORD_BYTES)]
        best = int(np.argmin(trials))
        if best == 0:
            self._is_trusted = True
            return self._take(words[:_TRIAL_WORDS], lost[:_TRIAL_WORDS])
        self.desync_count += 1
        self._is_desync = True
        self._rest = self._rest[best:]
        self._is_trusted = True
        words = np.frombuffer(self._rest, "<u4", min(_TRIAL_WORDS, len(self._rest) // WORD_BYTES))
        return self._take(words, self._lost(words)) if len(words) else None

    def _score(self, offset: int) -> int:
        """Mismatches with the words beginning there; fewer is better."""
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

    def _take(self, words: Words, lost: NDArray[np.int64]) -> Framed:
        taken = Framed(words.copy(), lost, self._is_desync)
        self._is_desync = False
        self._next_counter = int(counters_of(words[-1:])[0] + 1) % COUNTERS
        self._rest = self._rest[len(words) * WORD_BYTES :]
        return taken


def _first_mismatches(lost: NDArray[np.int64]) -> int:
    """Where so many words in a row do not follow each other; -1: nowhere."""
    is_wrong = lost != 0
    if np.count_nonzero(is_wrong) < _MISMATCHES:
        return -1
    rows = np.lib.stride_tricks.sliding_window_view(is_wrong, _MISMATCHES).all(axis=1)
    return int(np.argmax(rows)) if rows.any() else -1
