"""Makes text from inference libraries printable as a line."""

from __future__ import annotations

import re

from edgebench.protocol.text import one_line

MAX_CHARS = 300
_SOURCE_FOLDERS = re.compile(r"(/[\w.+-]+)+/(?=[\w.-]+\.(cc|h)\b)")
"""Pattern of the build machine's directories that precede the name of a library's source file."""


def library_line(text: object) -> str:
    """A library's message as a single line; empty for an exception without a message."""
    return one_line(_SOURCE_FOLDERS.sub("", str(text)), MAX_CHARS)
