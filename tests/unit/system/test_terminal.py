"""Sentences on a terminal."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from edgebench.system.terminal import echo, echo_hint

ERROR = "hint: see which devices there are: edgebench devices --timeout 10s; or measure here"


@pytest.fixture(autouse=True)
def no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """No width from the environment, and no colours."""
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")


def said(
    line: str,
    columns: int,
    monkeypatch: pytest.MonkeyPatch,
    speak: Callable[[str], None] = echo,
) -> list[str]:
    """The lines printed on stderr, if it is a terminal of this width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    os.set_blocking(ours, False)
    try:
        with os.fdopen(theirs, "w") as stream, monkeypatch.context() as patch:
            patch.setattr("sys.stderr", stream)
            speak(line)
            return os.read(ours, 4096).decode().splitlines()
    finally:
        os.close(ours)


def test_sentence_is_broken_between_words_and_commands_stay_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise half a command would be copied, or a word be read as two."""
    assert said(ERROR, 40, monkeypatch) == [
        "hint: see which devices there are:",
        "edgebench devices --timeout 10s; or",
        "measure here",
    ]


def test_each_step_of_a_hint_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise copying to the end of the line would include the sentence behind the command."""
    hint = "wait: edgebench bench 'a; or b' --wait 10m; or stop it: edgebench stop; a\nb"
    assert said(hint, 80, monkeypatch, echo_hint) == [
        "hint: wait: edgebench bench 'a; or b' --wait 10m",
        "      or stop it: edgebench stop; a?b",
    ]


def test_command_that_is_longer_than_the_terminal_stays_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise a pairing string that is copied would have a line feed in it."""
    command = f"edgebench pair '{'x' * 60}'"
    assert said(f"next: {command}", 40, monkeypatch) == ["next:", command]


def test_terminal_without_a_size_has_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each word would be on its own line on a serial line, which has no columns."""
    line = "a sentence of a few words"
    assert said(line, 0, monkeypatch) == [line]


def test_file_gets_each_sentence_as_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a script that looks for `hint: ` would get a part of it."""
    path = tmp_path / "stderr"
    with path.open("w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        echo(ERROR + "\x1b[31m")
        echo_hint(ERROR.removeprefix("hint: "))
    assert path.read_text() == f"{ERROR}?[31m\n{ERROR}\n"


class OwnStream(io.StringIO):
    """A stream in place of stderr, as of a test or a notebook, that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_stream_in_the_place_of_stderr_is_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise an error would be lost in an error about its terminal."""
    stream = OwnStream()
    monkeypatch.setattr("sys.stderr", stream)
    echo("not written")
    assert stream.getvalue() == "not written\n"


def test_nothing_goes_to_stdout_where_stderr_is_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a hint would be behind the document that a script reads."""
    monkeypatch.setattr("sys.stderr", None)
    echo("not written")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("columns", ["0", "-1", "abc", "²", "9" * 5000])
def test_columns_that_are_no_width_are_no_error(
    columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an error about the environment would replace the one to be reported."""
    monkeypatch.setenv("COLUMNS", columns)
    assert said("a sentence of a few words", 80, monkeypatch) == ["a sentence of a few words"]


def test_columns_that_were_exported_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise tables and sentences of one command would have different widths."""
    monkeypatch.setenv("COLUMNS", "30")
    assert said("a sentence that has more than thirty letters", 80, monkeypatch) == [
        "a sentence that has more than",
        "thirty letters",
    ]


def test_label_has_the_colour_of_its_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR and a terminal without colours turn them off, and a pipe never has them."""
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm")
    assert said("error: no such run", 80, monkeypatch) == ["\x1b[1;31merror:\x1b[0m no such run"]
    [hint] = said("list them: edgebench runs", 80, monkeypatch, echo_hint)
    assert hint == "\x1b[36mhint:\x1b[0m list them: edgebench runs"
    assert said("results: /tmp", 80, monkeypatch) == ["results: /tmp"]
    for name, value in (("TERM", "dumb"), ("NO_COLOR", "1")):
        monkeypatch.setenv(name, value)
        assert said("error: no", 80, monkeypatch) == ["error: no"]
        monkeypatch.setenv("TERM", "xterm")
