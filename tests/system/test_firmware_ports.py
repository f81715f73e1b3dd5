"""Firmware of boards that have never been connected: what the files alone show."""

from __future__ import annotations

import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from support.tools import need_tool

from edgebench.firmware_bridge.generate import BOARD_MEMORY, LINKED_MEMORY, BoardMemory
from edgebench.firmware_bridge.uf2 import PAGE_BYTES, flash_pages

ROOT = Path(__file__).resolve().parents[2]
PACKAGED = ROOT / "firmware_bridge/edgebench/firmware_bridge/elf"
PORTS = ROOT / "firmware_bridge/firmware/ports"
SCRIPTS = {
    "mps2-an385": "mps/mps2.ld",
    "mps2-an386": "mps/mps2.ld",
    "mps2-an500": "mps/mps2.ld",
    "mps3-an547": "mps/mps3.ld",
    "riscv32-virt": "riscv_virt/riscv_virt.ld",
    "nucleo-l4r5zi": "nucleo_l4r5zi/nucleo_l4r5zi.ld",
    "nucleo-l476rg": "nucleo_l476rg/nucleo_l476rg.ld",
    "nucleo-f446re": "nucleo_f446re/nucleo_f446re.ld",
    "nucleo-f767zi": "nucleo_f767zi/nucleo_f767zi.ld",
    "nucleo-h743zi": "nucleo_h743zi/nucleo_h743zi.ld",
    "nrf52840-dk": "nrf52840_dk/nrf52840_dk.ld",
    "arduino-nano-33-ble": "arduino_nano_33_ble/arduino_nano_33_ble.ld",
    "rp2040-pico": "pico/pico.ld",
    "pico2": "pico2/pico2.ld",
}
INTERRUPTS = {
    "nucleo-l4r5zi": (70, 95),
    "nucleo-l476rg": (38, 82),
    "nucleo-f446re": (38, 97),
    "nucleo-f767zi": (39, 110),
    "nucleo-h743zi": (39, 150),
    "nrf52840-dk": (2, 48),
    "arduino-nano-33-ble": (2, 48),
    "rp2040-pico": (20, 26),
    "pico2": (33, 52),
}
"""That of the line, and how many there are: RM0432, RM0351, RM0390, RM0410 and RM0433, tables
of vectors; nrfx, mdk/nrf52840_vectors.h; RP2040 datasheet, 2.3.2; RP2350 datasheet, 3.2."""
VECTORS_AT = {"rp2040-pico": 0x200}
"""Place in flash; 0 on other boards."""
FIRMWARE_KIB = {"riscv32-virt": 96, "rp2040-pico": 96}
"""Flash for the firmware; 64 KiB on other boards."""
FAMILIES = {"rp2040-pico": 0xE48B_FF56, "pico2": 0xE48B_FF59}
"""microsoft/uf2, utils/uf2families.json."""
IMAGE_DEFINITION = struct.pack("<5I", 0xFFFFDED3, 0x10210142, 0x1FF, 0, 0xAB123579)
"""RP2350 datasheet, 5.9.5.1."""
_MEMORY = re.compile(r"(\w+) \(\w+\) : ORIGIN = (0x[0-9a-f]+), LENGTH = (\d+)([KM])")


def memories(board: str) -> dict[str, range]:
    """Memories of a board's linker script."""
    found = _MEMORY.findall((PORTS / SCRIPTS[board]).read_text())
    sizes = {"K": 1 << 10, "M": 1 << 20}
    return {
        name: range(int(origin, 16), int(origin, 16) + int(length) * sizes[unit])
        for name, origin, length, unit in found
    }


def flash_of(board: str) -> bytes:
    """The contents of flash by the ELF, from its beginning on."""
    pages = flash_pages((PACKAGED / f"{board}.elf").read_bytes())
    begin = memories(board)["CODE"].start
    assert list(pages) == list(range(begin, begin + len(pages) * PAGE_BYTES, PAGE_BYTES))
    return b"".join(pages.values())


@pytest.mark.parametrize("board", SCRIPTS)
def test_memory_of_the_generator_is_that_of_the_linker_script(board: str) -> None:
    """Otherwise a model that fits would be refused, or one that does not would be sent."""
    memory = memories(board)
    assert BOARD_MEMORY[board] == BoardMemory(len(memory["MODEL"]), len(memory["ARENA"]))
    is_left = memory["MODEL"].stop == memory["ARENA"].start
    assert LINKED_MEMORY[board] == BoardMemory(
        len(memory["CODE"]) - (FIRMWARE_KIB.get(board, 64) << 10),
        len(memory["ARENA"]) + (len(memory["MODEL"]) if is_left else 0),
    )


@pytest.mark.parametrize("board", INTERRUPTS)
def test_vector_table_leads_into_flash_and_to_the_line(board: str) -> None:
    """Otherwise the processor would start at nothing, or never receive from the line."""
    flash, memory = flash_of(board), memories(board)
    count, at = 16 + INTERRUPTS[board][1], VECTORS_AT.get(board, 0)
    stack, *handlers = struct.unpack_from(f"<{count}I", flash, at)
    assert stack == memory["DATA"].stop
    code = range(memory["CODE"].start + at + 4 * count, memory["CODE"].start + len(flash))
    assert all(handler % 2 and handler in code for handler in handlers)
    reset, fault = handlers[0], handlers[2]
    own = {number - 15 for number, handler in enumerate(handlers) if handler not in (fault, reset)}
    assert own == {-1, INTERRUPTS[board][0]}, "SysTick and the line"


def test_pico_2_has_the_definition_that_its_boot_rom_looks_for() -> None:
    """Otherwise the boot ROM would take the flash for empty, and wait for USB."""
    assert IMAGE_DEFINITION in flash_of("pico2")[:4096]


def test_second_stage_of_the_pico_has_its_checksum() -> None:
    """Otherwise the boot ROM would not start it. Source: RP2040 datasheet, 2.8.1.3.1."""
    stage = flash_of("rp2040-pico")[:256]
    checksum = 0xFFFFFFFF
    for byte in stage[:252]:
        checksum ^= byte << 24
        for _ in range(8):
            checksum = checksum << 1 ^ (0x04C1_1DB7 if checksum >> 31 else 0)
            checksum &= 0xFFFFFFFF
    assert stage[252:] == struct.pack("<I", checksum)
    places = {VECTORS_AT["rp2040-pico"] + 0x1000_0000, 0xE000_ED08, 0x1800_0000, 0x1800_00F4}
    assert {word for (word,) in struct.iter_unpack("<I", stage)} > places


@pytest.mark.parametrize("board", FAMILIES)
def test_uf2_is_the_elf(board: str) -> None:
    """Otherwise dragging the file would install other firmware than a debugger does."""
    data = (PACKAGED / f"{board}.uf2").read_bytes()
    blocks = [data[at : at + 512] for at in range(0, len(data), 512)]
    flash = flash_of(board)
    for number, block in enumerate(blocks):
        head = struct.unpack_from("<8I", block)
        address = 0x1000_0000 + number * PAGE_BYTES
        place = (address, PAGE_BYTES, number, len(blocks))
        assert head == (0x0A32_4655, 0x9E5D_5157, 0x2000, *place, FAMILIES[board])
        assert block[-4:] == struct.pack("<I", 0x0AB1_6F30)
    assert b"".join(block[32 : 32 + PAGE_BYTES] for block in blocks) == flash


def test_raw_image_of_the_nano_is_the_elf_behind_the_bootloader() -> None:
    """Otherwise bossac would install other firmware, or overwrite the bootloader."""
    assert memories("arduino-nano-33-ble")["CODE"].start == 0x10000
    image = (PACKAGED / "arduino-nano-33-ble.bin").read_bytes()
    assert image == flash_of("arduino-nano-33-ble")


@pytest.mark.parametrize(
    "board", ["nucleo-l476rg", "nucleo-f446re", "nucleo-f767zi", "nucleo-h743zi"]
)
def test_energy_is_refused_where_the_line_is_without_power(board: str) -> None:
    """Otherwise a host would wait for a board that has no line while its energy is measured."""
    words = [sys.executable, str(ROOT / "devtools/build_firmware.py"), board, "--energy"]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert f"error: {board} has no energy mode: its line is that of the ST-LINK" in result.stderr


def test_page_lists_the_counters_of_all_ports() -> None:
    """Otherwise a reader of `x-info` would not know what a tick is."""
    folder = ROOT / "firmware_bridge/firmware"
    files = [path for suffix in ("c", "h", "ino") for path in folder.rglob(f"*.{suffix}")]
    text = "".join(path.read_text() for path in files)
    found = set(re.findall(r'(?:TICK_SOURCE|tick_source =) "(\w+)"', text))
    assert found > {"cyccnt", "instret", "micros", "monotonic"}
    page = (ROOT / "docs/firmware-protocol.md").read_text()
    (row,) = re.findall(r"^\| `tick_source` \|(.*)$", page, re.MULTILINE)
    assert found <= set(re.findall(r"`([\w-]+)`", row))


def test_firmware_says_that_nobody_has_run_it() -> None:
    """Otherwise a user could take the first number of an untested port for a verified one."""
    for board in SCRIPTS.keys() - {"riscv32-virt"}:
        source = (PORTS / SCRIPTS[board]).with_name("board.h").read_text()
        assert f"#define IS_UNTESTED {int(board in INTERRUPTS)}\n" in source


@pytest.mark.parametrize("board", [board for board in INTERRUPTS if board != "rp2040-pico"])
def test_kernels_use_the_instructions_of_the_processor(board: str) -> None:
    """Otherwise a wrong compiler option could make working firmware three times as slow."""
    need_tool("arm-none-eabi-objdump")
    command = ["arm-none-eabi-objdump", "-d", "-Mforce-thumb", str(PACKAGED / f"{board}.elf")]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for instruction in ("smlad", "sxtb16", "vmul.f32", "cpsid"):
        assert re.search(rf"\t{instruction}\b", listing), instruction
