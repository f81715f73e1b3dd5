#!/usr/bin/env python3
"""Build the firmware: an ELF for each board, with the same bytes on every machine.

    python devtools/build_firmware.py posix                 # into build/firmware/
    python devtools/build_firmware.py posix-checked         # with AddressSanitizer and UBSan
    python devtools/build_firmware.py                       # every board of the package
    python devtools/build_firmware.py --check               # compared with the ELFs in the package
    python devtools/build_firmware.py pico2 --model M.tflite  # with a model in it
    python devtools/build_firmware.py mps3-an547-operators  # counts instructions, by operator

Boards need arm-none-eabi-gcc (Debian: gcc-arm-none-eabi) or riscv64-unknown-elf-gcc. The ELFs in
the package were built with the versions in COMPILERS; other compiler versions produce different
bytes. No C library is linked.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from edgebench.firmware_bridge.generate import LINKED_MEMORY, ModelBlob, generate, id_of_file
from edgebench.firmware_bridge.uf2 import RAW_IMAGES, UF2_FAMILIES, flash_pages, uf2
from edgebench.protocol.errors import EdgebenchError, ModelRefused

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "firmware_bridge/firmware"
PACKAGED = ROOT / "firmware_bridge/edgebench/firmware_bridge/elf"
COMPILERS = {
    "arm-none-eabi-gcc": "12.2.1 20221205",  # --version
    "riscv64-unknown-elf-gcc": "12.2.0",  # --version
}
WARNINGS = "-Wall -Wextra -Werror -Wconversion -Wno-sign-conversion -Wshadow"
COMMON = "-std=c11 -fno-strict-aliasing -fno-common -ffunction-sections -fdata-sections"
BARE = (
    "-O2 -ffreestanding -nostdlib -Ifreestanding -fno-tree-loop-distribute-patterns"
    " -Wl,--gc-sections -Wl,--build-id=none -s"
)


@dataclass(frozen=True)
class BoardBuild:
    """Compiler, options and sources for a board."""

    compiler: str
    options: str
    folders: tuple[str, ...]
    """Folders of the port; the last folder has the files that are specific to the board."""
    program: str = "device"
    """Folder of the program that runs the kernels."""

    def command(self, output: Path, *definitions: str) -> list[str]:
        """Command line of the compiler, to be run in the folder of the sources.

        The sources have relative paths, so that no path of this machine is compiled in.
        """
        files = [
            path.relative_to(SOURCES).as_posix()
            for folder in ("core", self.program, *self.folders)
            for path in sorted((SOURCES / folder).glob("*.c"))
        ]
        words = f"{COMMON} {WARNINGS} -I. -I{self.folders[-1]} {self.options}".split()
        return [self.compiler, *words, *definitions, *files, "-o", str(output), *self.libraries()]

    def libraries(self) -> list[str]:
        """Libraries to link; they contain only arithmetic that the processor does not have."""
        return ["-lgcc"] if "ports/bare_metal" in self.folders else []


def _cortex_m(options: str, script: str, *folders: str) -> BoardBuild:
    """Build settings of a board with a Cortex-M; `script` is the name of its linker script."""
    options = f"{BARE} -mthumb {options} -Wl,-T{folders[-1]}/{script}.ld"
    common = "ports/bare_metal", "ports/cortex_m"
    return BoardBuild("arm-none-eabi-gcc", options, (*common, *folders))


M3 = "-mcpu=cortex-m3 -mfloat-abi=soft"
M4 = "-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16"
M7 = "-mcpu=cortex-m7 -mfloat-abi=hard -mfpu=fpv5-sp-d16"
M33 = "-mcpu=cortex-m33 -mfloat-abi=hard -mfpu=fpv5-sp-d16"
M55 = "-mcpu=cortex-m55 -mfloat-abi=hard"
# CSRs are in this edition of the instruction set without an extension that the libraries lack.
RV32 = "-march=rv32imac -mabi=ilp32 -misa-spec=2.2 -msmall-data-limit=0"
M0_PLUS = "-mcpu=cortex-m0plus -mfloat-abi=soft"
SYSTICK, COUNTER, PL011 = "ports/systick", "ports/cycle_counter", "ports/pl011"
NRF52840 = "ports/nrf52840"


def _nucleo(options: str, family: str, board: str) -> BoardBuild:
    """Build settings of a board with an STM32; `family` determines the code for its clocks."""
    return _cortex_m(options, board, COUNTER, "ports/stm32", f"ports/{family}", f"ports/{board}")


BOARDS = {
    "posix": BoardBuild("gcc", "-O2", ("ports/posix",)),
    "posix-checked": BoardBuild(
        "gcc",
        "-O1 -g -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all",
        ("ports/posix",),
    ),
    "mps2-an385": _cortex_m(f"{M3} -DMPS2_AN385", "mps2", SYSTICK, "ports/mps"),
    "mps2-an386": _cortex_m(f"{M4} -DMPS2_AN386", "mps2", SYSTICK, "ports/mps"),
    # Kernels in plain C for a Cortex-M4; the package has the kernels with DSP instructions.
    "mps2-an386-portable": _cortex_m(
        f"{M4} -DMPS2_AN386 -U__ARM_FEATURE_DSP", "mps2", SYSTICK, "ports/mps"
    ),
    # The code of a Cortex-M0+, which QEMU does not emulate with so much memory; an M3 executes it.
    "mps2-an385-m0plus": _cortex_m(
        f"{M0_PLUS} -DMPS2_AN385 -Wl,--defsym=firmware_max=96K", "mps2", SYSTICK, "ports/mps"
    ),
    "mps2-an500": _cortex_m(f"{M7} -DMPS2_AN500", "mps2", SYSTICK, "ports/mps"),
    "mps3-an547": _cortex_m(f"{M55} -DMPS3_AN547", "mps3", SYSTICK, "ports/mps"),
    "riscv32-virt": BoardBuild(
        "riscv64-unknown-elf-gcc",
        f"{BARE} {RV32} -Wl,-Tports/riscv_virt/riscv_virt.ld",
        ("library", "ports/bare_metal", "ports/riscv_virt"),
    ),
    "nucleo-l4r5zi": _nucleo(M4, "stm32l4", "nucleo_l4r5zi"),
    "nucleo-l476rg": _nucleo(M4, "stm32l4", "nucleo_l476rg"),
    "nucleo-f446re": _nucleo(M4, "stm32f", "nucleo_f446re"),
    "nucleo-f767zi": _nucleo(M7, "stm32f", "nucleo_f767zi"),
    "nucleo-h743zi": _nucleo(M7, "stm32h7", "nucleo_h743zi"),
    "nrf52840-dk": _cortex_m(M4, "nrf52840_dk", COUNTER, NRF52840, "ports/nrf52840_dk"),
    "arduino-nano-33-ble": _cortex_m(
        M4, "arduino_nano_33_ble", COUNTER, NRF52840, "ports/arduino_nano_33_ble"
    ),
    "rp2040-pico": _cortex_m(M0_PLUS, "pico", SYSTICK, PL011, "ports/rp2", "ports/pico"),
    "pico2": _cortex_m(M33, "pico2", COUNTER, PL011, "ports/rp2", "ports/pico2"),
    "musca-b1": _cortex_m(M33, "musca", SYSTICK, PL011, "ports/musca"),
}
COUNTED = ("mps2-an385", "mps2-an386", "mps2-an386-portable", "mps2-an500", "mps3-an547")
BOARDS.update({f"{name}-operators": replace(BOARDS[name], program="counting") for name in COUNTED})
NOT_IN_PACKAGE = (
    *("posix", "posix-checked", "mps2-an385-m0plus", "mps2-an386-portable", "musca-b1"),
    *(f"{name}-operators" for name in COUNTED),
)
IN_PACKAGE = tuple(name for name in BOARDS if name not in NOT_IN_PACKAGE)
WITHOUT_ENERGY = ("nucleo-l476rg", "nucleo-f446re", "nucleo-f767zi", "nucleo-h743zi")
"""Boards without energy mode: their serial line is connected to the ST-LINK, and the ST-LINK has no
power while a meter supplies the board."""


def build(
    name: str, folder: Path, *, is_energy: bool = False, model: ModelBlob | None = None
) -> Path:
    """Compile a board's firmware.

    Args:
        name: Board.
        folder: Folder for the ELF; it is created if it is missing.
        is_energy: Whether the firmware is in energy mode after a reset.
        model: Model to link into the firmware; None: no model.

    Raises:
        FileNotFoundError: the compiler is not installed.
        subprocess.CalledProcessError: the compiler rejects the sources; its messages are on stderr.
    """
    folder.mkdir(parents=True, exist_ok=True)
    suffix = "-energy" if is_energy else ""
    suffix += f"-{model.model_id}" if model else ""
    output = folder.resolve() / (name if name.startswith("posix") else f"{name}{suffix}.elf")
    more = ["-DSTARTS_IN_ENERGY_MODE=1"] if is_energy else []
    if model:
        source = output.with_suffix(".c")
        source.write_text(model.c_source(), "utf-8")
        more.append(str(source))
    # Under another name first, because the file may be in use, or be written by another build.
    unfinished = output.with_name(f"{output.name}.{os.getpid()}")
    subprocess.run(BOARDS[name].command(unfinished, *more), cwd=SOURCES, check=True)
    unfinished.replace(output)
    if name in UF2_FAMILIES:
        output.with_suffix(".uf2").write_bytes(uf2(output.read_bytes(), UF2_FAMILIES[name]))
    if name in RAW_IMAGES:
        output.with_suffix(".bin").write_bytes(b"".join(flash_pages(output.read_bytes()).values()))
    return output


def linked(options: argparse.Namespace, names: list[str]) -> ModelBlob | None:
    """Generate the model of the option --model, and print its flash and RAM; None if not set.

    Raises:
        EdgebenchError: the firmware cannot run the model, or a board has too little memory for it.
        OSError: the file of the model cannot be read.
    """
    if options.model is None:
        return None
    name = options.id or id_of_file(options.model.name)
    model = generate(options.model.read_bytes(), model_id=name, input_encoding=options.encoding)
    print(f"{name}: flash {model.flash_bytes} bytes, RAM {model.ram_bytes} bytes", flush=True)
    for board in names:
        if board not in LINKED_MEMORY:
            raise ModelRefused(f"{board} takes a model as a file, by its option --model")
        memory = LINKED_MEMORY[board]
        there = f"flash {memory.flash_bytes} bytes, RAM {memory.ram_bytes} bytes"
        print(f"{board}: for a model {there}", flush=True)
        model.check_fit(memory)
    return model


def main() -> int:
    parser = argparse.ArgumentParser(description="build the firmware")
    parser.add_argument(
        "boards", nargs="*", metavar="BOARD", help=f"of {', '.join(BOARDS)}; default: the package's"
    )
    parser.add_argument(
        "--output", type=Path, help="folder; default: build/firmware, or the package"
    )
    parser.add_argument("--energy", action="store_true", help="in energy mode after a reset")
    parser.add_argument("--check", action="store_true", help="compare with the package")
    parser.add_argument("--model", type=Path, help=".tflite file to link into the firmware")
    parser.add_argument("--id", help="name of the model; default: MLPerf Tiny's, or the file's")
    parser.add_argument("--encoding", choices=["int8", "uint8", "float32"], help="of its input")
    options = parser.parse_args()
    every = [name for name in IN_PACKAGE if not (options.energy and name in WITHOUT_ENERGY)]
    names = options.boards or every
    if unknown := [name for name in names if name not in BOARDS]:
        parser.error(f"no such board: {unknown[0]}; there are {', '.join(BOARDS)}")
    if options.energy and (without := [name for name in names if name in WITHOUT_ENERGY]):
        parser.error(
            f"{without[0]} has no energy mode: its line is that of the ST-LINK, which is without"
            " power while a meter supplies the board; nucleo-l4r5zi has another line"
        )
    is_local = options.boards or options.check or options.energy or options.model
    default = ROOT / "build/firmware" if is_local else PACKAGED
    folder = options.output or default
    differing: list[str] = []
    try:
        model = linked(options, names)
    except (EdgebenchError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            build_board = partial(build, folder=folder, is_energy=options.energy, model=model)
            for name, output in zip(names, pool.map(build_board, names), strict=True):
                print(f"{output}: {output.stat().st_size} bytes", flush=True)
                if options.check and output.read_bytes() != (PACKAGED / output.name).read_bytes():
                    differing.append(name)
    except FileNotFoundError as error:
        print(f"error: {error.filename} is not installed", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError:
        return 1
    for name in differing:
        print(f"error: {name} is not what the package holds", file=sys.stderr)
    if options.check and not differing:
        print("the same bytes as in the package")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
