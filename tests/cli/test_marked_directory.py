"""Commands in a directory with a model and a file for every module: none of them is run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.marked import MarkedDirectory
from support.tools import need_runtime

from edgebench.host.bench.builtin import find_model
from edgebench.system.python_start import LAUNCHER


@pytest.fixture
def directory() -> Iterator[MarkedDirectory]:
    """A directory with traps, for the Python of the tests."""
    with TemporaryDirectory() as folder:  # short: the agent's socket is under it
        directory = MarkedDirectory(Path(folder), Path(sys.executable))
        directory.set_traps()
        yield directory


def in_directory(directory: MarkedDirectory, *words: str, **variables: str) -> None:
    subprocess.run(
        [sys.executable, *words],
        cwd=directory.marked,
        env=directory.environment | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=True,
    )


def test_traps_leave_marks(directory: MarkedDirectory) -> None:
    """Otherwise the tests below would pass whatever is run."""
    in_directory(directory, "-m", "json.tool", "--help")
    assert any(mark.startswith("json in ") for mark in directory.marks())


@pytest.mark.parametrize("variables", [{}, {"PYTHONSAFEPATH": "1"}], ids=["plain", "safe path"])
def test_launcher_imports_nothing_from_the_directory(
    directory: MarkedDirectory, variables: dict[str, str]
) -> None:
    """Otherwise the first import of a process of ours would be a foreign file."""
    in_directory(directory, LAUNCHER, "json.tool", "--help", **variables)
    assert directory.marks() == []


@pytest.mark.slow
@pytest.mark.timeout(600)  # a dozen commands, on a machine that may be busy
def test_commands_import_nothing_from_the_directory(directory: MarkedDirectory) -> None:
    """Otherwise a model's directory could run its author's code under the account that measures."""
    need_runtime("tflite-runtime")
    directory.add_model(find_model("digits_int8.tflite").path)
    try:
        directory.use_commands()
    finally:
        directory.end_agent()
    assert directory.marks() == []
