"""Functions that make text from devices, model files and libraries safe to print."""

from __future__ import annotations

import re
import textwrap

MAX_LINE_CHARS = 200
_WORD = r"(?!\()(?:'[^'\n]*'|\"[^\"\n]*\"|[^\s'\"])+"
"""Pattern of a word in a command line; the word may have quoted parts. A word that begins with an
opening parenthesis is not part of the command."""
_COMMAND = re.compile(rf"\b(?:edgebench|edgebench-agent|pip|sudo|ssh)(?: {_WORD}(?<![;,.?)]))+")
"""Pattern of a command in a sentence, without the punctuation after the command."""
_NO_BREAK = "\N{NO-BREAK SPACE}"


def printable(text: object, *, keep_lines: bool = False) -> str:
    r"""Text with `?` in place of every character that is not printable, such as terminal escapes.

    Args:
        text: Any object; its `str` is used.
        keep_lines: Whether to keep line feeds.

    >>> printable("a\x1b[31m b\n"), printable("a\nb", keep_lines=True)
    ('a?[31m b?', 'a\nb')
    """
    line = str(text)
    if line.isprintable():  # true for almost all of the thousands of texts of a list
        return line
    kept = "\n" if keep_lines else ""
    return "".join(char if char.isprintable() or char in kept else "?" for char in line)


def one_line(text: object, max_chars: int = MAX_LINE_CHARS) -> str:
    r"""Text as a single printable line; for an exception without a text, the name of its class.

    Args:
        text: An exception, or any object with a text.
        max_chars: Maximum length of the line; a longer text is cut, and ends with "…".

    >>> one_line(ValueError("no\n number")), one_line(KeyboardInterrupt()), one_line("abc", 2)
    ('no number', 'KeyboardInterrupt', 'a…')
    """
    line = printable(" ".join(str(text).split()))
    if not line and isinstance(text, BaseException):
        line = type(text).__name__
    return line if len(line) <= max_chars else line[: max_chars - 1] + "…"


def wrapped_lines(text: str, width: int) -> list[tuple[str, bool]]:
    """Wrap text as `wrap` does; return each line, and whether the line begins with a command."""
    return [(line, _COMMAND.match(line) is not None) for line in wrap(text, width).split("\n")]


def wrap(text: str, width: int, indent: int = 0) -> str:
    """Wrap text to a width between words, but not within a command.

    A command that is longer than the width is kept on a single line: a terminal folds the line, and
    the user can copy the whole command.

    Args:
        text: Sentences; line feeds are kept.
        width: Number of characters in a line, at least 1.
        indent: Number of spaces before each continuation line. A line that would exceed the width
            has no indent.

    >>> print(wrap("see which devices there are: edgebench devices --timeout 10s; or", 40))
    see which devices there are:
    edgebench devices --timeout 10s; or
    """
    joined = _COMMAND.sub(lambda match: match[0].replace(" ", _NO_BREAK), text)
    filled = "\n".join(
        textwrap.fill(
            line,
            max(1, width),
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in joined.split("\n")
    )
    lines = (line.lstrip(" ") if len(line) > width else line for line in filled.split("\n"))
    return "\n".join(lines).replace(_NO_BREAK, " ")
