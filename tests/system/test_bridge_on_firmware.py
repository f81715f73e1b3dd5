"""The bridge drives our own firmware: on a pseudo-terminal, and on a board of QEMU's."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
import tty
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from support.firmware_process import built
from support.reference_kernels import BUILT_IN
from support.tools import need_tool

from edgebench.firmware_bridge.board import Board
from edgebench.firmware_bridge.console import ConsoleDirection
from edgebench.firmware_bridge.detection import known_board
from edgebench.firmware_bridge.driver import BoardDriver
from edgebench.firmware_bridge.exchange import BoardTiming
from edgebench.firmware_bridge.facts import BoardFacts, FirmwareInfo, ReadBack, TimestampKind
from edgebench.firmware_bridge.frames import LEAVE_FRAMES
from edgebench.firmware_bridge.generate import InputEncoding, generate
from edgebench.firmware_bridge.loading import BoardLoader
from edgebench.firmware_bridge.transports.child import ChildProcess
from edgebench.firmware_bridge.transports.qemu import (
    QEMU_MACHINES,
    QemuBoard,
    QemuSetup,
    qemu_version,
)
from edgebench.firmware_bridge.transports.serial_port import BITS_PER_BYTE, open_line
from edgebench.protocol.errors import (
    BoardLost,
    BoardRefusal,
    BoardRestarted,
    TargetError,
    UsageError,
)

PACKAGED = Path(__file__).resolve().parents[2] / "firmware_bridge/edgebench/firmware_bridge/elf"
MACHINE = QEMU_MACHINES["mps2-an386"]
PATIENT = BoardTiming(answer_s=60.0, resync_s=(60.0,) * 3, quiet_s=0.05, frame_s=20.0)
"""Longer than a board takes on a machine under any load."""
INPUT = bytes(range(64))


@pytest.fixture(scope="module")
def binary() -> Path:
    """The firmware as a program of this machine."""
    return built("posix", "gcc")


@pytest.fixture(scope="module")
def blob() -> bytes:
    """A model of 64 bytes of input and 10 of output."""
    return generate(BUILT_IN.read_bytes(), model_id="digits").data


@pytest.fixture
def board(binary: Path) -> Iterator[Board]:
    """The firmware on a pseudo-terminal, connected."""
    with closing(Board(ChildProcess([str(binary), "--stdio"]), timing=PATIENT)) as board:
        board.connect()
        yield board


def test_model_and_input_are_loaded_and_run(board: Board, blob: bytes) -> None:
    """Otherwise the two readings of docs/firmware-protocol.md could differ."""
    assert board.facts.model_name is None
    with pytest.raises(BoardRefusal, match="No model"):
        board.window(1)
    facts = board.load_model(blob)
    assert facts.firmware is not None
    assert (facts.model_name, facts.firmware.input_bytes) == ("digits", 64)
    assert facts.firmware.model_bytes == len(blob)
    assert facts.timestamps is TimestampKind.LAP
    assert facts.quirks == ()
    assert board.load_input(INPUT) is ReadBack.CRC
    window = board.window(20, warmup_count=2)
    assert window.ticks is not None
    assert window.inferences is not None
    assert window.inferences.total_count == len(window.inferences.ticks) == 20
    single_s = sum(one or 0 for one in window.inferences.ticks) / window.inferences.tick_rate_hz
    assert 0 < single_s <= window.ticks / 1e6 + 1e-3, "the window is not less than its parts"
    assert window.outputs is None, "with other firmware, those of an input that was overwritten"
    outputs = board.outputs()
    assert board.window(1).outputs == outputs, "this firmware keeps its input"
    assert len(board.output_bytes()) == 10


def test_frames_and_digits_load_the_same(board: Board, blob: bytes) -> None:
    """Otherwise one of the two ways could leave other bytes, or frames have no advantage."""
    board.load_model(blob)
    board.load_input(INPUT)
    board.window(1)
    by_digits = board.output_bytes()
    counts = []
    loader = BoardLoader(board.exchange, lambda _done, _total: None)
    for upload in (loader.send_digits, partial(loader.send_frames, is_model=False)):
        before = sent_bytes(board)
        upload(INPUT)
        counts.append(sent_bytes(board) - before)
        board.resync()
        board.window(1)
        assert board.output_bytes() == by_digits
    digits, frames = counts
    assert digits > 2 * len(INPUT)
    assert frames < len(INPUT) + 60, "the fixed part: entering, begin, header and leaving"


@pytest.mark.parametrize(("size", "are_frames"), [(511, False), (512, True)])
def test_input_of_half_a_kilobyte_goes_in_frames(board: Board, size: int, are_frames: bool) -> None:
    """Otherwise larger inputs would take twice as long, or small ones would wait for frame mode."""
    before = sent_bytes(board)
    assert board.load_input(bytes(index % 256 for index in range(size))) is ReadBack.CRC
    assert (sent_bytes(board) - before < 2 * size) is are_frames


@pytest.mark.alone
def test_upload_takes_hardly_longer_than_the_line(binary: Path) -> None:
    """Otherwise the bridge could wait between commands, or the emulated line exceed a real one."""
    baud_rate, data = 115_200, bytes(index * 37 % 256 for index in range(27_648))
    limit_s = 2 * len(data) * BITS_PER_BYTE / baud_rate
    command = [str(binary), "--stdio", "--baud", str(baud_rate)]
    with closing(Board(ChildProcess(command), timing=PATIENT)) as board:
        board.connect()
        times_s = []
        loader = BoardLoader(board.exchange, lambda _done, _total: None)
        for upload in (loader.send_digits, partial(loader.send_frames, is_model=False)):
            begin_s = time.monotonic()
            upload(data)
            times_s.append(time.monotonic() - begin_s)
            loader.check_crc("x-crc", data)
    by_digits_s, by_frames_s = times_s
    assert limit_s <= by_digits_s <= 1.1 * limit_s
    assert limit_s / 2 <= by_frames_s <= by_digits_s / 1.9


def sent_bytes(board: Board) -> int:
    """Bytes that went to the board so far."""
    entries = board.console.entries()
    return sum(len(one.data) for one in entries if one.direction is ConsoleDirection.SENT)


def test_board_that_was_left_in_frame_mode_is_found(binary: Path) -> None:
    """Otherwise a bridge that died in an upload would leave a board that cannot be reached."""
    hasty = BoardTiming(resync_s=(1.0, 1.0, 1.0, 60.0, 60.0))
    with closing(Board(ChildProcess([str(binary), "--stdio"]), timing=hasty)) as board:
        board.connect()
        board._exchange.request("x-frames")
        board._exchange.send(b"\x05\x02\x01half a frame")
        board.resync()
        assert board.connect().name == "edgebench-posix"
        sent = [one.data for one in board.console.entries()]
        assert b"-" + LEAVE_FRAMES in sent


def test_energy_mode_and_restart_on_open(binary: Path, tmp_path: Path) -> None:
    """Otherwise a board that restarts when its port is opened would seem silent at first."""
    process = subprocess.Popen(
        [str(binary), "--energy", "--reset-on-open", "--pin", str(tmp_path / "pin")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    path = process.stdout.readline().strip()
    held = os.open(path, os.O_RDWR | os.O_NOCTTY)
    tty.setraw(held)
    try:
        with closing(Board(open_line(path, 9600), timing=PATIENT)) as board:
            facts = board.connect()
            assert facts.timestamps is TimestampKind.PULSE
            assert facts.baud_rate == 9600
            process.send_signal(signal.SIGKILL)
            process.wait()
            os.close(held)
            held = -1
            with pytest.raises(BoardLost, match=r"was lost|was disconnected"):
                board.connect()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        if held >= 0:
            os.close(held)


def test_board_of_qemu_is_measured_reset_and_pulled_out(blob: bytes, tmp_path: Path) -> None:
    """Otherwise emulated boards would lose their start, or continue to run after the bridge."""
    need_tool("qemu-system-arm")
    path = tmp_path / "a,blob"
    path.write_bytes(blob)
    setup = QemuSetup(
        machine=MACHINE,
        firmware=PACKAGED / f"{MACHINE.name}.elf",
        blob=path,
        blob_address=0x100000,
    )
    assert qemu_version() is not None
    emulator = QemuBoard(setup)
    with closing(Board(emulator, timing=PATIENT)) as board:
        facts = board.connect()
        assert (facts.model_name, facts.is_emulated) == ("digits", True)
        assert b"m-init-done" in b"".join(one.data for one in board.console.entries())
        assert board.load_input(INPUT) is ReadBack.CRC
        first = board.window(1).outputs
        windows = [board.window(3) for _ in range(2)]
        counted = [one.inferences for one in windows if one.inferences is not None]
        ticks = [one or 0 for inferences in counted for one in inferences.ticks]
        assert len(ticks) == 6
        assert max(ticks) - min(ticks) <= 10
        emulator.reset()
        with pytest.raises((BoardRestarted, BoardRefusal)):
            board.window(1)  # its input is lost, and a run on zeros is refused
        board.resync()
        board.load_input(INPUT)
        assert board.window(1).outputs == first
        os.kill(emulator.process_id, signal.SIGKILL)
        with pytest.raises(BoardLost, match="qemu:mps2-an386 was lost: QEMU has ended"):
            board.outputs()
    with pytest.raises(ProcessLookupError):
        os.kill(emulator.process_id, 0)


OPENED_AND_LEFT = """
import sys
from pathlib import Path
from edgebench.firmware_bridge.transports.qemu import QEMU_MACHINES, QemuBoard, QemuSetup
board = QemuBoard(QemuSetup(machine=QEMU_MACHINES[sys.argv[1]], firmware=Path(sys.argv[2])))
print(board.process_id, flush=True)
sys.stdin.read()
"""


def test_emulated_board_ends_with_a_process_that_is_killed() -> None:
    """Otherwise a killed worker would leave an emulator that takes a core from every later run."""
    need_tool("qemu-system-arm")
    firmware = PACKAGED / f"{MACHINE.name}.elf"
    process = subprocess.Popen(
        [sys.executable, "-c", OPENED_AND_LEFT, MACHINE.name, str(firmware)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    emulator = os.pidfd_open(int(process.stdout.readline()))
    try:
        assert not select.select([emulator], [], [], 0)[0], "it runs"
        process.kill()
        process.communicate()
        assert select.select([emulator], [], [], 60.0)[0]
    finally:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(emulator, signal.SIGKILL)
        os.close(emulator)


def test_qemu_that_does_not_start_says_why(tmp_path: Path) -> None:
    """Otherwise the user would see an error about a socket, not about the missing file."""
    need_tool("qemu-system-arm")
    setup = QemuSetup(machine=MACHINE, firmware=tmp_path / "nothing.elf")
    with pytest.raises(TargetError, match=r"qemu:mps2-an386 does not start: .*nothing\.elf"):
        QemuBoard(setup)
    with pytest.raises(UsageError, match="shift of virtual time must be 0 to 10, got 11"):
        QemuSetup(machine=MACHINE, firmware=tmp_path, shift=11)


@pytest.mark.parametrize("encoding", ["uint8", "float32"])
def test_model_that_takes_other_inputs_is_recognised_and_runs_alike(
    encoding: InputEncoding, binary: Path, tmp_path: Path
) -> None:
    """Otherwise a linked model with MLPerf Tiny's inputs would be taken for another model."""
    outputs: list[bytes] = []
    kinds: tuple[InputEncoding, ...] = ("int8", encoding)
    for kind in kinds:
        blob = tmp_path / f"{kind}.blob"
        made = generate(BUILT_IN.read_bytes(), model_id="digits", input_encoding=kind)
        blob.write_bytes(made.data)
        command = [str(binary), "--model", str(blob)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            target = BoardDriver().open(
                port, BUILT_IN, tmp_path, model_name=BUILT_IN.name, on_bytes=lambda *_: None
            )
            target.set_input(INPUT)
            target.window(1, warmup_count=0)
            outputs.append(target.output_bytes())
            assert target.upload_s is None
            assert target.inputs[0].dtype == "int8"
            target.close()
            process.kill()
    assert outputs[0] == outputs[1]


def test_board_says_the_name_of_the_file_and_not_that_of_its_copy(
    binary: Path, tmp_path: Path
) -> None:
    """Otherwise a later runner would find 31 digits of a hash, and have no test for them."""
    copy = tmp_path / "0123abcd"
    copy.write_bytes(BUILT_IN.read_bytes())
    outputs: list[bytes] = []
    for name, model_id, encoding in [
        ("my digits.tflite", "my-digits", "int8"),
        ("pretrainedResnet_quant.tflite", "ic01", "uint8"),
    ]:
        with (
            subprocess.Popen([str(binary)], stdout=subprocess.PIPE, text=True) as process,
            ExitStack() as stack,
        ):
            stack.callback(process.kill)
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            target = BoardDriver().open(
                port, copy, tmp_path, model_name=name, on_bytes=lambda *_: None
            )
            target.set_input(INPUT)
            target.window(1, warmup_count=0)
            outputs.append(target.output_bytes())
            target.close()
            with closing(Board(open_line(port, 115_200), timing=PATIENT)) as board:
                info = board.connect().firmware
            assert info is not None
            assert (info.model, info.input_encoding) == (model_id, encoding)
    assert outputs[0] == outputs[1]


def test_linked_model_needs_no_file_and_takes_its_own() -> None:
    """Otherwise a board with a linked model would refuse a run without a file, or with its own."""
    info = FirmwareInfo(protocol=1, board="kit", model_place="firmware", model_max=100)
    facts = BoardFacts(name="edgebench-kit", dialect="", model_name="vww01", firmware=info)
    linked = known_board(facts)
    assert (linked.takes_models, linked.takes_own_file) == (False, True)
    loaded = known_board(replace(facts, firmware=replace(info, model_place="memory")))
    assert (loaded.takes_models, loaded.takes_own_file) == (True, False)
