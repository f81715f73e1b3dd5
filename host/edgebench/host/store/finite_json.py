"""JSON without NaN and infinity: Python's reader accepts them, a strict one does not."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

_MAX_SHOWN_CHARS = 40
"""Characters of the number that an error quotes."""


class NotFinite(ValueError):
    """A number in a document is infinite, or NaN."""


def load_finite(
    content: str | bytes, *, parse_int: Callable[[str], int] | None = None
) -> Any:  # Any: JSON
    """The value of a JSON document.

    Args:
        content: The document.
        parse_int: Reader of its whole numbers; None: Python's.

    Raises:
        NotFinite: a number is infinite, or NaN.
        ValueError: it is not JSON.
        RecursionError: it is nested too deeply.
    """
    return json.loads(content, parse_constant=_finite, parse_float=_finite, parse_int=parse_int)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise NotFinite(f"{text[:_MAX_SHOWN_CHARS]} is not a finite number")
    return number
