"""Sentences on stderr, beside the result on stdout; for the command lines of host and agent."""

from __future__ import annotations

import os
import sys

from edgebench.protocol.text import printable, wrap

_MAX_DIGITS = 5
DEFAULT_WIDTH = 80
"""Width assumed if the terminal reports none, such as a serial console."""


def say(line: str, *, end: str = "\n") -> None:
    """Print a sentence on stderr, without control characters; on a terminal, wrapped to its width.

    Args:
        line: The sentence.
        end: Text appended: a space after a question.
    """
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] `2>&-` closes it
        return  # print would take stdout, where a document may be
    shown = printable(line)
    if sys.stderr.isatty():
        shown = wrap(shown, _width())
    print(shown, end=end, file=sys.stderr, flush=True)


def _width() -> int:
    """Columns of the terminal; those that the user exported come first, as for tables."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given[:_MAX_DIGITS]) > 0:
        return int(given[:_MAX_DIGITS])
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):  # a stream in the place of stderr
        return DEFAULT_WIDTH
