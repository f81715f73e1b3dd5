"""Sentences on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
from pathlib import Path

import pytest

from edgebench.protocol.terminal import say

ERROR = "hint: see which devices there are: edgebench devices --timeout 10s; or measure here"


def said(line: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that a terminal gets if it is stderr and so wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    os.set_blocking(ours, False)
    try:
        with os.fdopen(theirs, "w") as stream, monkeypatch.context() as patch:
            patch.setattr("sys.stderr", stream)
            say(line)
            return os.read(ours, 4096).decode().splitlines()
    finally:
        os.close(ours)


def test_sentence_is_broken_between_words_and_commands_stay_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half a command is copied, or a word is read as two."""
    assert said(ERROR, 40, monkeypatch) == [
        "hint: see which devices there are:",
        "edgebench devices --timeout 10s; or",
        "measure here",
    ]


def test_command_that_is_longer_than_the_terminal_stays_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pairing string that is copied has a line feed in it."""
    command = f"edgebench pair '{'x' * 60}'"
    assert said(f"next: {command}", 40, monkeypatch) == ["next:", command]


def test_terminal_without_a_size_has_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A serial line has no columns: every word is on a line of its own."""
    line = "a sentence of a few words"
    assert said(line, 0, monkeypatch) == [line]


def test_file_gets_each_sentence_as_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script that looks for `hint: ` gets a part of it."""
    path = tmp_path / "stderr"
    with path.open("w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        say(ERROR + "\x1b[31m")
    assert path.read_text() == f"{ERROR}?[31m\n"
