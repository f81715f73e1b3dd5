"""The line to a meter's digital input."""

from __future__ import annotations

import os
import pty
import select
import termios
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgebench.agent.worker import sync_line
from edgebench.agent.worker.sync_line import LOW_NS, open_line, pulse
from edgebench.meters.wiring import LINE_KINDS
from edgebench.protocol.errors import TargetError


class Time:
    """A clock that advances at each look."""

    now_ns = 0

    def __call__(self) -> int:
        self.now_ns += 1_000
        return self.now_ns


@pytest.fixture
def serial() -> Iterator[tuple[int, str]]:
    """A pseudo-terminal: the far end, and the path of the near one."""
    far, near = pty.openpty()
    tty.setraw(far)
    yield far, os.ttyname(near)
    os.close(far)
    os.close(near)


def test_gpio_is_high_and_falls_for_each_pulse(tmp_path: Path) -> None:
    """Otherwise an edge would be missing, or the line would stay low for ever."""
    path = tmp_path / "value"
    path.touch()
    line = open_line(f"gpio:{path}")
    assert path.read_text() == "1", "before anything is marked"
    pulse(line, Time())
    pulse(line, Time())
    line.close()
    assert path.read_text() == "1" + "01" * 2 + "1"


def test_pulse_is_low_for_as_long_as_a_meter_needs(tmp_path: Path) -> None:
    """Otherwise a meter that samples 1000 times a second would miss the pulse."""
    fifo = tmp_path / "value"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    time, line = Time(), open_line(f"gpio:{fifo}")
    made = pulse(line, time)
    assert time.now_ns - made.after_ns >= LOW_NS
    assert made.after_ns - made.before_ns == 1_000, "two looks right around the write"
    assert os.read(reader, 10) == b"101"
    line.close()
    os.close(reader)


def test_serial_line_sends_one_byte_of_zeros_for_each_pulse(serial: tuple[int, str]) -> None:
    """Otherwise there would be more edges than marks, or the terminal would change the byte."""
    far, path = serial
    line = open_line(f"uart:{path}")
    for _ in range(3):
        pulse(line, Time())
    line.close()
    heard = b""
    while len(heard) < 3 and select.select([far], [], [], 1.0)[0]:  # bytes pass one by one
        heard += os.read(far, 100)
    assert heard == b"\0\0\0"
    assert not select.select([far], [], [], 0.05)[0], "more edges than marks"


def test_serial_line_is_raw_and_slow_enough_to_be_seen(serial: tuple[int, str]) -> None:
    """Otherwise echoes and line feeds would be marks, or a byte at 115200 baud too short."""
    far, path = serial
    line = open_line(f"uart:{path}")
    incoming, outgoing, control, local, _, speed, _ = termios.tcgetattr(far)
    line.close()
    assert (incoming, outgoing, local) == (0, 0, 0)
    assert speed == termios.B9600
    assert not control & (termios.CRTSCTS | termios.PARENB | termios.CSTOPB | termios.HUPCL)


def test_line_of_a_gpio_that_nobody_made_says_so(tmp_path: Path) -> None:
    """Otherwise a pin that was not exported would end a run with a traceback."""
    with pytest.raises(TargetError, match="sync line not opened: No such file"):
        open_line(f"gpio:{tmp_path}/gpio17/value")
    with pytest.raises(TargetError, match=f"Is a directory: {tmp_path}"):
        open_line(f"gpio:{tmp_path}")


def test_file_that_is_no_serial_port_says_so(tmp_path: Path) -> None:
    """Otherwise the error of the terminal library, which is no OSError, would end a run."""
    path = tmp_path / "ttyS0"
    path.touch()
    with pytest.raises(TargetError, match=f"sync line not opened: .+: {path}"):
        open_line(f"uart:{path}")


def test_kinds_of_lines_are_those_that_are_checked_for() -> None:
    """Otherwise a usable kind would be refused, or an accepted kind be unknown in every run."""
    assert tuple(sync_line._KINDS) == LINE_KINDS
