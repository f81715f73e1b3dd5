"""The firmware on QEMU's boards, in short; the long form is firmware_on_qemu.py."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from support.firmware_process import Line, built, emulated, run_inference
from support.reference_kernels import BUILT_IN, Reference, inputs
from support.tools import need_runtime, need_tool, skip_or_fail

from edgebench.firmware_bridge.generate import BOARD_MEMORY, generate

BOARDS = {
    "mps2-an385": ("cortex-m3", "portable"),
    "mps2-an386": ("cortex-m4", "dsp"),
    "mps2-an500": ("cortex-m7", "dsp"),
    "mps3-an547": ("cortex-m55", "mve"),
}
ROOT = Path(__file__).resolve().parents[2]
PACKAGED = ROOT / "firmware_bridge/edgebench/firmware_bridge/elf"
BUILDER = ROOT / "devtools/build_firmware.py"
COUNTED = ("-icount", "shift=3,sleep=off")


@pytest.fixture(scope="module")
def blob_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built-in model for digits as a blob."""
    need_tool("qemu-system-arm")
    path = tmp_path_factory.mktemp("blob") / "digits.blob"
    path.write_bytes(generate(BUILT_IN.read_bytes(), model_id="digits").data)
    return path


@pytest.mark.parametrize("board", BOARDS)
def test_package_holds_what_the_sources_build(board: str) -> None:
    """Users measure with another firmware than the one that is tested, or nobody can tell."""
    need_tool("arm-none-eabi-gcc")
    (wanted,) = re.findall(r'^COMPILER = "(.*)"', BUILDER.read_text(), re.MULTILINE)
    version = subprocess.run(
        ["arm-none-eabi-gcc", "--version"], capture_output=True, text=True, check=True
    )
    if wanted not in version.stdout:
        skip_or_fail(f"another arm-none-eabi-gcc than {wanted}")
    assert (
        built(board, "arm-none-eabi-gcc").read_bytes() == (PACKAGED / f"{board}.elf").read_bytes()
    )


@pytest.mark.parametrize("board", BOARDS)
def test_board_has_the_outputs_of_the_reference_kernels(board: str, blob_file: Path) -> None:
    """The kernels of one kind of processor give other outputs, or its board does not start."""
    need_runtime("ai-edge-litert")
    reference = Reference(BUILT_IN.read_bytes())
    with emulated(board, PACKAGED / f"{board}.elf", blob=blob_file) as line:
        banner = line.lines()
        assert [banner[0], banner[2]] == ["m-timestamp-mode-performance", "m-init-done"]
        info = line.info()
        assert (info["cpu"], info["kernels"]) == BOARDS[board]
        assert (int(info["model_max"]), int(info["ram_max"])) == (
            BOARD_MEMORY[board].flash_bytes,
            BOARD_MEMORY[board].ram_bytes,
        )
        for values in inputs(tuple(reference.input["shape"]), 2):
            assert run_inference(line, values.tobytes()) == reference.outputs(values)


def ticks_of(board: str, blob_file: Path) -> list[int]:
    """Durations of three inferences in a fresh process of a counting QEMU."""
    with emulated(board, PACKAGED / f"{board}.elf", *COUNTED, blob=blob_file) as line:
        line.lines()
        line.command("infer 3 1")
        return line.durations()


def test_counted_ticks_are_the_same_in_every_process(blob_file: Path) -> None:
    """A change of 0.1 % is lost in what QEMU varies by itself."""
    processes = [ticks_of("mps2-an386", blob_file) for _ in range(3)]
    for ticks in zip(*processes, strict=True):
        assert max(ticks) - min(ticks) <= 2, processes


def test_pin_is_the_second_line(blob_file: Path, tmp_path: Path) -> None:
    """Energy of an emulated board has no windows."""
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
    """Only QEMU's loader can bring a model, so a real board has none."""
    board = "mps2-an385"

    def model_of(line: Line) -> str:
        return line.info()["model"]

    with emulated(board, PACKAGED / f"{board}.elf", blob=blob_file) as line:
        line.lines()
        assert model_of(line) == "digits"
        line.load_model(generate(BUILT_IN.read_bytes(), model_id="other").data)
        assert model_of(line) == "other"
        assert line.command("infer 1 0")[-1].startswith("m-results-[")
