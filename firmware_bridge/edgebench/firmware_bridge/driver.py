"""Boards as an agent's targets: `qemu:BOARD`, a serial port, `socket://HOST:PORT`.

Theory of operation. The model is data: its blob is generated here, where the worker runs, and is
put into the memory of an emulated board before it starts, or sent to a real one by frames, unless
the board has it already. Then everything is asked of the board anew.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.resources import as_file, files
from pathlib import Path
from typing import get_args

from edgebench.firmware_bridge.board import INFERENCE_S, Board
from edgebench.firmware_bridge.board_model import (
    BoardModel,
    encoded_input,
    own_model,
    result_count,
    sent_model,
)
from edgebench.firmware_bridge.board_ports import BoardPorts
from edgebench.firmware_bridge.facts import BoardFacts, FirmwareInfo, ReadBack
from edgebench.firmware_bridge.generate import (
    BOARD_MEMORY,
    BoardMemory,
    InputEncoding,
    ModelBlob,
    generate,
    id_of_file,
    model_id_of,
)
from edgebench.firmware_bridge.listening import ListeningBoard
from edgebench.firmware_bridge.transports.qemu import (
    DEFAULT_SHIFT,
    PROGRAM,
    QEMU_MACHINES,
    QemuBoard,
    QemuSetup,
    qemu_version,
)
from edgebench.firmware_bridge.transports.serial_port import open_line, split_sound
from edgebench.firmware_bridge.usb_ids import DEFAULT_BAUD_RATES
from edgebench.protocol.errors import LineDamaged, ModelRefused, UsageError
from edgebench.protocol.record import (
    EmulatorFacts,
    FirmwareFacts,
    Window,
)
from edgebench.protocol.target import OnBytes, TargetDescription, TimedWindow
from edgebench.protocol.traces import CONSOLE_FILE

SCHEME = "qemu:"
RUNTIME = "firmware"
FIRMWARE_VARIABLE = "EDGEBENCH_FIRMWARE"
"""Environment variable with a folder of other ELFs than the shipped ones, of the same names."""
WINDOW_MARGIN = 1.5
"""A window may take so many times what the last one lets expect."""
BLOB_FILE = "model.blob"
BLOB_ADDRESS = {
    "mps2-an385": 0x0010_0000,
    "mps2-an386": 0x0010_0000,
    "mps2-an500": 0x0010_0000,
    "mps3-an547": 0x1100_0000,
}
"""Where each emulated board has its place for a model, as its `x-info` says (`model_address`)."""


class BoardDriver:
    """Drives boards with MLPerf Tiny's protocol; implements `TargetDriver`."""

    runtime = RUNTIME
    version = "1"
    formats = ("tflite",)

    def on_demand(self) -> Sequence[TargetDescription]:
        """Emulated boards, if there is an emulator."""
        if shutil.which(PROGRAM) is None:
            return []
        return [_emulated(name) for name in QEMU_MACHINES]

    def ports(self, named: Sequence[str], memory: Path, *, asks: bool) -> BoardPorts:
        """The ports of this machine, and the named ones."""
        return BoardPorts(named, memory, asks=asks)

    def open(
        self,
        address: str,
        model: Path | None,
        directory: Path,
        *,
        model_name: str,
        on_bytes: OnBytes,
    ) -> BoardWithModel | ListeningBoard:
        """Open the board, and put the model onto it, unless it is to run its own.

        Raises:
            UsageError: no such board is emulated, or a sound is named for one that hears none.
            ModelRefused: it cannot run this model, has no room for it, or has none of its own.
            TargetError: it does not answer, or the model does not arrive.
        """
        address, sound = split_sound(address)
        if model is None:
            with _line(address, directory, on_bytes) as board:
                facts = board.connect(DEFAULT_BAUD_RATES)
                if facts.timestamps is None:
                    return ListeningBoard(board, directory, sound)
                _refuse_sound(facts, sound)
                return BoardWithModel(board, own_model(facts), directory)
        data = model.read_bytes()
        blob = generate(data, model_id=id_of_file(model_name))
        if address.startswith(SCHEME):
            about = sent_model(data, blob)
            emulated = self._emulate(address.removeprefix(SCHEME), about, blob, directory)
            emulated.listen(on_bytes)
            return emulated
        with _line(address, directory, on_bytes) as board:
            _refuse_sound(connected(board), sound)
            return _on_line(board, data, blob, directory)

    def _emulate(
        self, name: str, about: BoardModel, blob: ModelBlob, directory: Path
    ) -> BoardWithModel:
        if name not in QEMU_MACHINES:
            raise UsageError(
                f"unknown emulated board {name[:40]!r}: there are {', '.join(QEMU_MACHINES)}"
            )
        blob.check_fit(BOARD_MEMORY[name])
        emulator = EmulatorFacts(
            name="QEMU",
            version=qemu_version() or "unknown",
            machine=name,
            instruction_ns=float(2**DEFAULT_SHIFT),
        )
        path = directory / BLOB_FILE
        path.write_bytes(blob.data)
        with _firmware(name) as firmware:
            digest = hashlib.sha256(firmware.read_bytes()).hexdigest()
            setup = QemuSetup(
                machine=QEMU_MACHINES[name],
                firmware=firmware,
                blob=path,
                blob_address=BLOB_ADDRESS[name],
            )
            board = Board(QemuBoard(setup))
        try:
            path.unlink()  # QEMU has read it
            facts = board.connect()
            _check_model(facts, blob)
            return BoardWithModel(board, about, directory, emulator=emulator, sha256=digest)
        except BaseException:  # a stop as well leaves no board open
            board.close_keeping(directory / CONSOLE_FILE)
            raise


class BoardWithModel:
    """A board with a model on it; implements `OpenTarget`."""

    def __init__(
        self,
        board: Board,
        model: BoardModel,
        directory: Path,
        *,
        emulator: EmulatorFacts | None = None,
        sha256: str | None = None,
        upload_s: float | None = None,
    ) -> None:
        self._board = board
        self._directory = directory
        self._inference_s: float | None = None
        """Time of an inference in the last window by the bridge's clock, rather too long; None
        before the first one."""
        self._model = model
        self.inputs, self.outputs = model.inputs, model.outputs
        self.precision, self.memory = model.precision, model.memory
        self.own_model = model.own_name
        self.pace_ns: int | None = None
        self.is_read_back = True
        self.upload_s = upload_s
        info = board.facts.firmware
        self.firmware = FirmwareFacts(
            name=board.facts.name,
            version=_version(board.facts),
            sha256=sha256,
            tick_rate_hz=float(info.tick_hz) if info and info.tick_hz else None,
            emulator=emulator,
            rounding=info.rounding if info else None,
        )

    def listen(self, on_bytes: OnBytes) -> None:
        """Call this as inputs are sent."""
        self._board.on_bytes = on_bytes

    def set_input(self, data: bytes) -> None:
        """Put an input onto the board, and compare it with what was sent."""
        if self._board.load_input(encoded_input(data, self._model)) is ReadBack.NONE:
            self.is_read_back = False

    def window(self, count: int, *, warmup_count: int) -> TimedWindow:
        """Run so many inferences in a row."""
        all_count = count + warmup_count
        silence_s = INFERENCE_S * all_count  # until a first window was timed
        if self._inference_s is not None:
            silence_s = INFERENCE_S + WINDOW_MARGIN * self._inference_s * all_count
        board_window = self._board.window(count, warmup_count=warmup_count, silence_s=silence_s)
        self._inference_s = (board_window.ended_ns - board_window.issued_ns) / 1e9 / all_count
        window = Window(
            begin_ns=board_window.began_ns,
            end_ns=board_window.ended_ns,
            count=board_window.count,
            ticks=board_window.ticks,
            tick_rate_hz=None
            if board_window.tick_rate_hz is None
            else float(board_window.tick_rate_hz),
        )
        timed = board_window.inferences
        if timed is None or None in timed.ticks:
            return TimedWindow(window, is_repeated=board_window.attempt_count > 1)
        ticks = tuple(tick for tick in timed.ticks if tick is not None)
        return TimedWindow(window, ticks, is_repeated=board_window.attempt_count > 1)

    def output_bytes(self) -> bytes:
        """Outputs of the last inference; decimals as 32-bit floats, where the board prints no more.

        Raises:
            LineDamaged: they are not as many as the model has.
        """
        if self._board.facts.firmware is not None:
            return self._board.output_bytes()
        values, count = self._board.outputs(), result_count(self._model)
        if len(values) != count:
            raise LineDamaged(f"{len(values)} results came, {self.own_model} has {count}")
        return struct.pack(f"<{count}f", *values)

    @property
    def busy_s(self) -> float:
        """How long `close` waits at most for the end of a window that was cut off."""
        return self._board.busy_s

    def close(self) -> None:
        """Let go of the board, and keep what went over its line."""
        self._board.close_keeping(self._directory / CONSOLE_FILE)


def _version(facts: BoardFacts) -> str:
    if facts.firmware is None:
        return facts.profile or "unknown"
    return f"protocol {facts.firmware.protocol}, kernels {facts.firmware.kernels}"


@contextmanager
def _firmware(board: str) -> Iterator[Path]:
    """The ELF of an emulated board: the shipped one, or that of who works on kernels.

    Raises:
        UsageError: there is none.
    """
    if folder := os.environ.get(FIRMWARE_VARIABLE):
        path = Path(folder) / f"{board}.elf"
        if not path.is_file():
            raise UsageError(f"no firmware at {path}, where {FIRMWARE_VARIABLE} says it is")
        yield path
        return
    with as_file(files("edgebench.firmware_bridge") / "elf" / f"{board}.elf") as path:
        yield path


@contextmanager
def _line(address: str, directory: Path, on_bytes: OnBytes) -> Iterator[Board]:
    """A board at a line, which is let go of if the block fails."""
    board = Board(open_line(address, DEFAULT_BAUD_RATES[0]))
    board.on_bytes = on_bytes
    try:
        yield board
    except BaseException:  # a stop as well leaves no line open
        board.close_keeping(directory / CONSOLE_FILE)
        raise


def connected(board: Board) -> BoardFacts:
    """What a board is that runs inferences on demand.

    Raises:
        ModelRefused: it does not: it has streaming firmware with a model of its own.
        TargetError: it does not answer.
    """
    facts = board.connect(DEFAULT_BAUD_RATES)
    if facts.timestamps is None:
        raise ModelRefused(
            f"{facts.name} takes no model: its streaming firmware has {facts.model_name}, and "
            "runs on live audio"
        )
    return facts


def _refuse_sound(facts: BoardFacts, sound: str) -> None:
    """Refuse a sound for a board that runs inferences on demand.

    Raises:
        UsageError: there is one.
    """
    if sound:
        raise UsageError(
            f"{facts.name} hears no sound: ,play={sound} is for streaming firmware behind an "
            "interface board"
        )


def _on_line(board: Board, data: bytes, blob: ModelBlob, directory: Path) -> BoardWithModel:
    """Put a model onto a board that is connected, which has our firmware.

    Raises:
        ModelRefused: it takes no model over its line, or has no room for this one.
    """
    info = board.facts.firmware
    if info is None or info.model_max is None or info.ram_max is None:
        raise ModelRefused(
            f"{board.facts.name} takes no model over its line: its firmware is not edgebench's"
        )
    if (present := _blob_on_board(info, data)) is not None:
        return BoardWithModel(board, sent_model(data, present), directory)
    if info.model_place == "firmware":
        raise ModelRefused(
            f"{board.facts.name} takes no other model than {info.model}: it is linked into its "
            "firmware"
        )
    blob.check_fit(BoardMemory(info.model_max, info.ram_max))
    begin_s = time.monotonic()
    facts = board.load_model(blob.data)
    upload_s = time.monotonic() - begin_s
    _check_model(facts, blob)
    return BoardWithModel(board, sent_model(data, blob), directory, upload_s=upload_s)


def _blob_on_board(info: FirmwareInfo, data: bytes) -> ModelBlob | None:
    """The blob of this model, if it is on the board already, under whatever id and encoding.

    Then nothing is sent. Behind an interface board there is no other way: frames do not pass it.
    """
    model_id = info.model or ""
    if info.model_state != "ready" or model_id != model_id_of(model_id):
        return None
    encodings: tuple[InputEncoding, ...] = get_args(InputEncoding)
    for encoding in encodings:
        if encoding == info.input_encoding:
            with suppress(ModelRefused):  # a model that has no input of this encoding
                blob = generate(data, model_id=model_id, input_encoding=encoding)
                if (info.model_bytes, info.model_crc) == (len(blob.data), zlib.crc32(blob.data)):
                    return blob
    return None


def _check_model(facts: BoardFacts, blob: ModelBlob) -> None:
    """Refuse a board that has not taken the model.

    Raises:
        ModelRefused: it says why not.
    """
    info = facts.firmware
    if info is None or info.model_state != "ready" or info.model_bytes != len(blob.data):
        state = info.model_state if info else "none"
        raise ModelRefused(f"{facts.name} does not take the model: {state}")


def _emulated(name: str) -> TargetDescription:
    machine = QEMU_MACHINES[name]
    return TargetDescription(
        address=f"{SCHEME}{name}",
        name=name,
        identity=f"{SCHEME}{name}",
        arch=machine.cpu.lower(),
        soc=name,
        profile=f"qemu-{name}",
        is_emulated=True,
    )
