"""Parse JSON, and reject NaN and infinity, which Python's parser accepts and JSON forbids."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAX_DOCUMENT_BYTES = 1 << 24
"""Maximum size of a run's JSON file, bytes; real files have about 100 KB. In memory, a parsed file
takes about 20 times its size."""
_MAX_SHOWN_CHARS = 40
"""Maximum number of characters of a number in an error message."""


class NotFinite(ValueError):
    """A number in a document is infinite, or NaN."""


def load_finite(
    content: str | bytes, *, parse_int: Callable[[str], int] | None = None
) -> Any:  # Any: JSON
    """Parse a JSON document.

    Args:
        content: The document.
        parse_int: Parser of integers; None selects `int`.

    Raises:
        NotFinite: a number is infinite, or NaN.
        ValueError: the content is not JSON.
        RecursionError: the document is nested too deeply.
    """
    return json.loads(content, parse_constant=_finite, parse_float=_finite, parse_int=parse_int)


def read_finite(path: Path) -> Any:  # Any: JSON
    """Read and parse a JSON file.

    Raises:
        NotFinite: a number is infinite, or NaN.
        ValueError: the file is not JSON, or has more than `MAX_DOCUMENT_BYTES`.
        RecursionError: the document is nested too deeply.
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(content) > MAX_DOCUMENT_BYTES:
        raise ValueError(f"file has more than {MAX_DOCUMENT_BYTES} bytes")
    return load_finite(content)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise NotFinite(f"{text[:_MAX_SHOWN_CHARS]} is not a finite number")
    return number
