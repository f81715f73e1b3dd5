"""Text of others on our terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.protocol.text import MAX_LINE_CHARS, one_line, printable, wrap


@given(st.text())
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    """Otherwise a device's name would move the cursor, or turn the line around."""
    shown = printable(text)
    assert len(shown) == len(text)
    assert shown.isprintable()
    assert all(new == old or new == "?" for new, old in zip(shown, text, strict=True))


def test_lines_are_kept_where_they_are_wanted() -> None:
    """Otherwise a device's page would be one endless line, or keep more than its line feeds."""
    assert printable("a\tb\r\nc\u202e", keep_lines=True) == "a?b?\nc?"


@given(st.text(), st.integers(1, 400))
def test_line_is_one_and_fits(text: str, max_chars: int) -> None:
    """Otherwise a message would break a table, or a log that is read line by line."""
    line = one_line(text, max_chars)
    assert line.isprintable()
    assert len(line) <= max_chars
    assert not any(unicodedata.category(char) in ("Cc", "Zl", "Zp") for char in line)


def test_long_line_shows_that_it_was_longer() -> None:
    """Otherwise half a sentence would be taken for a whole one."""
    assert one_line("a" * MAX_LINE_CHARS) == "a" * MAX_LINE_CHARS
    assert one_line("a" * (MAX_LINE_CHARS + 1)) == "a" * (MAX_LINE_CHARS - 1) + "…"


@pytest.mark.parametrize("silent", [ValueError(), ValueError("  \n ")])
def test_exception_without_words_has_its_name(silent: Exception) -> None:
    """Otherwise a failure would be reported as nothing behind a colon."""
    assert one_line(silent) == "ValueError"
    assert one_line("") == "", "that is no exception"


_WORDS = st.lists(st.sampled_from(["a", "of", "device", "edgebench", "show", "x" * 30, "no;"]))


@given(_WORDS, st.integers(1, 100))
def test_wrapping_changes_nothing_but_blanks(words: list[str], width: int) -> None:
    """Otherwise a word would be lost, or a breakable line be longer than the terminal."""
    lines = wrap(" ".join(words), width).splitlines()
    assert " ".join(lines) == " ".join(words)
    assert all(len(line) <= width or " " not in line or "edgebench " in line for line in lines)


def test_wrapped_lines_keep_line_feeds_and_paths() -> None:
    """Otherwise a list of reasons would become one paragraph, or a path break at a hyphen."""
    path = "/a-very-long/path-to/a-file"
    assert wrap(f"no\nfile {path}", 20) == f"no\nfile\n{path}"


@pytest.mark.parametrize(
    ("text", "unbroken"),
    [
        ("write it: edgebench bench 'my model (1).onnx' --wait 10m; or not", "'my model (1).onnx'"),
        ("write it: edgebench bench 'a, b.onnx' --wait 10m", "edgebench bench 'a, b.onnx' --wait"),
        ("first edgebench show last --all\nsecond", "edgebench show last --all\nsecond"),
        ("bind it: edgebench bench a --cpus 0,1, or not", "edgebench bench a --cpus 0,1,"),
    ],
)
def test_command_is_not_broken(text: str, unbroken: str) -> None:
    """Otherwise a line feed would be in the name of a file that is copied."""
    for width in range(1, 60):
        assert unbroken in wrap(text, width)


def test_sentence_after_a_command_is_wrapped() -> None:
    """Otherwise a question mark would not end a command, and a line would be too long."""
    lines = wrap("did you mean edgebench compare? otherwise see: edgebench --help", 30)
    assert all(len(line) <= 30 for line in lines.splitlines())
