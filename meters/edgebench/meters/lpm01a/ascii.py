r"""The text stream of a PowerShield: one sample per line.

    6409-07                            sample: 6409e-7
    TimeStamp: 001s 000ms, buff 07%    once per second; a space may be < or >, a NUL may follow
    event 00 ris                       the event input; events are counted
    error: Overcurrent >59mA, …        description of an error
    summary … end                      after the last sample

Theory of operation. Array operations classify all lines at once, by their lengths. Lines with
samples are parsed column by column, and only the few lines without a sample are parsed
individually. A line of digits that is not a complete sample is the remains of a damaged sample.

Source: ST UM2243; the help text of the firmware, quoted in mlcommons/tiny, benchmark/runner,
power_manager.py; the separators and the NUL: lazicdanilo/LPM01A-lib.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Floats
from edgebench.meters.lpm01a.items import (
    Edge,
    End,
    ErrorMessage,
    Hole,
    Item,
    Overcurrent,
    Stamp,
    Values,
)

RADIX = 10
_SAMPLE_CHARS = 7
_LINE_MAX_BYTES = 4096
_POWERS = np.array([float(f"1e{exponent}") for exponent in range(100)])
_STAMP = re.compile(rb"TimeStamp\D{1,4}(\d+)s\D{1,3}(\d+)ms\D{1,4}buff\D{1,3}(\d+)\D{0,2}%")
_EVENT = re.compile(rb"event\s+(\d+)\s+(?:ris|fal)")
_ERROR = re.compile(rb"(?:PowerShield > )?err(?:or)?\b[: ]*(.*)")
_END = re.compile(rb"(?:PowerShield > )?(?:summary\b|end\b|Acquisition completed)")
_REMAINS = re.compile(rb"[0-9+-]+")


class AsciiReader:
    """Finds samples and other lines in bytes that arrive in pieces of any size."""

    def __init__(self) -> None:
        self._rest = b""
        self._is_over = False

    def feed(self, data: bytes, *, is_last: bool = False) -> list[Item]:
        """Return the items of all complete lines; a line without a line end waits for more bytes.

        At the end of the stream, a line without a line end is discarded.
        """
        text = self._rest + data.translate(None, b"\0\r")
        end = text.rfind(b"\n") + 1
        self._rest = text[end:]
        if len(self._rest) > _LINE_MAX_BYTES:
            self._rest = b""
            return [*self._lines(text[:end]), Hole(1)]
        return self._lines(text[:end])

    def _lines(self, text: bytes) -> list[Item]:
        if not text or self._is_over:
            return []
        chars = np.frombuffer(text, np.uint8)
        ends = np.flatnonzero(chars == ord("\n"))
        begins = np.concatenate([[0], ends[:-1] + 1])
        is_sample, values, exponents = _samples(chars, begins, ends)
        items: list[Item] = []
        done = 0
        for nth, line in enumerate(np.flatnonzero(~is_sample)):
            until = int(line) - nth  # number of samples before this line
            if until > done:
                items.append(Values(values[done:until], exponents[done:until]))
            done = until
            items += self._other(text[begins[line] : ends[line]].strip())
            if self._is_over:
                return items
        if done < len(values):
            items.append(Values(values[done:], exponents[done:]))
        return items

    def _other(self, line: bytes) -> list[Item]:
        if stamp := _STAMP.search(line):
            seconds, milliseconds, percent = (int(number) for number in stamp.groups())
            return [Stamp(seconds * 1000 + milliseconds, percent / 100)]
        if event := _EVENT.match(line):
            return [Edge(int(event[1]))]
        if error := _ERROR.match(line):
            text = error[1].decode("ascii", "replace").strip()
            is_current = "overcurrent" in text.lower()
            return [*([Overcurrent()] if is_current else []), ErrorMessage(text)]
        if _END.match(line):
            self._is_over = True
            return [End()]
        return [Hole(1)] if _REMAINS.fullmatch(line) else []


def _samples(
    chars: NDArray[np.uint8], begins: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], Floats, NDArray[np.uint8]]:
    """Mask of the lines with a sample; values and exponents (without minus sign) of the samples.

    The mask has shape (lines,), the values and exponents have shape (samples,).
    """
    is_sample = ends - begins == _SAMPLE_CHARS
    rows = chars[begins[is_sample][:, None] + np.arange(_SAMPLE_CHARS)]
    digits = rows[:, [0, 1, 2, 3, 5, 6]] - np.uint8(ord("0"))  # non-digits wrap beyond 9
    is_negative = rows[:, 4] == ord("-")
    is_whole = (digits <= 9).all(axis=1) & (is_negative | (rows[:, 4] == ord("+")))
    is_sample[is_sample] = is_whole
    digits, is_negative = digits[is_whole].astype(np.int64), is_negative[is_whole]
    mantissa = digits[:, :4] @ np.array([1000, 100, 10, 1])
    exponent = digits[:, 4:] @ np.array([10, 1])
    power = _POWERS[exponent]
    # Divide, do not multiply: a negative power of ten is not an exact double; this rounds once.
    values = np.where(is_negative, mantissa / power, mantissa * power)
    return is_sample, values, np.where(is_negative, exponent, 0).astype(np.uint8)
