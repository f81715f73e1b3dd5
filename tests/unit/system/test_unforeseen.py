"""Unforeseen exceptions: one line, and a file with the traceback."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgebench.protocol.errors import (
    EdgebenchError,
    NoSuchRun,
    OutOfMemory,
    SystemFailure,
    Unforeseen,
)
from edgebench.system.command_process import exit_code_of
from edgebench.system.exit_code import ExitCode
from edgebench.system.unforeseen import (
    KEPT_FILES,
    MAX_FILE_BYTES,
    exit_code_for,
    hint_for,
    named_error,
)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the tracebacks, not yet there."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("EDGEBENCH_DEBUG", raising=False)
    return tmp_path / "state" / "edgebench" / "tracebacks"


def raised(exc: BaseException) -> BaseException:
    """The exception with a traceback."""
    try:
        raise exc
    except BaseException as caught:
        return caught


class Unprintable(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "exc",
    [
        Exception("two\nlines \x1b[31m"),
        RecursionError("deep"),
        Unprintable(),
        OSError("without a number"),
        KeyError("x" * 100_000),
    ],
)
def test_any_exception_is_one_line_with_a_file(exc: Exception, directory: Path) -> None:
    """Otherwise a command would end in thirty lines that are of no use."""
    error = named_error(raised(exc))
    assert isinstance(error, Unforeseen)
    assert error.path is not None
    line = str(error)
    assert line.isprintable()
    assert line.startswith(f"unforeseen {type(exc).__name__}")
    assert line.endswith(f"; traceback: {error.path}")
    assert len(line) < 500 + len(error.path)
    assert os.stat(error.path).st_mode & 0o777 == 0o600
    assert directory.stat().st_mode & 0o777 == 0o700
    assert "Python 3." in Path(error.path).read_text()


def test_files_are_bounded_in_number_and_size(directory: Path) -> None:
    """Otherwise a command in a loop would fill the disk with tracebacks."""
    exc = raised(ValueError("é" * MAX_FILE_BYTES))
    last = [named_error(exc) for _ in range(KEPT_FILES + 5)][-1]
    assert isinstance(last, Unforeseen)
    assert last.path is not None
    files = list(directory.iterdir())
    assert len(files) == KEPT_FILES == 20
    assert Path(last.path) in files
    assert max(path.stat().st_size for path in files) <= MAX_FILE_BYTES + 16


def test_file_that_cannot_be_written_is_said_in_the_same_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a full disk would hide the fault, or two faults would be printed."""
    (tmp_path / "state").write_text("no directory")

    def fail() -> int:
        raise ValueError("no number")

    assert exit_code_of(fail) == ExitCode.FAILED
    out, err = capsys.readouterr()
    first, hint = err.splitlines()
    where = tmp_path / "state" / "edgebench" / "tracebacks"
    assert first == (
        f"error: unforeseen ValueError: no number; traceback not written to {where}: "
        "Not a directory"
    )
    assert hint == (
        "hint: repeat the command to see its traceback on stderr: EDGEBENCH_DEBUG=1 edgebench …"
    )
    assert out == ""


def test_traceback_is_on_stderr_where_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise the traceback would be missing for a fix where no file can be written."""
    monkeypatch.setenv("EDGEBENCH_DEBUG", "1")
    named_error(raised(ValueError("no number")))
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("exc", "code", "hint"),
    [
        (OSError(errno.ENOSPC, "No space left", "/x"), ExitCode.FAILED, "df -h"),
        (OSError(errno.ENAMETOOLONG, "too long", "/x"), ExitCode.USAGE, "edgebench --help"),
        (MemoryError(), ExitCode.FAILED, ""),
        (NoSuchRun("none"), ExitCode.USAGE, ""),
    ],
)
def test_foreseen_exceptions_have_no_file(
    exc: Exception, code: ExitCode, hint: str, directory: Path
) -> None:
    """A full disk is no fault of edgebench."""
    error = named_error(exc)
    assert exit_code_for(error) == code
    assert (error is exc) == isinstance(exc, EdgebenchError)
    assert isinstance(error, SystemFailure) == isinstance(exc, OSError)
    assert isinstance(error, OutOfMemory) == isinstance(exc, MemoryError)
    assert hint in hint_for(error)
    assert not directory.exists()


STRAYS = """
import sys, threading
from edgebench.system.command_process import report_strays
report_strays()
def fail():
    raise Exception("in a thread")
class Finalised:
    def __del__(self):
        raise Exception("in a finaliser")
def generate():
    try:
        yield
    finally:
        raise Exception("in a generator")
for _ in range(int(sys.argv[1])):
    thread = threading.Thread(target=fail, name="progress")
    thread.start()
    thread.join()
Finalised()
generator = generate()
next(generator)
del generator
raise Exception("at the end")
"""


@pytest.mark.parametrize(("count", "warned"), [(1, 3), (30, 5)])
def test_strays_are_a_bounded_number_of_lines(count: int, warned: int) -> None:
    """Otherwise a thread or a finaliser would print thirty lines into a command's result."""
    result = subprocess.run(
        [sys.executable, "-c", STRAYS, str(count)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    *warnings, last = result.stderr.splitlines()
    assert result.returncode == 1
    assert len(warnings) == warned
    assert warnings[0].startswith("warning: unforeseen Exception in thread progress: in a thread;")
    assert last.startswith("error: unforeseen Exception: at the end; traceback: ")
