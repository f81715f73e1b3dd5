"""Boards that come and go at the ports of a machine: which are probed, and which is which."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from edgebench.firmware_bridge.board_ports import AWAY_S, PROBE_AGAIN_S, BoardPorts
from edgebench.firmware_bridge.detection import KnownBoard, KnownBoards, SerialPortInfo
from edgebench.firmware_bridge.port_users import users_of
from edgebench.protocol.errors import (
    BoardSilent,
    EdgebenchError,
    LineDamaged,
    TargetError,
    UsageError,
)
from edgebench.protocol.target import TargetSighting

NUCLEO = SerialPortInfo(
    path="/dev/test-ACM0", vendor=0x0483, product=0x374B, serial_number="066A", location="1-2:1.2"
)
OTHER = replace(NUCLEO, serial_number="066B")
"""Another board of the same kind in the same port."""
METER = SerialPortInfo(path="/dev/test-ACM2", vendor=0x0483, product=0x5740, serial_number="PS")
ADAPTER = SerialPortInfo(path="/dev/test-USB0", vendor=0x1A86, product=0x7523)
UNKNOWN = SerialPortInfo(path="/dev/test-USB1", vendor=0xDEAD, product=1, serial_number="1")


KIT = KnownBoard(name="edgebench-kit", board="kit", cpu="cortex-m4")


@dataclass
class Bench:
    """A machine with ports, what is behind them, and a clock."""

    memory: Path
    named: list[str] = field(default_factory=list[str])
    is_probing: bool = True
    plugged: list[SerialPortInfo] = field(default_factory=list[SerialPortInfo])
    errors: dict[str, EdgebenchError] = field(default_factory=dict[str, EdgebenchError])
    asked: list[str] = field(default_factory=list[str])
    passed_s: float = 0.0
    board: KnownBoard = KIT
    boards: dict[str, KnownBoard] = field(default_factory=dict[str, KnownBoard])
    """Boards at single ports, by path."""

    def __post_init__(self) -> None:
        self.ports = BoardPorts(
            self.named,
            self.memory,
            is_probing=self.is_probing,
            list_ports=lambda: self.plugged,
            probe=self._probe,
            clock=lambda: self.passed_s,
        )

    def _probe(self, port: SerialPortInfo) -> KnownBoard:
        self.asked.append(port.path)
        if error := self.errors.get(port.path):
            raise error
        return self.boards.get(port.path, self.board)

    def look(self) -> list[TargetSighting]:
        """Look, and look again once all probed ports have responded."""
        self.ports.look()
        for probe in self.ports._probes.values():
            probe.thread.join()
        return self.ports.look()

    def targets(self) -> list[tuple[str, str]]:
        """Name and address of each board that can be used."""
        return [(one.target.name, one.target.address) for one in self.look() if one.error is None]


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    """File of the known boards."""
    return tmp_path / "boards.json"


def test_only_ports_with_a_hint_are_asked_and_only_once(memory: Path) -> None:
    """Otherwise a machine tool's port would be opened, or a board would restart at every look."""
    bench = Bench(memory, plugged=[NUCLEO, METER, ADAPTER, UNKNOWN])
    sightings = bench.look()
    assert bench.asked == [NUCLEO.path]
    board, adapter = sightings
    assert (board.target.name, board.target.arch, board.target.profile) == (
        "kit",
        "cortex-m4",
        "kit",
    )
    assert "--board /dev/test-USB0" in str(adapter.error)
    bench.look()
    assert Bench(memory, plugged=[NUCLEO]).targets() == [("kit", NUCLEO.path)]
    assert bench.asked == [NUCLEO.path]


def test_confirmed_board_is_served_whatever_its_usb_id(memory: Path) -> None:
    """Otherwise `bridge list --confirm` would find a board that no agent serves."""
    KnownBoards(memory).remember(UNKNOWN, KIT)
    bench = Bench(memory, plugged=[UNKNOWN])
    assert bench.targets() == [("kit", UNKNOWN.path)]
    assert bench.asked == []


def test_two_boards_of_one_serial_number_are_two_seats(memory: Path) -> None:
    """Otherwise the second adapter's board would be measured under the name of the first."""
    left, right = (
        SerialPortInfo(
            path=f"/dev/test-{name}", vendor=0x10C4, product=0xEA60, serial_number="0001",
            location=f"1-{place}:1.0",
        )
        for place, name in ((2, "left"), (3, "right"))
    )  # fmt: skip
    boards = {left.path: KnownBoard(name="left"), right.path: KnownBoard(name="right")}
    bench = Bench(memory, plugged=[left], boards=boards)
    [alone] = bench.look()
    bench.plugged = [left, right]
    both = [one.target for one in bench.look()]
    assert [one.name for one in both] == ["left", "right"]
    assert both[0] == alone.target, "a seat that is served is not closed by its twin"
    assert both[1].identity != both[0].identity
    assert bench.asked == [left.path, right.path]
    # an entry of an earlier version has no place: both are probed, and the seat stays
    assert alone.target.identity == left.key
    memory.write_text(f'{{"{left.key}": {{"name": "left"}}}}')
    upgraded = Bench(memory, plugged=[left, right], boards=boards)
    upgraded.look()
    assert [one.target for one in upgraded.look()] == both
    assert sorted(upgraded.asked) == [left.path, right.path]
    bench.plugged = [right]
    bench.passed_s += 2 * AWAY_S
    assert [one.target for one in bench.look()] == both[1:]


def test_board_that_answers_at_once_is_asked_once(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the first look would restart a board twice, and find it silent the second time."""
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.run)
    bench = Bench(memory, plugged=[NUCLEO])
    assert [one.target.name for one in bench.ports.look()] == ["kit"]
    assert bench.asked == [NUCLEO.path]


def test_without_asking_only_known_boards_are_there(memory: Path) -> None:
    """Otherwise a command that starts an agent for itself would restart every board on the desk."""
    shy = Bench(memory, is_probing=False, plugged=[NUCLEO])
    assert shy.targets() == []
    Bench(memory, plugged=[NUCLEO]).look()
    assert shy.targets() == [("kit", NUCLEO.path)]
    assert shy.asked == []


def test_board_that_was_forgotten_is_asked_what_it_is_now(memory: Path) -> None:
    """Otherwise a board with new firmware would keep its old model until the agent ends."""
    bench = Bench(memory, plugged=[NUCLEO], board=KnownBoard(name="maker", model_name="kws01"))
    [before] = bench.look()
    bench.board = KnownBoard(name="edgebench-kit", board="kit", takes_models=True)
    KnownBoards(memory).forget([NUCLEO.key])
    bench.look()
    [after] = bench.look()
    assert (before.target.own_model, after.target.own_model) == ("kws01", None)
    assert len(bench.asked) == 2


def test_link_to_a_port_that_is_named_is_no_second_board(memory: Path, tmp_path: Path) -> None:
    """Otherwise a port would become two seats, whose runs would disturb each other."""
    port, link = tmp_path / "port", tmp_path / "link"
    bench = Bench(memory, named=[str(port), str(link)])
    port.touch()
    link.symlink_to(port)
    assert bench.targets() == [("kit", str(port))]


@pytest.mark.parametrize("kind", [BoardSilent, LineDamaged])
def test_silent_port_is_asked_again_when_something_new_is_there(
    kind: type[EdgebenchError], memory: Path
) -> None:
    """Otherwise a serial adapter without a board would be probed every ten seconds, for ever."""
    bench = Bench(memory, plugged=[NUCLEO])
    bench.errors[NUCLEO.path] = kind("no answer")
    bench.look()
    bench.passed_s += 2 * PROBE_AGAIN_S
    assert str(bench.look()[0].error) == "no answer"
    assert len(bench.asked) == 1
    bench.plugged = []
    bench.look()
    bench.plugged, bench.errors = [NUCLEO], {}
    assert bench.targets() == [("kit", NUCLEO.path)]


def test_port_that_cannot_be_opened_is_tried_again(memory: Path) -> None:
    """Otherwise a board would stay unserved after the end of a terminal program that had it."""
    bench = Bench(memory, plugged=[NUCLEO])
    bench.errors[NUCLEO.path] = TargetError("in use")
    assert bench.targets() == []
    bench.errors.clear()
    assert bench.targets() == []
    bench.passed_s += PROBE_AGAIN_S
    assert bench.targets() == [("kit", NUCLEO.path)]


def test_board_that_restarts_is_there_and_one_that_is_gone_is_not(memory: Path) -> None:
    """Otherwise a board would leave whenever its USB restarts, or stay although unplugged."""
    bench = Bench(memory, plugged=[NUCLEO])
    bench.look()
    bench.plugged = []
    bench.passed_s += AWAY_S / 2
    assert bench.targets() == [("kit", NUCLEO.path)]
    bench.passed_s += AWAY_S
    assert bench.targets() == []


def test_another_board_in_the_same_port_is_another(memory: Path) -> None:
    """Otherwise a run for the board that was there before would be made on its successor."""
    bench = Bench(memory, plugged=[NUCLEO])
    [before] = bench.look()
    bench.plugged = [OTHER]
    [after] = bench.look()
    assert after.target.identity != before.target.identity


def test_board_in_another_port_leaves_and_comes(memory: Path) -> None:
    """Otherwise the next run on a board that was moved would open its former port."""
    bench = Bench(memory, plugged=[NUCLEO])
    [before] = bench.look()
    bench.plugged = [replace(NUCLEO, path="/dev/test-ACM7")]
    assert bench.ports.look() == []
    [after] = bench.ports.look()
    assert (after.target.identity, after.target.address) == (
        before.target.identity,
        "/dev/test-ACM7",
    )


def test_named_port_has_the_name_and_is_asked_whatever_it_is(memory: Path, tmp_path: Path) -> None:
    """Otherwise `--board` would wait for a hint, or a board without a serial number lack a name."""
    path = tmp_path / "port"
    bench = Bench(memory, named=[f"desk={path}", "socket://127.0.0.1:7"], is_probing=False)
    assert bench.targets() == [("kit", "socket://127.0.0.1:7")]
    path.touch()
    assert bench.targets() == [("desk", str(path)), ("kit", "socket://127.0.0.1:7")]
    path.unlink()
    bench.passed_s += AWAY_S
    bench.look()
    bench.passed_s += AWAY_S
    assert bench.targets() == [("kit", "socket://127.0.0.1:7")]


def test_named_port_keeps_the_serial_number_of_its_board(memory: Path) -> None:
    """Otherwise a board would be another device once its port is named."""
    Bench(memory, plugged=[NUCLEO]).look()
    named = Bench(memory, plugged=[replace(NUCLEO, path="/dev/null")], named=["n=/dev/null"])
    [one] = named.look()
    assert (one.target.identity, one.target.name) == (NUCLEO.key, "n")
    assert named.asked == []


@pytest.mark.parametrize(
    "named",
    [
        ["socket://x"],
        ["a=/dev/x", "/dev/x"],
        ["/dev/null", "/proc/self/root/dev/null"],
        [""],
        ["=/dev/x"],
        ["two words=/dev/x"],
        ["a=/dev/x", "a=/dev/y"],
        ["/dev/x,play="],
        ["/dev/x,play=a%b.wav"],
        ["/dev/x,play=" + "a" * 75],
    ],
)
def test_address_that_is_none_is_refused_at_once(named: list[str], memory: Path) -> None:
    """Otherwise a typing mistake would be a port that never has a board."""
    with pytest.raises(UsageError):
        BoardPorts(named, memory, is_probing=True)


def test_named_port_that_is_not_there_is_told(
    memory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise the agent would print `ready` for a mistyped port, and the board never come."""
    ports = BoardPorts(["/dev/no-such-port"], memory, is_probing=True, list_ports=list)
    assert ports.look() == ports.look() == []
    assert caplog.messages == ["serial port does not exist yet: /dev/no-such-port"]


def test_port_that_a_program_has_open_is_not_touched(memory: Path, tmp_path: Path) -> None:
    """Otherwise a probe would come in the middle of a run, or of a user's terminal session."""
    path = tmp_path / "port"
    path.touch()
    code = "import sys; file = open(sys.argv[1]); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(
        [*command, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdout.readline()
        assert f"({other.pid})" in users_of(str(path))[0]
        bench = Bench(memory, named=[str(path)])
        [one] = bench.look()
        assert f"is in use by {os.path.basename(sys.executable)[:6]}" in str(one.error)
        assert bench.asked == []
        other.stdin.close()
        other.wait()
    assert users_of(str(path)) == []
