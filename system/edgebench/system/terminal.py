"""Messages on stderr, separate from the result on stdout; for the commands of host and agent."""

from __future__ import annotations

import os
import re
import sys

from edgebench.protocol.text import printable, wrap

_HINT = "hint: "
_NEXT_STEP = re.compile(r"(?P<quoted>'[^']*')|; (?=(?:or|then|and|otherwise|what) )")
_NEXT_LINE = "\n" + " " * len(_HINT)
_MAX_DIGITS = 5
_BOLD_RED, _RED, _YELLOW, _CYAN, _DIM = "1;31", "31", "33", "36", "2"
_COLOURS = {
    "error": _BOLD_RED,
    "invalid": _RED,
    "warning": _YELLOW,
    "suspect": _YELLOW,
    "hint": _CYAN,
    "next": _CYAN,
    "note": _DIM,
}
"""Maps the labels of messages to their colours; labels that are not in the map have no colour."""
DEFAULT_WIDTH = 80
"""Columns that are assumed for a terminal that reports no width, such as a serial console."""


def echo(line: str, *, end: str = "\n") -> None:
    """Print a message on stderr, without control characters; on a terminal, wrapped to its width.

    Args:
        line: The message.
        end: Text to print after the message, such as a space after a question.
    """
    _print(printable(line), end)


def echo_hint(hint: str) -> None:
    """Print a hint on stderr; on a terminal, each step of the hint starts a new line.

    Args:
        hint: The steps, separated by "; or", "; then" and the like.
    """
    shown = printable(f"{_HINT}{hint}")
    if _is_terminal():
        shown = _NEXT_STEP.sub(lambda match: match["quoted"] or _NEXT_LINE, shown)
    _print(shown, indent=len(_HINT))


def coloured(line: str) -> str:
    r"""A message with its label coloured if the label is known; the text itself has no colour.

    >>> coloured("hint: see: edgebench runs"), coloured("results: /tmp")
    ('\x1b[36mhint:\x1b[0m see: edgebench runs', 'results: /tmp')
    """
    label, colon, rest = line.partition(":")
    code = _COLOURS.get(label)
    return line if code is None else f"\x1b[{code}m{label}{colon}\x1b[0m{rest}"


def _has_colours() -> bool:
    """Whether messages have colours. Source: https://no-color.org."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in (None, "", "dumb")


def _print(text: str, end: str = "\n", indent: int = 0) -> None:
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] `2>&-` closes it
        return  # print would write to stdout, which may be a document
    shown = wrap(text, _width(), indent) if _is_terminal() else text
    shown = coloured(shown) if _is_terminal() and _has_colours() else shown
    print(shown, end=end, file=sys.stderr, flush=True)


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def _width() -> int:
    """Columns of the terminal; the variable COLUMNS takes precedence, as it does for tables."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given[:_MAX_DIGITS]) > 0:
        return int(given[:_MAX_DIGITS])
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):  # stderr was replaced by another stream
        return DEFAULT_WIDTH
