"""Text that others chose (a device, a model file, a library), made fit to print."""

from __future__ import annotations

import re
import textwrap

MAX_LINE_CHARS = 200
_WORD = r"(?!\()(?:'[^'\n]*'|\"[^\"\n]*\"|[^\s'\"])+"
"""A word of a command line, perhaps with a quoted part; a parenthesis is no part of the command."""
_COMMAND = re.compile(rf"\b(?:edgebench|edgebench-agent|pip|sudo|ssh)(?: {_WORD}(?<![;,.?)]))+")
"""A command in a sentence, up to the punctuation after it."""
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


def wrapped_lines(text: str, width: int) -> list[tuple[str, bool]]:
    """Lines of text that is wrapped as by `wrap`, and whether each begins with a command."""
    return [(line, _COMMAND.match(line) is not None) for line in wrap(text, width).split("\n")]


def wrap(text: str, width: int) -> str:
    """Wrap text to a width between words, but not within a command.

    A command that is longer than the width stays whole: a terminal folds it, and it can be copied.

    Args:
        text: Sentences; line feeds in it stay.
        width: Number of characters in a line, at least 1.

    >>> print(wrap("see which devices there are: edgebench devices --timeout 10s; or", 40))
    see which devices there are:
    edgebench devices --timeout 10s; or
    """
    joined = _COMMAND.sub(lambda match: match[0].replace(" ", _NO_BREAK), text)
    lines = [
        textwrap.fill(line, max(1, width), break_long_words=False, break_on_hyphens=False)
        for line in joined.split("\n")
    ]
    return "\n".join(lines).replace(_NO_BREAK, " ")
