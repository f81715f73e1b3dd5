"""Text from inference libraries, made fit to print."""

from __future__ import annotations

import re

MAX_LENGTH = 300


def one_line(text: object) -> str:
    """At most 300 printable characters on one line; model files choose parts of this text."""
    flat = " ".join(str(text).split())
    printable = "".join(char if char.isprintable() else "?" for char in flat)
    short = re.sub(r"(/[\w.+-]+)+/(?=[\w.-]+\.(cc|h)\b)", "", printable)
    return short if len(short) <= MAX_LENGTH else short[: MAX_LENGTH - 1] + "…"
