"""Which ports have a board: hints of USB ids, names that boards report, and memory of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from support.board_double import BoardDouble, BoardHabits, InterfaceDouble, LineFaults, VirtualLine

from edgebench.firmware_bridge import tools as board_tools
from edgebench.firmware_bridge.detection import (
    FoundBoard,
    KnownBoard,
    KnownBoards,
    SerialPortInfo,
    find_boards,
    list_serial_ports,
)
from edgebench.firmware_bridge.tools import BoardTools, board_named
from edgebench.firmware_bridge.usb_ids import BOARD_HINTS, METER_IDS, SHARED_IDS, hint_of
from edgebench.protocol.errors import TargetError, UsageError

NUCLEO = SerialPortInfo(
    path="/dev/ttyACM0", vendor=0x0483, product=0x374B, serial_number="066A", location="1-2:1.2"
)
OTHER_NUCLEO = SerialPortInfo(
    path="/dev/ttyACM1", vendor=0x0483, product=0x374B, serial_number="066B", location="1-3:1.2"
)
METER = SerialPortInfo(path="/dev/ttyACM2", vendor=0x0483, product=0x5740, serial_number="PS")
MAKER = replace(METER, path="/dev/ttyACM4", serial_number="2061")
"""A board with ST's default id, which is also that of the meter."""
PROFILER = SerialPortInfo(path="/dev/ttyACM5", vendor=0x1915, product=0xC00A, serial_number="PPK")
UNKNOWN = SerialPortInfo(path="/dev/ttyACM6", vendor=0xDEAD, product=1, serial_number="7")
ADAPTER = SerialPortInfo(path="/dev/ttyUSB0", vendor=0x1A86, product=0x7523)
MODEM = SerialPortInfo(path="/dev/ttyS0")
PORTS = [NUCLEO, OTHER_NUCLEO, METER, ADAPTER, MODEM]


class MeterLine(VirtualLine):
    """A line to an LPM01A."""

    reply_us = 1000

    def write(self, data: bytes) -> None:
        """Reply as the PowerShield does to its own commands."""
        assert data == b"powershield\n", "a meter gets no command of a board"
        reply = b"\r\nPowerShield > ack powershield PowerShield present: 1\r\n"
        self._queue([(self.reply_us, reply)])


class Desk:
    """Ports with what is connected to them."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, int]] = []
        self.lines: list[VirtualLine] = []

    def open(self, path: str, baud_rate: int) -> VirtualLine:
        """Open a port."""
        self.opened.append((path, baud_rate))
        if path == ADAPTER.path:
            raise TargetError(f"serial port {path} is in use by another program")
        energy = BoardDouble(BoardHabits(name_line="m-name-dut-[second]", is_energy=True))
        board = InterfaceDouble(energy) if path == OTHER_NUCLEO.path else BoardDouble()
        kind = MeterLine if path == METER.path else VirtualLine
        line = kind(board, LineFaults(is_started_by_open=False), name=path)
        line.baud_rate = baud_rate
        if path == OTHER_NUCLEO.path:
            line.answers_at = 9600
        self.lines.append(line)
        return line


def test_candidates_are_asked_once_and_remembered(tmp_path: Path) -> None:
    """Otherwise listing boards would restart them every time, or disturb a meter's recording."""
    desk, memory = Desk(), KnownBoards(tmp_path / "state/boards.json")
    boards = find_boards(memory, is_confirming=True, ports=PORTS, opener=desk.open)
    assert [board.port for board in boards] == [NUCLEO, OTHER_NUCLEO, METER, ADAPTER]
    assert [board.board.name if board.board else None for board in boards] == [
        "unspecified",
        "second",
        None,
        None,
    ]
    assert [board.is_meter for board in boards] == [False, False, True, False]
    assert boards[1].board is not None
    assert (boards[1].board.baud_rate, boards[1].board.dialect) == (
        9600,
        "interface_board+mlperf_tiny",
    )
    assert boards[3].trouble == "serial port /dev/ttyUSB0 is in use by another program"
    assert all(line.is_closed for line in desk.lines)
    desk.opened.clear()
    again = find_boards(memory, is_confirming=False, ports=PORTS, opener=desk.open)
    assert again[:2] == boards[:2]
    assert desk.opened == []


def test_meter_that_replies_late_gets_no_command_of_a_board(tmp_path: Path) -> None:
    """Otherwise a meter that is silent for a second would be probed as a board."""

    def opened(path: str, baud_rate: int) -> VirtualLine:
        line = MeterLine(BoardDouble(), LineFaults(is_started_by_open=False), name=path)
        line.baud_rate, line.reply_us = baud_rate, 1_500_000
        return line

    memory = KnownBoards(tmp_path / "boards.json")
    (found,) = find_boards(memory, is_confirming=True, ports=[METER], opener=opened)
    assert found.is_meter


def test_any_port_on_usb_that_is_no_meter_by_its_reply_can_be_confirmed(tmp_path: Path) -> None:
    """Otherwise a board with an id that is not in our list, or with ST's, could not be measured."""
    desk, memory = Desk(), KnownBoards(tmp_path / "boards.json")
    ports = [MAKER, PROFILER, UNKNOWN, MODEM]
    assert find_boards(memory, is_confirming=False, ports=ports) == []
    boards = find_boards(memory, is_confirming=True, ports=ports, opener=desk.open)
    assert [board.port for board in boards] == [MAKER, UNKNOWN], "a PPK2 and a modem get no command"
    assert all(board.board and board.board.name == "unspecified" for board in boards)
    assert find_boards(memory, is_confirming=False, ports=ports) == boards


def test_confirmed_board_is_not_queried_as_a_meter_again(tmp_path: Path) -> None:
    """Otherwise each `bridge list --confirm` would wait 2 s for a reply of a meter."""
    desk, memory = Desk(), KnownBoards(tmp_path / "boards.json")
    for _ in range(2):
        find_boards(memory, is_confirming=True, ports=[MAKER], opener=desk.open)
    first, second = desk.lines
    assert first.now_ns() - second.now_ns() >= 2e9


def test_boards_of_one_serial_number_have_keys_of_their_places(tmp_path: Path) -> None:
    """Otherwise the second CP2102 with the serial number 0001 would be listed as the first."""
    memory = KnownBoards(tmp_path / "boards.json")
    left, right = (
        SerialPortInfo(
            path=f"/dev/ttyUSB{place}",
            vendor=0x10C4,
            product=0xEA60,
            serial_number="0001",
            location=f"1-{place}:1.0",
        )
        for place in (2, 3)
    )

    def keys(*ports: SerialPortInfo) -> list[str | None]:
        return [port.key for port in memory.keyed(ports)]

    plain = left.key
    assert keys(left) == keys(right) == [plain], "it may be put into another socket"
    assert keys(left, right) == [f"{plain}@1-2:1.0", f"{plain}@1-3:1.0"]
    assert keys(left, replace(right, location="1-2:1.2")) == [plain, f"{plain[:-1]}2"]  # type: ignore[index]
    (tmp_path / "boards.json").write_text(f'{{"{plain}": {{"name": "left"}}}}')
    assert memory.known()[plain].name == "left", "as an earlier version stored it"  # type: ignore[index]
    assert keys(left, right)[0] != plain, "it may be either"
    memory.remember(left, KnownBoard(name="left"))
    assert keys(left, right) == [plain, f"{plain}@1-3:1.0"]
    memory.remember(memory.keyed([left, right])[1], KnownBoard(name="right"))
    assert keys(right) == [f"{plain}@1-3:1.0"], "it is not the other one when it is alone"
    assert keys(left, right) == [plain, f"{plain}@1-3:1.0"]
    assert [board.name for board in memory.known().values()] == ["left", "right"]


def test_list_shows_two_boards_of_one_serial_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise `bridge list` would show the first board at both adapters."""
    left = replace(ADAPTER, serial_number="0001", location="1-2:1.0")
    right = replace(left, path="/dev/ttyUSB9", location="1-3:1.0")
    monkeypatch.setattr(board_tools, "list_serial_ports", lambda: [left, right])
    memory = KnownBoards(tmp_path / "boards.json")
    for port, name in zip(memory.keyed([left, right]), ("left", "right"), strict=True):
        memory.remember(port, KnownBoard(name=name))
    reports = BoardTools().ports(tmp_path / "boards.json", is_probing=False)
    assert [report.board for report in reports] == ["left", "right"]
    with pytest.raises(UsageError, match="2 boards match '0001': /dev/ttyUSB0, /dev/ttyUSB9"):
        board_named(
            "0001", find_boards(memory, is_confirming=False, ports=memory.keyed([left, right]))
        )


def test_known_board_is_replaced_by_its_answer_alone(tmp_path: Path) -> None:
    """Otherwise an agent would lose its boards while they are being confirmed, or for good."""
    memory, served = KnownBoards(tmp_path / "boards.json"), list[list[str]]()
    busy, silent = replace(ADAPTER, serial_number="1"), replace(OTHER_NUCLEO, serial_number="066C")
    desk = Desk()
    for port in (NUCLEO, busy, silent):
        memory.remember(port, KnownBoard(name="old"))

    def opened(path: str, baud_rate: int) -> VirtualLine:
        served.append([one.name for one in memory.known().values()])
        line = desk.open(path, baud_rate)
        if path == silent.path:
            line.answers_at = 1
        return line

    ports = [NUCLEO, busy, silent]
    boards = find_boards(memory, is_confirming=True, ports=ports, opener=opened)
    assert served[0] == ["old", "old", "old"]
    assert [board.board.name if board.board else None for board in boards] == [
        "unspecified",
        "old",
        None,
    ]
    assert {key: one.name for key, one in memory.known().items()} == {
        NUCLEO.key: "unspecified",
        busy.key: "old",
    }


def test_two_writers_of_the_memory_lose_no_board(tmp_path: Path) -> None:
    """Otherwise an agent that remembers a board would restore another that a command forgets."""
    path = tmp_path / "boards.json"
    ports = [replace(NUCLEO, serial_number=str(number)) for number in range(40)]
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda one: KnownBoards(path).remember(one, KnownBoard(name="b")), ports):
            pass
    assert len(KnownBoards(path).known()) == len(ports)


def test_list_without_asking_opens_nothing(tmp_path: Path) -> None:
    """Otherwise a list of devices would restart the boards of others."""
    desk = Desk()
    boards = find_boards(
        KnownBoards(tmp_path / "b"), is_confirming=False, ports=PORTS, opener=desk.open
    )
    assert [board.board for board in boards] == [None, None, None]
    assert desk.opened == []


def test_memory_that_is_damaged_is_as_good_as_none(tmp_path: Path) -> None:
    """Otherwise a file that was cut off would end every list of boards."""
    path = tmp_path / "boards.json"
    for text in ("", "[]", '{"a": 1}', '{"a": {"nonsense": 1}}', "\0"):
        path.write_text(text)
        assert KnownBoards(path).known() == {}
    KnownBoards(path).remember(NUCLEO, KnownBoard(name="b"))
    assert list(KnownBoards(path).known().values()) == [KnownBoard(name="b")]
    KnownBoards(path).remember(ADAPTER, KnownBoard(name="c"))
    assert len(KnownBoards(path).known()) == 1, "without a serial number it may be any"


def test_interfaces_of_one_device_are_told_apart() -> None:
    """Otherwise the second of a probe's two ports, each with a board, would pass for the first."""
    first = SerialPortInfo(path="a", vendor=1, product=2, serial_number="s", location="1-1:1.0")
    second = SerialPortInfo(path="b", vendor=1, product=2, serial_number="s", location="1-1:1.2")
    assert first.key != second.key
    assert (
        first.key
        == SerialPortInfo(path="c", vendor=1, product=2, serial_number="s", location="4-2:1.0").key
    ), "it may be put into another socket"


def test_hints_name_no_meter() -> None:
    """Otherwise an agent would probe a PowerShield in the middle of a recording."""
    assert all(hint_of(*one) is None for one in METER_IDS | SHARED_IDS.keys())
    assert hint_of(0x1366, 0x0105) is not None
    assert hint_of(0xDEAD, 1) is None
    assert hint_of(None, None) is None
    assert all(1200 not in board_hint.baud_rates for board_hint in BOARD_HINTS)


@pytest.mark.parametrize("name", ["/dev/ttyACM1", "066B", "second"])
def test_board_is_named_by_path_serial_or_name(name: str) -> None:
    """Otherwise a user would have to know which of three names is meant."""
    boards = [
        FoundBoard(port=NUCLEO, board=KnownBoard(name="first")),
        FoundBoard(port=OTHER_NUCLEO, board=KnownBoard(name="second")),
    ]
    assert board_named(name, boards) == (OTHER_NUCLEO, KnownBoard(name="second"))
    with pytest.raises(
        UsageError, match=r"no board matches 'x'; kinds of boards: .*nucleo-l4r5zi.*first at"
    ):
        board_named("x", boards)
    with pytest.raises(UsageError, match="2 boards match"):
        board_named(
            "same", [FoundBoard(port=board.port, board=KnownBoard(name="same")) for board in boards]
        )


def test_ports_of_this_machine_can_be_listed() -> None:
    """Otherwise what pyserial gives would have other names than what is read."""
    assert all(port.path.startswith("/dev/") for port in list_serial_ports())
