"""The firmware on QEMU's boards, in short; the long form is firmware_on_qemu.py."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
import zlib
from contextlib import closing
from pathlib import Path

import pytest
from support.cmsis_nn import CMSIS_NN, SUM_LIMITS
from support.firmware_process import (
    MODEL_BEGIN,
    NAK,
    Line,
    built,
    compiler_of,
    emulated,
    run_inference,
)
from support.reference_kernels import BUILT_IN, MODELS, Reference, inputs
from support.tools import need_runtime, need_shared, need_tool, skip_or_fail

from edgebench.firmware_bridge.board import Board
from edgebench.firmware_bridge.board_fit import firmware_memory
from edgebench.firmware_bridge.exchange import BoardTiming
from edgebench.firmware_bridge.frames import FrameError
from edgebench.firmware_bridge.generate import BOARD_MEMORY, generate
from edgebench.firmware_bridge.transports.qemu import QEMU_MACHINES, QemuBoard, QemuSetup
from edgebench.firmware_bridge.uf2 import RAW_IMAGES, UF2_FAMILIES
from edgebench.protocol.errors import BoardRefusal

BOARDS = {
    "mps2-an385": ("cortex-m3", "portable"),
    "mps2-an386": ("cortex-m4", "dsp"),
    "mps2-an500": ("cortex-m7", "dsp"),
    "mps3-an547": ("cortex-m55", "mve"),
    "riscv32-virt": ("rv32imac", "portable"),
}
REAL_BOARDS = (
    *("nucleo-l4r5zi", "nucleo-l476rg", "nucleo-f446re", "nucleo-f767zi", "nucleo-h743zi"),
    *("nrf52840-dk", "arduino-nano-33-ble", "rp2040-pico", "pico2"),
)
M0_PLUS = "mps2-an385-m0plus"
"""Code of a Cortex-M0+, which the M3 of this board executes."""
ROOT = Path(__file__).resolve().parents[2]
PACKAGED = ROOT / "firmware_bridge/edgebench/firmware_bridge/elf"
BUILDER = ROOT / "devtools/build_firmware.py"
PATIENT = BoardTiming(answer_s=60.0, resync_s=(60.0,) * 3, quiet_s=0.05)
"""Longer than a board takes on a machine under any load."""
COUNTED = ("-icount", "shift=3,sleep=off")


@pytest.fixture(scope="module")
def blob_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in model for digits as a blob."""
    need_tool("qemu-system-arm")
    path = tmp_path_factory.mktemp("blob") / "digits.blob"
    path.write_bytes(generate(BUILT_IN.read_bytes(), model_id="digits").data)
    return path


@pytest.mark.parametrize("board", [*BOARDS, *REAL_BOARDS])
def test_package_holds_what_the_sources_build(board: str) -> None:
    """Otherwise users could silently measure with another firmware than the tested one."""
    compiler = compiler_of(board)
    need_tool(compiler)
    builder = BUILDER.read_text()
    wanted = dict(re.findall(r'^    "(.*)": "(.*)",  # --version', builder, re.MULTILINE))
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True)
    if wanted[compiler] not in version.stdout:
        skip_or_fail(f"another {compiler} than {wanted[compiler]}")
    elf = built(board, compiler)
    suffixes = {".elf"}
    suffixes |= {".uf2"} if board in UF2_FAMILIES else set()
    suffixes |= {".bin"} if board in RAW_IMAGES else set()
    packaged = list(PACKAGED.glob(f"{board}.*"))
    assert {path.name for path in packaged} == {f"{board}{suffix}" for suffix in suffixes}
    for path in packaged:
        assert path.read_bytes() == elf.with_suffix(path.suffix).read_bytes()


@pytest.mark.parametrize("firmware", [*BOARDS, M0_PLUS])
def test_board_has_the_outputs_of_the_reference_kernels(firmware: str, blob_file: Path) -> None:
    """Otherwise kernels of one kind of processor could be wrong, or its board not start."""
    need_runtime("ai-edge-litert")
    reference = Reference(BUILT_IN.read_bytes())
    board, elf = firmware, PACKAGED / f"{firmware}.elf"
    if firmware == M0_PLUS:
        board, elf = "mps2-an385", built(M0_PLUS, "arm-none-eabi-gcc")
    with emulated(board, elf, blob=blob_file) as line:
        banner = line.lines()
        assert [banner[0], banner[2]] == ["m-timestamp-mode-performance", "m-init-done"]
        info = line.info()
        assert (info["cpu"], info["kernels"]) == BOARDS[board]
        assert "port" not in info, "it is tested here"
        assert (int(info["model_max"]), int(info["ram_max"])) == (
            BOARD_MEMORY[board].flash_bytes,
            BOARD_MEMORY[board].ram_bytes,
        )
        memory = tuple(int(info[key]) for key in ("code_bytes", "data_bytes", "stack_max"))
        if firmware == board:
            assert memory == firmware_memory(board), "what `edgebench check` prints"
        for values in inputs(tuple(reference.input["shape"]), 2):
            assert run_inference(line, values.tobytes()) == reference.outputs(values)


def of_cmsis_nn(board: str) -> float:
    """Limit of the keyword model, 10^6 instructions; see benchmarks/firmware_operators.py."""
    return SUM_LIMITS[board] * sum(CMSIS_NN[board]["kws01"]) / 1e6


@pytest.mark.parametrize(
    ("board", "kernels", "bar"),
    [
        ("mps2-an385", "portable", 11),
        ("mps2-an386", "portable", 11),
        ("mps2-an386", "dsp", of_cmsis_nn("mps2-an386")),
        ("mps3-an547", "mve", of_cmsis_nn("mps3-an547")),
    ],
)
def test_keyword_model_takes_no_more_instructions_than_promised(
    board: str, kernels: str, bar: float, tmp_path: Path
) -> None:
    """Otherwise a kernel that became slower would not be noticed, as its outputs are right."""
    need_tool("qemu-system-arm")
    model = need_shared("models") / MODELS["kws01"]
    elf = PACKAGED / f"{board}.elf"
    if kernels != BOARDS[board][1]:
        elf = built(f"{board}-{kernels}", "arm-none-eabi-gcc")
    blob_file = tmp_path / "kws01.blob"
    blob_file.write_bytes(generate(model.read_bytes(), model_id="kws01").data)
    with emulated(board, elf, "-icount", "shift=0,sleep=off", blob=blob_file) as line:
        line.lines()
        info = line.info()
        assert info["kernels"] == kernels
        idle_bytes = int(info["stack_peak"])
        line.load_input(bytes(int(info["input_bytes"])))
        line.command("infer 1 0")
        ticks = line.durations()[0]
        # A tick is 1 / tick_hz of virtual time, an instruction 1 ns.
        assert ticks * 1000 / int(info["tick_hz"]) <= bar, "10^6 instructions"
        head, *operators = line.command("x-profile 2")
        reading = int(head.split(",")[2])
        operator_ticks = sum(int(text.rstrip("]").split(",")[1]) for text in operators)
        assert (operator_ticks - reading) / 2 == pytest.approx(ticks, rel=0.001)
        assert idle_bytes < int(line.info()["stack_peak"]) < int(info["stack_max"])


def ticks_of(board: str, blob_file: Path) -> list[int]:
    """Durations of three inferences in a fresh process of a counting QEMU."""
    with emulated(board, PACKAGED / f"{board}.elf", *COUNTED, blob=blob_file) as line:
        line.lines()
        line.command("infer 3 1")
        return line.durations()


@pytest.mark.parametrize(
    ("board", "process_count", "spread_max"), [("mps2-an386", 5, 2), ("riscv32-virt", 2, 0)]
)
def test_counted_ticks_are_the_same_in_every_process(
    board: str, process_count: int, spread_max: int, blob_file: Path
) -> None:
    """Otherwise a change of 0.1 % would be lost in QEMU's own variation."""
    processes = [ticks_of(board, blob_file) for _ in range(process_count)]
    for ticks in zip(*processes, strict=True):
        assert max(ticks) - min(ticks) <= spread_max, processes


def first_loaded(elf: bytes | bytearray) -> int:
    """Place of the first loaded segment in an ELF."""
    (at,), (size, count) = struct.unpack_from("<I", elf, 28), struct.unpack_from("<HH", elf, 42)
    headers = [struct.unpack_from("<2I", elf, at + number * size) for number in range(count)]
    return int(next(offset for kind, offset in headers if kind == 1))


def test_fault_restarts_the_board(tmp_path: Path) -> None:
    """Otherwise a host would wait for its whole silence, and need a hand at the reset button."""
    need_tool("qemu-system-arm")
    data = bytearray((PACKAGED / "mps2-an386.elf").read_bytes())
    # The interrupt of the line is no Thumb code.
    struct.pack_into("<I", data, first_loaded(data) + 4 * 16, 0)
    elf = tmp_path / "faulty.elf"
    elf.write_bytes(data)
    with emulated("mps2-an386", elf, *COUNTED) as line:
        banner = line.lines()
        line.send(b"n")
        restarted = line.lines()
    assert restarted[:2] == ["", "e-[Fault]"]
    assert restarted[2:] == banner


@pytest.mark.parametrize("board", BOARDS)
def test_full_stack_is_a_fault(board: str, tmp_path: Path) -> None:
    """Otherwise a stack that grows too far would change the variables below it."""
    data = bytearray((PACKAGED / f"{board}.elf").read_bytes())
    at = first_loaded(data) + (4 if board == "riscv32-virt" else 0)
    (stack_top,) = struct.unpack_from("<I", data, at)
    struct.pack_into("<I", data, at, stack_top - firmware_memory(board)[2] + 64)
    elf = tmp_path / "small.elf"
    elf.write_bytes(data)
    with emulated(board, elf, *COUNTED) as line:
        assert line.until(b"\r\ne-[Fault]\r\n") == b"", "before anything else is printed"


def test_pin_is_the_second_line(blob_file: Path, tmp_path: Path) -> None:
    """Otherwise the energy of an emulated board would have no windows."""
    pin = tmp_path / "pin"
    elf = PACKAGED / "mps2-an386.elf"
    with emulated("mps2-an386", elf, *COUNTED, "-serial", f"file:{pin}", blob=blob_file) as line:
        line.lines()
        assert line.command("x-mode energy") == ["m-timestamp-mode-energy"]
        line.command("infer 3 1")
        durations = line.durations()
    first, last = (int(text) for text in pin.read_text().split())
    assert 0 <= last - first - sum(durations) < 1000, "ticks of the line and the loop"


def test_upload_over_the_line_replaces_the_model(blob_file: Path) -> None:
    """Otherwise only QEMU's loader could bring a model, so a real board would have none."""
    board = "mps2-an385"

    def model_of(line: Line) -> str:
        return line.info()["model"]

    with emulated(board, PACKAGED / f"{board}.elf", blob=blob_file) as line:
        line.lines()
        assert model_of(line) == "digits"
        line.load_model(generate(BUILT_IN.read_bytes(), model_id="other").data)
        assert model_of(line) == "other"
        assert line.command("infer 1 0")[-1].startswith("m-results-[")
        used_bytes = int(line.info()["stack_peak"])
        line.load_model(generate(BUILT_IN.read_bytes(), model_id="third").data)
        assert int(line.info()["stack_peak"]) < used_bytes, "without inferences of the model before"


def test_uart_and_kernels_of_the_pico_2_run_on_musca() -> None:
    """The parts of the Pico 2's firmware that QEMU can run: PL011, and kernels for Cortex-M33."""
    need_tool("qemu-system-arm")
    need_runtime("ai-edge-litert")
    reference = Reference(BUILT_IN.read_bytes())
    with emulated("musca-b1", built("musca-b1", "arm-none-eabi-gcc")) as line:
        assert line.lines()[-1] == "m-init-done"
        line.load_model(generate(BUILT_IN.read_bytes(), model_id="digits").data)
        assert (line.info()["cpu"], line.info()["kernels"]) == ("cortex-m33", "dsp")
        for values in inputs(tuple(reference.input["shape"]), 2):
            assert run_inference(line, values.tobytes()) == reference.outputs(values)


@pytest.fixture(scope="module")
def linked_elf() -> Path:
    """Firmware of the AN386 with the built-in model in it."""
    need_tool("qemu-system-arm")
    options = ("--model", str(BUILT_IN), "--id", "digits")
    return built("mps2-an386", "arm-none-eabi-gcc", *options)


def test_linked_model_is_ready_at_the_reset_and_stays(linked_elf: Path) -> None:
    """Otherwise a board without RAM for a model could not run it, or give other outputs."""
    need_runtime("ai-edge-litert")
    reference = Reference(BUILT_IN.read_bytes())
    blob = generate(BUILT_IN.read_bytes(), model_id="digits")
    with emulated("mps2-an386", linked_elf) as line:
        line.lines()
        info = line.info()
        assert (info["model_state"], info["model"]) == ("ready", "digits")
        assert (info["model_place"], int(info["model_max"])) == ("firmware", blob.flash_bytes)
        assert int(info["model_crc"], 16) == zlib.crc32(blob.data)
        for values in inputs(tuple(reference.input["shape"]), 2):
            assert run_inference(line, values.tobytes()) == reference.outputs(values)
        line.command("x-frames")
        reply = line.exchange(MODEL_BEGIN, 1, struct.pack("<II", 100, 0))
        assert (reply.kind, FrameError(reply.error)) == (NAK, FrameError.MODEL_LINKED)
        line.leave()
        assert line.info()["model_state"] == "ready"


def test_linked_model_needs_no_upload_and_lets_no_other_in(linked_elf: Path) -> None:
    """Otherwise a linked model's file could not be named, or another model than it be measured."""
    setup = QemuSetup(machine=QEMU_MACHINES["mps2-an386"], firmware=linked_elf)
    with closing(Board(QemuBoard(setup), timing=PATIENT)) as board:
        board.connect()
        same = generate(BUILT_IN.read_bytes(), model_id="digits").data
        assert board.load_model(same).model_name == "digits"
        other = generate(BUILT_IN.read_bytes(), model_id="other").data
        with pytest.raises(BoardRefusal, match="accepts only the model digits, which is linked"):
            board.load_model(other)


def test_model_that_does_not_fit_is_refused_before_anything_is_built() -> None:
    """Otherwise the user would wait for a compiler, and get the error message of a linker."""
    mobile = need_shared("models/suite/05_mobilenet_v1_0.25_224") / (
        "mobilenet_v1_0.25_224_ptq_int8.tflite"
    )
    command = [sys.executable, str(BUILDER), "pico2", "--model", str(mobile), "--id", "mobile"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert run.stdout.splitlines() == [
        "mobile: flash 518736 bytes, RAM 602176 bytes",
        "pico2: for a model flash 4128768 bytes, RAM 475136 bytes",
    ]
    assert "mobile needs 602176 bytes of RAM, the board has 475136" in run.stderr
