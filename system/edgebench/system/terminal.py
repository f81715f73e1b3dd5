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
DEFAULT_WIDTH = 80
"""Width assumed if the terminal reports none, such as a serial console."""


def echo(line: str, *, end: str = "\n") -> None:
    """Print a message on stderr, without control characters; on a terminal, wrapped to its width.

    Args:
        line: The message.
        end: Text appended: a space after a question.
    """
    _print(printable(line), end)


def echo_hint(hint: str) -> None:
    """Print a hint on stderr; on a terminal, each of its steps starts a new line.

    Args:
        hint: The steps, separated by "; or", "; then" and the like.
    """
    shown = printable(f"{_HINT}{hint}")
    if _is_terminal():
        shown = _NEXT_STEP.sub(lambda match: match["quoted"] or _NEXT_LINE, shown)
    _print(shown, indent=len(_HINT))


def _print(text: str, end: str = "\n", indent: int = 0) -> None:
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] `2>&-` closes it
        return  # print would write to stdout, which may be a document
    shown = wrap(text, _width(), indent) if _is_terminal() else text
    print(shown, end=end, file=sys.stderr, flush=True)


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison]


def _width() -> int:
    """Columns of the terminal; as for tables, the variable COLUMNS takes precedence."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given[:_MAX_DIGITS]) > 0:
        return int(given[:_MAX_DIGITS])
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):  # stderr was replaced by another stream
        return DEFAULT_WIDTH
