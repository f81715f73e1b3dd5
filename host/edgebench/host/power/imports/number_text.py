"""Numbers as programs and spreadsheets write them: 1234.5  1,234.5  1.234,5  1 234,5  2,50  5.01 V.

Decimal and thousands separators apply to the whole file, and are derived from its first rows. If it
remains unclear whether a number such as 1,234 is 1.234 or 1234, the file is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from edgebench.protocol.errors import FileRefused

NO_VALUE = ("", "nan", "NaN", "NAN", "-nan", "null", "NULL", "None", "NA", "N/A", "n/a", "-", "--")
"""Texts that programs write in place of a missing value."""
OVERLOAD = frozenset({"OL", "O.L", "OL.", "OVLD", "OVERLOAD", "OVERFLOW", "OVER", "+OL", "-OL"})
"""Texts that multimeters display beyond their range."""
OVERLOAD_NUMBER = 9.9e37
"""Number that SCPI instruments return beyond their range (SCPI-1999, 7.2.1.4)."""
_GROUPS = "'\u2019\u00a0\u202f _"
"""Characters besides comma and point that may separate thousands."""
_NUMBER = re.compile(
    rf"([-+]?(?:\d(?:[\d.,{_GROUPS}]*\d)?|[.,]\d+)\.?(?:[eE][-+]?\d+)?)\s*([A-Za-zµμΩ%]*)"
)
_TRAILING_COMMENT = re.compile(r"\s*(?:#|//|;).*$")
_COMMA_GROUPS = re.compile(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d*)?")
_POINT_GROUPS = re.compile(r"[-+]?[1-9]\d{0,2}(?:\.\d{3})+(?:,\d*)?")


@dataclass(frozen=True, slots=True)
class NumberStyle:
    """Separators in the numbers of a file."""

    decimal: str = "."
    thousands: str = ""

    def number(self, text: str) -> tuple[float, str]:
        """Parse a number and the unit that follows it; the unit is empty if there is none.

        Raises:
            ValueError: the text is not a number.

        >>> NumberStyle().number("5.01 V"), NumberStyle(",", ".").number("1.234,5")
        ((5.01, 'V'), (1234.5, ''))
        """
        match = _NUMBER.fullmatch(text.strip())
        if match is None:
            match = _NUMBER.fullmatch(_TRAILING_COMMENT.sub("", text).strip())
        if match is None:
            raise ValueError(f"not a number: {text[:40]!r}")
        digits, unit = match[1], match[2]
        if self.thousands:
            digits = digits.replace(self.thousands, "")
        elif self.decimal == "." and "," in digits:
            raise ValueError(f"decimal comma in {text[:40]!r}: use a decimal point")
        if "_" in digits:
            raise ValueError(f"not a number: {text[:40]!r}")
        return float(digits.replace(self.decimal, ".")), unit


def style_of(texts: Iterable[str], separator: str) -> NumberStyle:
    """Derive the separators in numbers from the first rows.

    Args:
        texts: Values of the used columns; texts that are not numbers are ignored.
        separator: Separator of the columns.

    Raises:
        FileRefused: a comma may be a decimal or a thousands separator.

    >>> style_of(["2,50", "1"], ",").decimal, style_of(["1,234.5"], ",").thousands
    (',', ',')
    """
    matches = (_NUMBER.fullmatch(_TRAILING_COMMENT.sub("", text).strip()) for text in texts)
    numbers = [re.split("[eE]", match[1])[0] for match in matches if match is not None]
    with_comma = [number for number in numbers if "," in number]
    has_decimal_points = any(
        "." in number and "," not in number and not _POINT_GROUPS.fullmatch(number)
        for number in numbers
    )
    for groups, decimal, thousands in ((_COMMA_GROUPS, ".", ","), (_POINT_GROUPS, ",", ".")):
        grouped = [number for number in numbers if groups.fullmatch(number)]
        is_certain = any(decimal in number or number.count(thousands) > 1 for number in grouped)
        if is_certain or (has_decimal_points and decimal == "." and grouped):
            return NumberStyle(decimal, thousands)
    marks = min({mark for number in numbers for mark in _GROUPS if mark in number}, default="")
    if has_decimal_points or not with_comma:
        return NumberStyle(".", marks)
    if separator == "," and all(map(_COMMA_GROUPS.fullmatch, with_comma)):
        raise FileRefused(
            f"{with_comma[0]!r} is ambiguous, because its comma may separate decimals or "
            "thousands: export without thousands separators"
        )
    return NumberStyle(",", marks)
