"""Commands on a terminal: text fits its width, and a long list explains how to shorten it."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest
from support.agents import Host
from support.records import store_run

from edgebench.host.cli.main import COMMANDS, main

LINES = 24


def on_terminal(host: Host, *words: str, columns: int = 80) -> tuple[list[str], str]:
    """Lines that a command prints on a terminal of this width, and its stderr, which is a pipe."""
    environment = os.environ | host.environment
    for name in ("COLUMNS", "LINES"):
        environment.pop(name, None)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, columns, 0, 0))
    command = [sys.executable, "-m", "edgebench.host.cli", *words]
    printed = b""
    with os.fdopen(ours, "rb", buffering=0) as terminal, subprocess.Popen(
        command, stdout=theirs, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:  # fmt: skip
        os.close(theirs)
        try:
            while part := terminal.read(4096):
                printed += part
        except OSError:  # the command has closed the terminal
            pass
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == 0, errors
    return printed.decode().splitlines(), errors


@pytest.mark.parametrize("columns", [60, 80])
def test_help_fits_the_terminal(
    host: Host, capsys: pytest.CaptureFixture[str], columns: int
) -> None:
    """Otherwise the terminal would break the list of commands inside words, or a pipe its words."""
    main(["--help"])
    piped = capsys.readouterr().out
    assert max(map(len, piped.splitlines())) > 80, "a pipe has a line for each command"
    lines, _ = on_terminal(host, "--help", columns=columns)
    assert max(map(len, lines)) <= columns
    assert " ".join(lines).split() == piped.split()
    indent = max(map(len, COMMANDS)) + 4
    listed = [line for line in lines if line.startswith("  ")]
    assert len(listed) > len(COMMANDS)
    for line in listed:
        assert line[:indent].split() in [[], *([name] for name in COMMANDS)], line
        assert line[indent] != " ", line


@pytest.mark.parametrize(("count", "words"), [(LINES + 1, ()), (LINES, ()), (LINES + 1, (30,))])
def test_long_list_of_runs_says_how_to_get_a_short_one(
    host: Host, count: int, words: tuple[int, ...]
) -> None:
    """Otherwise a list of a hundred runs would scroll by without a hint on the newest runs."""
    store = host.lab.store
    for number in range(count):
        store_run(store, f"20260102-0304{number:02}-0123abcd")
    last = [f"--last={number}" for number in words]
    lines, errors = on_terminal(host, "runs", "--device", "board", *last)
    assert sum("digits" in line for line in lines) == count
    is_told = count > LINES and not words
    fewer = "edgebench runs --device board --last 20"
    assert errors == (f"note: {count} runs; to list only the newest: {fewer}\n" * is_told)
    assert host.run("runs").stderr == "", "of a pipe"
