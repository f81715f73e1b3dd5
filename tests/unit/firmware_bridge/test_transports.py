"""Real ways to a board: a pseudo-terminal, a socket, a child process."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import tty
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from support.board_double import BoardDouble, BoardHabits

from edgebench.firmware_bridge.board import Board
from edgebench.firmware_bridge.exchange import BoardTiming
from edgebench.firmware_bridge.transports.base import BoardTransport
from edgebench.firmware_bridge.transports.child import ChildProcess
from edgebench.firmware_bridge.transports.serial_port import SerialLine, open_line
from edgebench.protocol.errors import (
    BoardLost,
    ErrorCode,
    NotPermitted,
    Permission,
    TargetError,
    UsageError,
)

INPUT = bytes(range(200, 249))
PATIENT = BoardTiming(answer_s=60.0, resync_s=(60.0,) * 3, quiet_s=0.05)
"""No machine is so loaded that a board on it takes longer."""
TESTS = Path(__file__).resolve().parents[2]
CHILD = """
import os, sys
sys.path.insert(0, sys.argv[1])
from support.board_double import BoardDouble
board = BoardDouble()
said = board.start()
while True:
    os.write(1, b"".join(data for _, data in said))
    heard = os.read(0, 4096)
    if not heard:
        break
    said = board.hear(heard)
"""


def measured(transport: BoardTransport) -> Board:
    """A board that was connected, loaded and run."""
    board = Board(transport, timing=PATIENT)
    board.connect()
    board.load_input(INPUT)
    window = board.window(70, warmup_count=10)
    assert window.ticks == 70 * 1500
    assert window.issued_ns < window.began_ns <= window.ended_ns
    board.load_input(INPUT)  # which the window has overwritten
    board.window(1, warmup_count=0)
    assert board.outputs() == (0.0, 0.125, 0.875)
    return board


class _ServedBoard:
    """A double at the other end of two file descriptors, until it is closed."""

    def __init__(self, incoming: int, outgoing: int, double: BoardDouble) -> None:
        self._incoming, self._outgoing, self._double = incoming, outgoing, double
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            said = self._double.start()
            while True:
                os.write(self._outgoing, b"".join(data for _, data in said))
                heard = os.read(self._incoming, 4096)
                if not heard:
                    return
                said = self._double.hear(heard)
        except OSError:
            return  # unplugged


@pytest.fixture
def terminal() -> Iterator[tuple[str, int]]:
    """Path of a pseudo-terminal with a board, and the other end of it."""
    master, slave = os.openpty()
    tty.setraw(slave)
    _ServedBoard(master, master, BoardDouble(BoardHabits(is_echoing=True)))
    yield os.ttyname(slave), master
    os.close(slave)
    try:
        os.close(master)
    except OSError:
        return  # the test pulled it out


def test_board_on_a_serial_port_is_measured(terminal: tuple[str, int]) -> None:
    """Otherwise a real port would behave differently from the doubles."""
    path, _ = terminal
    with closing(open_line(path, 115_200)) as line:
        board = measured(line)
        assert board.facts.baud_rate == 115_200
        line.set_baud_rate(921_600)
        board.resync()
        assert line.baud_rate == 921_600


def test_board_that_is_pulled_out_is_lost(terminal: tuple[str, int]) -> None:
    """Otherwise the bridge would wait for an absent board, or show an error of pyserial."""
    path, master = terminal
    with closing(open_line(path, 115_200)) as line:
        board = measured(line)
        os.close(master)
        with pytest.raises(BoardLost, match=f"the board at {path} was disconnected"):
            board.load_input(INPUT)


def test_board_that_takes_no_bytes_hangs_and_is_not_gone(
    terminal: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a campaign would repeat a run for as long as the board hangs."""
    monkeypatch.setattr("edgebench.firmware_bridge.transports.serial_port.WRITE_S", 0.1)
    with closing(open_line(terminal[0], 115_200)) as line:
        assert isinstance(line, SerialLine)
        thrown_away: list[bool] = []
        monkeypatch.setattr(line._port, "reset_output_buffer", lambda: thrown_away.append(True))
        with pytest.raises(BoardLost, match=r"accepts no bytes for 0.1 s") as caught:
            line.write(bytes(1 << 20))
        assert thrown_away, "closing the port waits for them"
        assert caught.value.code is not ErrorCode.DEVICE_GONE


class StuckPort:
    """A port whose driver keeps bytes that the board on its line does not take."""

    baudrate = 115_200

    def __init__(self) -> None:
        self.waiting = 300
        """Bytes that the driver has; one fewer at each look, down to those that stay."""

    def write(self, data: bytes) -> int:
        """Take all of them."""
        return len(data)

    @property
    def out_waiting(self) -> int:
        """What was not sent yet."""
        self.waiting = max(297, self.waiting - 1)
        return self.waiting

    def reset_output_buffer(self) -> None:
        """Throw them away."""
        self.waiting = 0


def test_board_that_stops_reading_does_not_hold_its_worker(
    terminal: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the wait for an empty line under flow control would hold a run for ever."""
    monkeypatch.setattr("edgebench.firmware_bridge.transports.serial_port.WRITE_S", 0.1)
    with closing(open_line(terminal[0], 115_200)) as line:
        assert isinstance(line, SerialLine)
        port = StuckPort()
        with monkeypatch.context() as patched:
            patched.setattr(line, "_port", port)
            with pytest.raises(BoardLost, match=r"accepts no bytes for 0.1 s$") as caught:
                line.write(b"name%")
        assert caught.value.code is not ErrorCode.DEVICE_GONE
        assert port.waiting == 0, "closing the port waits for them"


def test_board_behind_a_socket_is_measured() -> None:
    """Otherwise a terminal server, or an emulator, could not be used."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with closing(open_line(f"socket://127.0.0.1:{port}", 115_200)) as line:
            connection, _ = server.accept()
            with connection:
                _ServedBoard(connection.fileno(), connection.fileno(), BoardDouble())
                board = measured(line)
                assert board.facts.baud_rate is None
                connection.shutdown(socket.SHUT_RDWR)
                with pytest.raises(BoardLost, match=r"board at 127\.0\.0\.1"):
                    board.outputs()


def test_program_that_speaks_as_a_board_is_measured() -> None:
    """Otherwise a firmware that runs on this machine would not be started, or not be ended."""
    child = ChildProcess([sys.executable, "-c", CHILD, str(TESTS)])
    with closing(child):
        board = measured(child)
        os.kill(child.process_id, signal.SIGKILL)
        with pytest.raises(BoardLost, match="has ended by signal 9"):
            board.outputs()
    child.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child.process_id, 0)


def test_program_that_is_not_there_is_named() -> None:
    """Otherwise there would be a traceback of subprocess instead of a line."""
    with pytest.raises(TargetError, match="cannot start /no/such: No such file"):
        ChildProcess(["/no/such"])


def test_bytes_have_the_time_at_which_they_were_read(terminal: tuple[str, int]) -> None:
    """Otherwise windows would be aligned with a clock that is not the bridge's."""
    path, _ = terminal
    with closing(open_line(path, 115_200)) as line:
        before = line.now_ns()
        line.write(b"name%")
        received = line.read(60.0)
        assert received.data
        assert before < received.time_ns <= line.now_ns()


@pytest.mark.parametrize(
    ("address", "baud_rate", "text"),
    [
        ("/dev/nothing-there", 115_200, "no such serial port: /dev/nothing-there"),
        ("/etc/hostname", 115_200, "not a serial port: /etc/hostname"),
        ("nosuch://x", 115_200, "serial port nosuch://x cannot be opened"),
        ("socket://127.0.0.1", 115_200, "a socket address must be socket://HOST:PORT"),
        ("socket://127.0.0.1:x", 115_200, "address must be HOST or HOST:PORT"),
        ("/dev/ttyACM0", 1200, "never opened at 1200 baud, because this speed starts"),
    ],
)
def test_addresses_that_cannot_be_opened(address: str, baud_rate: int, text: str) -> None:
    """Otherwise a typing error would end in a traceback."""
    with pytest.raises((TargetError, UsageError), match=text):
        open_line(address, baud_rate)


def test_port_without_permission_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a user who is not in the group of serial ports would get no hint.

    Root cannot test that.
    """
    import serial

    def refuse(*_: object, **__: object) -> None:
        raise OSError(13, "Permission denied")

    monkeypatch.setattr(serial, "serial_for_url", refuse)
    with pytest.raises(NotPermitted) as refused:
        SerialLine("/dev/ttyACM0", 115_200)
    assert refused.value.permission is Permission.SERIAL_PORT
    assert str(refused.value) == "no permission to use serial port /dev/ttyACM0"
