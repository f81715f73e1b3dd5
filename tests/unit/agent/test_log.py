"""The agent's log: bounded, shared without losses, and no line repeated a hundred times."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from edgebench.agent import log
from edgebench.agent.log import GENERATIONS, REPEAT_S, AgentLog, LogFile


class Written:
    """A logger without parents, with the lines that it wrote and a clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.lines: list[str] = []
        self.handler = AgentLog(self.lines.append, lambda: self.now_s)
        self.handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        self.log = logging.Logger("test", logging.DEBUG)
        self.log.addHandler(self.handler)


def test_repeated_warning_is_written_once_and_counted() -> None:
    """Otherwise a stranger who tries every second would fill the disk, or hide other events."""
    said = Written()
    for _ in range(121):
        said.log.warning("refused %s", "192.0.2.1")
    said.log.warning("refused %s", "192.0.2.2")
    assert said.lines == ["WARNING refused 192.0.2.1", "WARNING refused 192.0.2.2"]
    said.now_s = REPEAT_S
    said.log.warning("refused %s", "192.0.2.1")
    assert said.lines[2:] == [
        "WARNING refused 192.0.2.1 … repeated 120 times",
        "WARNING refused 192.0.2.1",
    ]
    said.log.warning("refused %s", "192.0.2.1")
    said.handler.close()
    assert said.lines[4:] == ["WARNING refused 192.0.2.1 … repeated 1 times"]


def test_every_step_is_written_if_somebody_wants_steps() -> None:
    """Otherwise `--verbose` would leave out steps."""
    said = Written()
    for _ in range(3):
        said.log.debug("step")
    assert said.lines == ["DEBUG step"] * 3


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a stranger with many addresses would take the agent's memory."""
    monkeypatch.setattr(log, "MAX_REMEMBERED", 3)
    said = Written()
    for number in (1, 1, 2, 3, 4):
        said.log.warning("refused %d", number)
    assert len(said.handler._warnings) == 3
    assert said.lines[3] == "WARNING refused 1 … repeated 1 times"


def test_traceback_stays_and_cannot_reach_a_terminal() -> None:
    """Otherwise the error would not be in the log, or would clear the screen of its reader."""
    said = Written()
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        said.log.exception("failed")
    assert re.fullmatch(r"(?s)ERROR failed\nTraceback.*ValueError: \?\[2J", said.lines[0])


def test_file_is_bounded_and_older_ones_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a year of warnings would fill the card of a board."""
    monkeypatch.setattr(log, "MAX_BYTES", 100)
    file = LogFile(tmp_path / "agent.log")
    for number in range(200):
        file.write(f"line {number}")
    file.close()
    names = ["agent.log", *(f"agent.log.{number}" for number in range(1, GENERATIONS + 1))]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    assert all(path.stat().st_size <= 110 for path in tmp_path.iterdir())
    kept = "".join((tmp_path / name).read_text() for name in reversed(names)).split("\n")[:-1]
    assert kept == [f"line {number}" for number in range(200 - len(kept), 200)]
    assert (tmp_path / "agent.log").stat().st_mode & 0o777 == 0o600


def test_two_agents_share_a_file_and_lose_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise one agent would rename the file, and the other write into an older one for ever."""
    monkeypatch.setattr(log, "MAX_BYTES", 4000)
    monkeypatch.setattr(log, "GENERATIONS", 50)
    files = [LogFile(tmp_path / "agent.log") for _ in "ab"]

    def write(who: int) -> None:
        for number in range(1000):
            files[who].write(f"{who} {number}")

    threads = [threading.Thread(target=write, args=(who,)) for who in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = "".join(path.read_text() for path in tmp_path.iterdir()).splitlines()
    assert sorted(lines) == sorted(f"{who} {number}" for who in (0, 1) for number in range(1000))
    for file in files:
        file.close()


def test_log_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    """Otherwise a full disk would end the agent by way of a warning."""
    file = LogFile(Path("/dev/full"))
    file.write("lost")
    file.close()
    gone = LogFile(tmp_path / "agent.log")
    (tmp_path / "agent.log").unlink()
    gone.write("kept")
    assert (tmp_path / "agent.log").read_text() == "kept\n"
    gone.close()
    assert os.listdir(tmp_path) == ["agent.log"]


def test_line_that_a_full_disk_cut_does_not_take_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise half a line and the next line would be read as one, with another meaning."""
    write, room = os.write, [4]
    file = LogFile(tmp_path / "agent.log")
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[: room[0]]))
        file.write("first")
    file.write("second")
    file.close()
    assert (tmp_path / "agent.log").read_text() == "firs\nsecond\n"


def test_line_behind_the_end_goes_into_no_other_file(tmp_path: Path) -> None:
    """Otherwise an agent's last warning would go into the file that got the log's descriptor."""
    file = LogFile(tmp_path / "agent.log")
    file.close()
    with (tmp_path / "other").open("w"):
        file.write("late")
        file.close()
    assert (tmp_path / "other").read_text() == ""
    assert (tmp_path / "agent.log").read_text() == ""


PRINTS = """
import os, sys, time
from pathlib import Path
from edgebench.agent import log
log.MAX_BYTES, log.WATCH_S = 100, 0.01
path = Path(sys.argv[1])
log.log_to_file(path)
print("x" * 200, flush=True)
while os.fstat(1).st_size:  # renamed, and still open for a moment
    time.sleep(0.01)
print("after", flush=True)
"""


def test_what_is_printed_into_the_file_is_bounded_too(tmp_path: Path) -> None:
    """Otherwise a library that complains at each step would fill the card of a board."""
    path = tmp_path / "agent.log"
    subprocess.run([sys.executable, "-c", PRINTS, str(path)], check=True, timeout=20)
    assert path.with_name("agent.log.1").stat().st_size == 201
    assert path.read_text() == "after\n"
