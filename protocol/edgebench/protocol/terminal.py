"""Sentences on stderr, beside the result on stdout."""

from __future__ import annotations

import os
import sys

from edgebench.protocol.text import printable, wrap

_USUAL_WIDTH = 80
"""Columns of a terminal that does not tell its size, as that of a serial line."""


def say(line: str, *, end: str = "\n") -> None:
    """Print a sentence on stderr, without control characters; on a terminal, wrapped to its width.

    Args:
        line: The sentence.
        end: What is behind it; a blank behind a question.
    """
    shown = printable(line)
    if sys.stderr.isatty():
        shown = wrap(shown, os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_WIDTH)
    print(shown, end=end, file=sys.stderr, flush=True)
