"""Text that others chose (a device, a model file, a library), made fit to print."""

from __future__ import annotations

import re
import textwrap

MAX_LINE_CHARS = 200
_COMMAND = re.compile(r"\b(?:edgebench|edgebench-agent|pip|sudo|ssh) .*?(?=[;,.)] | \(|[;,.)]?$)")
"""A command in a sentence: up to the punctuation behind it."""
_NO_BREAK = "\N{NO-BREAK SPACE}"


def printable(text: object, *, keep_lines: bool = False) -> str:
    r"""Text with `?` in the place of every character that a terminal would obey.

    Args:
        text: Anything; what counts is its `str`.
        keep_lines: Leave line feeds as they are.

    >>> printable("a\x1b[31m b\n"), printable("a\nb", keep_lines=True)
    ('a?[31m b?', 'a\nb')
    """
    line = str(text)
    if line.isprintable():  # as nearly every one of the thousands of texts of a list
        return line
    kept = "\n" if keep_lines else ""
    return "".join(char if char.isprintable() or char in kept else "?" for char in line)


def one_line(text: object, max_chars: int = MAX_LINE_CHARS) -> str:
    r"""Text as one printable line; an exception without a text is named by its class.

    Args:
        text: An exception, or anything else that has words.
        max_chars: Length of the line; where it was longer, its last character is "…".

    >>> one_line(ValueError("no\n number")), one_line(KeyboardInterrupt()), one_line("abc", 2)
    ('no number', 'KeyboardInterrupt', 'a…')
    """
    line = printable(" ".join(str(text).split()))
    if not line and isinstance(text, BaseException):
        line = type(text).__name__
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


def wrap(text: str, width: int) -> str:
    """Lines of at most so many columns, broken between words and never inside a command or a path.

    What is longer than a line stays whole: a terminal folds it, and it can still be copied.

    >>> print(wrap("see which devices there are: edgebench devices --timeout 10s; or", 40))
    see which devices there are:
    edgebench devices --timeout 10s; or
    """
    whole = _COMMAND.sub(lambda found: found[0].replace(" ", _NO_BREAK), text)
    lines = [
        textwrap.fill(one, width, break_long_words=False, break_on_hyphens=False)
        for one in whole.split("\n")
    ]
    return "\n".join(lines).replace(_NO_BREAK, " ")
