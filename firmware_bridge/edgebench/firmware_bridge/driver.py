"""Opens boards as an agent's targets, by `qemu:BOARD`, a serial port or `socket://HOST:PORT`.

Theory of operation. The model is data that is not part of the firmware. The worker process
generates it as a blob. The memory of an emulated board contains the blob from the start. A real
board receives the blob in frames, unless the board already has it. After the load, all facts are
read from the board again.
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
    with_firmware,
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
from edgebench.firmware_bridge.operator_times import operator_times
from edgebench.firmware_bridge.transports.qemu import (
    DEFAULT_SHIFT,
    QEMU_MACHINES,
    QemuBoard,
    QemuSetup,
    qemu_version,
)
from edgebench.firmware_bridge.transports.serial_port import open_line, split_sound
from edgebench.firmware_bridge.usb_ids import DEFAULT_BAUD_RATES
from edgebench.protocol.errors import (
    LineDamaged,
    ModelRefused,
    NoBoardProfiler,
    OtherBoard,
    UsageError,
)
from edgebench.protocol.record import (
    EmulatorFacts,
    FirmwareFacts,
    Window,
)
from edgebench.protocol.target import OnBytes, TargetDescription, TargetProfile, TimedWindow
from edgebench.protocol.traces import CONSOLE_FILE

SCHEME = "qemu:"
RUNTIME = "firmware"
FIRMWARE_VARIABLE = "EDGEBENCH_FIRMWARE"
"""Environment variable that names a folder of ELF files; each replaces the packaged file of the
same name."""
WINDOW_MARGIN = 1.5
"""Safety factor in the timeout of a window or profile, applied to the duration that is predicted
from the last window."""
BLOB_FILE = "model.blob"
BLOB_ADDRESS = {
    "mps2-an385": 0x0010_0000,
    "mps2-an386": 0x0010_0000,
    "mps2-an500": 0x0010_0000,
    "mps3-an547": 0x1100_0000,
    "riscv32-virt": 0x8010_0000,
}
"""Maps each emulated board to the address of its memory for a model (`model_address` in
`x-info`)."""


class BoardDriver:
    """Drives boards with MLPerf Tiny's protocol; implements `TargetDriver`."""

    runtime = RUNTIME
    version = "1"
    formats = ("tflite",)

    def on_demand(self) -> Sequence[TargetDescription]:
        """Emulated boards for which the emulator, QEMU, is on PATH."""
        machines = QEMU_MACHINES.values()
        return [_emulated(machine.name) for machine in machines if shutil.which(machine.program)]

    def ports(self, named: Sequence[str], memory: Path, *, is_probing: bool) -> BoardPorts:
        """Create the object that tracks boards at this machine's ports and at given addresses."""
        return BoardPorts(named, memory, is_probing=is_probing)

    def open(
        self,
        address: str,
        model: Path | None,
        directory: Path,
        *,
        model_name: str,
        on_bytes: OnBytes,
        reported_name: str | None = None,
    ) -> BoardWithModel | ListeningBoard:
        """Open a board and load a model onto it; if none is given, the board runs its own model.

        Raises:
            UsageError: the emulated board is unknown, or a sound is given for firmware without
                streaming.
            ModelRefused: the board cannot run this model or has no space for it; or no model is
                given, and the board's firmware contains none.
            OtherBoard: the name that the board reports is not `reported_name`.
            TargetError: the board does not respond, or the model does not arrive.
        """
        address, sound = split_sound(address)
        if model is None:
            with _line(address, directory, on_bytes) as board:
                facts = board.connect(DEFAULT_BAUD_RATES)
                _check_name(facts, reported_name, address)
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
            facts = connected(board)
            _check_name(facts, reported_name, address)
            _refuse_sound(facts, sound)
            return _on_line(board, data, blob, directory)

    def _emulate(
        self, name: str, about: BoardModel, blob: ModelBlob, directory: Path
    ) -> BoardWithModel:
        if name not in QEMU_MACHINES:
            raise UsageError(
                f"unknown emulated board {name[:40]!r}; available: {', '.join(QEMU_MACHINES)}"
            )
        blob.check_fit(BOARD_MEMORY[name])
        emulator = EmulatorFacts(
            name="QEMU",
            version=qemu_version(QEMU_MACHINES[name].program) or "unknown",
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
        except BaseException:  # an interrupt must not leave the board open either
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
        """Upper estimate of the time that an inference of the last window took, by the bridge's
        clock; None before the first window."""
        self._model = model
        self.inputs, self.outputs = model.inputs, model.outputs
        self.precision = model.precision
        self.memory = with_firmware(model.memory, board.facts.firmware)
        self.own_model = model.own_name
        self.pace_ns: int | None = None
        # Other firmware may overwrite its input, as TensorFlow Lite Micro does.
        self.is_stateful = model.is_stateful or board.facts.firmware is None
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
        """Set the callback that reports how many bytes of an input were sent."""
        self._board.on_bytes = on_bytes

    def set_input(self, data: bytes) -> None:
        """Send an input to the board, and compare the board's copy with the input."""
        if self._board.load_input(encoded_input(data, self._model)) is ReadBack.NONE:
            self.is_read_back = False

    def window(self, count: int, *, warmup_count: int) -> TimedWindow:
        """Run and time `count` consecutive inferences, after `warmup_count` untimed inferences."""
        all_count = count + warmup_count
        silence_s = INFERENCE_S * all_count  # before the first timed window
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

    @property
    def no_profiler(self) -> str | None:
        """Reason why the board cannot time operators; None if it can."""
        if self._board.has_profiler:
            return None
        facts = self._board.facts
        why = "older than this" if facts.firmware else "not edgebench's"
        return f"{facts.name} has no operator profiler: its firmware is {why}"

    def profile(self, run_count: int) -> TargetProfile:
        """Run inferences on the loaded input, and time every operator in them."""
        if self.no_profiler:
            raise NoBoardProfiler(self.no_profiler)
        inference_s = self._inference_s or INFERENCE_S
        silence_s = INFERENCE_S + WINDOW_MARGIN * inference_s * run_count
        profile = self._board.profile(run_count, silence_s=silence_s)
        emulator = self.firmware.emulator
        return operator_times(
            profile,
            self._model.operators,
            self._board.facts.firmware,
            instruction_ns=emulator.instruction_ns if emulator else None,
        )

    def stack_peak_bytes(self) -> int | None:
        """Peak use of the stack in bytes since the model was loaded; None if it is not reported."""
        return self._board.stack_peak()

    def output_bytes(self) -> bytes:
        """Outputs of the last inference as bytes; 32-bit floats if the board prints only decimals.

        Raises:
            LineDamaged: the number of printed values is not the model's number of output values.
        """
        if self._board.facts.firmware is not None:
            return self._board.output_bytes()
        values, count = self._board.outputs(), result_count(self._model)
        if len(values) != count:
            raise LineDamaged(f"received {len(values)} results, {self.own_model} has {count}")
        return struct.pack(f"<{count}f", *values)

    @property
    def busy_s(self) -> float:
        """Maximum time that `close` waits for the end of an interrupted window."""
        return self._board.busy_s

    def close(self) -> None:
        """Release the board, and write the log of its line to a file."""
        self._board.close_keeping(self._directory / CONSOLE_FILE)


def _version(facts: BoardFacts) -> str:
    if facts.firmware is None:
        return facts.profile or "unknown"
    return f"protocol {facts.firmware.protocol}, kernels {facts.firmware.kernels}"


@contextmanager
def _firmware(board: str) -> Iterator[Path]:
    """The ELF file for an emulated board, either as packaged or as replaced for development.

    Raises:
        UsageError: the folder of replacements has no ELF for this board.
    """
    if folder := os.environ.get(FIRMWARE_VARIABLE):
        path = Path(folder) / f"{board}.elf"
        if not path.is_file():
            raise UsageError(f"no firmware file {path}; its folder is set by {FIRMWARE_VARIABLE}")
        yield path
        return
    with as_file(files("edgebench.firmware_bridge") / "elf" / f"{board}.elf") as path:
        yield path


@contextmanager
def _line(address: str, directory: Path, on_bytes: OnBytes) -> Iterator[Board]:
    """Open a board on a line, and release it if the block raises an exception."""
    board = Board(open_line(address, DEFAULT_BAUD_RATES[0]))
    board.on_bytes = on_bytes
    try:
        yield board
    except BaseException:  # an interrupt must not leave the line open either
        board.close_keeping(directory / CONSOLE_FILE)
        raise


def connected(board: Board) -> BoardFacts:
    """Connect to a board that runs inferences on demand, and return its facts.

    Raises:
        ModelRefused: the board has streaming firmware with its own model.
        TargetError: the board does not respond.
    """
    facts = board.connect(DEFAULT_BAUD_RATES)
    if facts.timestamps is None:
        raise ModelRefused(
            f"{facts.name} accepts no model: its streaming firmware contains {facts.model_name}, "
            "and runs on live audio"
        )
    return facts


def _check_name(facts: BoardFacts, reported_name: str | None, address: str) -> None:
    """Check that a board is the one that was identified at its address before.

    Raises:
        OtherBoard: the board reports a different name. This happens because USB serial numbers are
            not always unique.
    """
    if reported_name not in (None, facts.name):
        raise OtherBoard(
            f"the board at {address} was identified as {reported_name!r}, but now reports the "
            f"name {facts.name[:80]!r}"
        )


def _refuse_sound(facts: BoardFacts, sound: str) -> None:
    """Reject a sound for a board that runs inferences on demand.

    Raises:
        UsageError: `sound` is not empty.
    """
    if sound:
        raise UsageError(
            f"{facts.name} does not process sound: ,play={sound} is for streaming firmware behind "
            "an interface board"
        )


def _on_line(board: Board, data: bytes, blob: ModelBlob, directory: Path) -> BoardWithModel:
    """Load a model onto a connected board with edgebench's firmware.

    Raises:
        ModelRefused: the board accepts no uploaded model, or has no space for this model.
    """
    info = board.facts.firmware
    if info is None or info.model_max is None or info.ram_max is None:
        raise ModelRefused(
            f"{board.facts.name} accepts no uploaded model: its firmware is not edgebench's"
        )
    if (present := _blob_on_board(info, data)) is not None:
        return BoardWithModel(board, sent_model(data, present), directory)
    if info.model_place == "firmware":
        raise ModelRefused(
            f"{board.facts.name} accepts only the model {info.model}, which is linked into its "
            "firmware"
        )
    blob.check_fit(BoardMemory(info.model_max, info.ram_max))
    begin_s = time.monotonic()
    facts = board.load_model(blob.data)
    upload_s = time.monotonic() - begin_s
    _check_model(facts, blob)
    return BoardWithModel(board, sent_model(data, blob), directory, upload_s=upload_s)


def _blob_on_board(info: FirmwareInfo, data: bytes) -> ModelBlob | None:
    """Blob of the model with the board's id and encoding; None if the board lacks the model.

    A model that is already on the board is not sent. An interface board does not forward frames, so
    the board behind it can only run the model that it already has.
    """
    model_id = info.model or ""
    if info.model_state != "ready" or model_id != model_id_of(model_id):
        return None
    encodings: tuple[InputEncoding, ...] = get_args(InputEncoding)
    for encoding in encodings:
        if encoding == info.input_encoding:
            with suppress(ModelRefused):  # the model has no input of this encoding
                blob = generate(data, model_id=model_id, input_encoding=encoding)
                if (info.model_bytes, info.model_crc) == (len(blob.data), zlib.crc32(blob.data)):
                    return blob
    return None


def _check_model(facts: BoardFacts, blob: ModelBlob) -> None:
    """Check that the board has accepted the model.

    Raises:
        ModelRefused: the board has not accepted the model; the error's text has the board's reason.
    """
    info = facts.firmware
    if info is None or info.model_state != "ready" or info.model_bytes != len(blob.data):
        state = info.model_state if info else "none"
        raise ModelRefused(f"{facts.name} does not accept the model: {state}")


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
