"""Commands of flashing tools: the right arguments, to a program of that name; no board here."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from support.elf_bytes import elf

from edgebench.firmware_bridge import flashing
from edgebench.firmware_bridge import tools as board_tools
from edgebench.firmware_bridge.detection import KnownBoard, KnownBoards, SerialPortInfo
from edgebench.firmware_bridge.flashing import (
    FLASH_RECIPES,
    FLASH_TOOLS,
    flash_command,
    packaged_firmware,
    run_flash,
)
from edgebench.firmware_bridge.tools import BoardTools
from edgebench.firmware_bridge.uf2 import RAW_IMAGES
from edgebench.protocol.errors import FlashToolMissing, TargetError, UsageError


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder that is all of PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def firmware(tmp_path: Path) -> Path:
    """A file of firmware whose name a shell would cut."""
    path = tmp_path / "my firmware.elf"
    path.write_bytes(elf(0, 0x0800_0000, 0x1000_0000))
    return path


def put(folder: Path, name: str, script: str) -> None:
    """A tool of this name."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("board", "program", "serial", "arguments"),
    [
        (
            "nucleo-l4r5zi",
            "openocd",
            None,
            ["-f", "board/st_nucleo_l4.cfg", "-c", "program {FILE} verify reset exit"],
        ),
        (
            "nucleo-l4r5zi",
            "openocd",
            "066A",
            [
                *("-f", "board/st_nucleo_l4.cfg", "-c", "adapter serial 066A"),
                *("-c", "program {FILE} verify reset exit"),
            ],
        ),
        (
            "nucleo-l4r5zi",
            "pyocd",
            "066A",
            ["flash", "--uid", "066A", "--target", "stm32l4r5zitx", "FILE"],
        ),
        ("pico2", "picotool", None, ["load", "--verify", "--execute", "--force", "FILE"]),
        ("pico2", "probe-rs", None, ["download", "--chip", "RP235x", "FILE"]),
        (
            "rp2040-pico",
            "openocd",
            "E661",
            [
                *("-f", "interface/cmsis-dap.cfg", "-c", "adapter serial E661"),
                *("-f", "target/rp2040.cfg", "-c", "program {FILE} verify reset exit"),
            ],
        ),
        ("nrf52840-dk", "pyocd", None, ["flash", "--target", "nrf52840", "FILE"]),
        ("nucleo-h743zi", "pyocd", None, ["flash", "--target", "stm32h743zitx", "FILE"]),
    ],
)
def test_command_is_what_the_tool_takes(
    tools: Path,
    firmware: Path,
    board: str,
    program: str,
    serial: str | None,
    arguments: list[str],
) -> None:
    """Otherwise a tool would write another file, or onto another board."""
    put(tools, program, 'for one in "$@"; do echo "$one"; done')
    command = flash_command(board, firmware, serial=serial)
    assert run_flash(command).splitlines() == [
        argument.replace("FILE", str(firmware)) for argument in arguments
    ]
    again = subprocess.run(command.line, shell=True, capture_output=True, text=True, check=True)
    assert again.stdout.splitlines()[-1] == arguments[-1].replace("FILE", str(firmware))


def test_every_recipe_has_its_tools() -> None:
    """Otherwise a board would name a tool for which no call is known."""
    for recipe in FLASH_RECIPES.values():
        assert set(recipe.tools) == set(recipe.targets)
        assert set(recipe.tools) <= set(FLASH_TOOLS)


def test_first_tool_that_is_there_is_taken(tools: Path, firmware: Path) -> None:
    """Otherwise a user with the second tool would be advised to install the first."""
    with pytest.raises(
        FlashToolMissing, match=r"no tool on PATH writes my firmware.elf onto ST Nucleo"
    ):
        flash_command("nucleo-l4r5zi", firmware)
    put(tools, "probe-rs", "true")
    assert flash_command("nucleo-l4r5zi", firmware).program == str(tools / "probe-rs")
    put(tools, "openocd", "true")
    assert flash_command("nucleo-l4r5zi", firmware).program == str(tools / "openocd")
    chosen = flash_command("nucleo-l4r5zi", firmware, program="probe-rs")
    assert chosen.program == str(tools / "probe-rs")


def test_file_that_the_tool_does_not_take_is_named(tools: Path, tmp_path: Path) -> None:
    """Otherwise a user would install a present tool, where the file is of a wrong kind."""
    image = tmp_path / "kit.bin"
    image.write_bytes(b"1")
    put(tools, "openocd", "true")
    with pytest.raises(UsageError, match=r"openocd accepts .elf or .hex; got .bin"):
        flash_command("nucleo-l4r5zi", image)


def test_board_that_is_written_is_forgotten(
    tools: Path, firmware: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an agent would go on with the former firmware's model, or with a board in a run."""
    put(tools, "openocd", "true")
    memory = KnownBoards(tmp_path / "boards.json")
    ours = SerialPortInfo(path="/dev/a", vendor=0x0483, product=0x374B, serial_number="066A")
    foreign = replace(ours, path="/dev/b", serial_number="066B")
    other = replace(ours, path="/dev/c", serial_number="066C")
    kinds = {ours: "nucleo-l4r5zi", foreign: None, other: "pico2"}
    monkeypatch.setattr(board_tools, "list_serial_ports", lambda: list(kinds))

    def flash(board: str, serial: str | None) -> set[str | None]:
        for port, kind in kinds.items():
            memory.remember(port, KnownBoard(name=port.path, board=kind))
        path = tmp_path / "boards.json"
        BoardTools().flash_command(board, firmware, path, tool=None, serial=serial).run()
        return {port.path for port in kinds if port.key not in memory.known()}

    assert flash("nucleo-l4r5zi", None) == {"/dev/a", "/dev/b"}
    assert flash("nucleo-l4r5zi", "066B") == {"/dev/b"}
    assert flash("/dev/a", None) == {"/dev/a"}
    monkeypatch.setattr(board_tools, "users_of", lambda path: ["edgebench-agent (7)"])
    with pytest.raises(TargetError, match=r"/dev/[ab] is in use by edgebench-agent"):
        flash("nucleo-l4r5zi", None)
    assert len(memory.known()) == 3


@pytest.mark.parametrize("board", FLASH_RECIPES)
def test_firmware_of_the_package_needs_no_path(tools: Path, tmp_path: Path, board: str) -> None:
    """Otherwise a user would have to find the ELF among the packages of Python."""
    put(tools, FLASH_RECIPES[board].tools[0], 'for one in "$@"; do echo "$one"; done')
    command = BoardTools().flash_command(
        board, None, tmp_path / "boards.json", tool=None, serial=None
    )
    suffix = "bin" if board in RAW_IMAGES else "elf"
    assert re.search(rf"/elf/{board}\.{suffix}\b", command.run())


def test_board_that_the_package_lacks_is_named(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a tool would be started on a missing file, and print an error of its own."""
    put(tools, "openocd", "true")
    monkeypatch.setattr(flashing, "files", lambda package: tmp_path)
    with pytest.raises(
        UsageError,
        match=r"^the package lacks its firmware for ST Nucleo-L4R5ZI; reinstall edgebench, or",
    ):
        flash_command("nucleo-l4r5zi", None)


@pytest.mark.parametrize(
    ("board", "program", "vendor", "is_chosen"),
    [
        ("nucleo-l4r5zi", "openocd", 0x0483, True),
        ("nucleo-l4r5zi", "openocd", 0x0403, False),  # in energy mode
        ("nrf52840-dk", "pyocd", 0x1366, True),
        ("arduino-nano-33-ble", "bossac", 0x0403, False),
        ("arduino-nano-33-ble", "pyocd", 0x10C4, False),
        ("rp2040-pico", "openocd", 0x2E8A, False),
        ("pico2", "picotool", 0x0403, False),
    ],
)
def test_number_of_an_adapter_is_not_taken_for_that_of_a_probe(
    tools: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    board: str,
    program: str,
    vendor: int,
    is_chosen: bool,
) -> None:
    """Otherwise a tool would look for a probe or a port that does not exist, and fail."""
    put(tools, program, "true")
    port = SerialPortInfo(path="/dev/a", vendor=vendor, product=0x6001, serial_number="A50285BI")
    path = tmp_path / "boards.json"
    KnownBoards(path).remember(port, KnownBoard(name="ours", board=board))
    monkeypatch.setattr(board_tools, "list_serial_ports", lambda: [port])

    def arguments(serial: str | None) -> str:
        return BoardTools().flash_command("ours", None, path, tool=None, serial=serial).line

    assert ("A50285BI" in arguments(None)) == is_chosen
    assert "E661" in arguments("E661"), "given by the user"
    assert "A50285BI" not in arguments("E661")


def test_bootloader_of_arduino_gets_the_raw_image_at_a_port(tools: Path) -> None:
    """Otherwise bossac would get an ELF, which it writes as it is, or choose the port itself."""
    put(tools, "bossac", "true")
    command = flash_command("arduino-nano-33-ble", None, serial="ttyACM0")
    assert command.arguments[:6] == ("--port", "ttyACM0", "-U", "-i", "-e", "-w")
    assert command.arguments[6].endswith("/elf/arduino-nano-33-ble.bin")
    with pytest.raises(UsageError, match=r"bossac accepts .bin; got .elf"):
        flash_command("arduino-nano-33-ble", Path(command.arguments[6]).with_suffix(".elf"))


def test_board_without_packaged_firmware_needs_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a board of another maker would be overwritten, or the error name no choice."""
    port = SerialPortInfo(path="/dev/a", vendor=0x2341, product=0x5A, serial_number="1")
    memory = KnownBoards(tmp_path / "boards.json")
    memory.remember(port, KnownBoard(name="nano", board="nano"))
    monkeypatch.setattr(board_tools, "list_serial_ports", lambda: [port])
    path = tmp_path / "boards.json"
    with pytest.raises(UsageError, match=r"the package has no firmware for 'nano'; give a file"):
        BoardTools().flash_command("nano", None, path, tool=None, serial=None)


def test_failure_is_told_in_the_tools_last_line(tools: Path, firmware: Path) -> None:
    """Otherwise a user would see a status, and not that no probe is connected."""
    put(tools, "picotool", "echo looking; echo No accessible RP-series devices found >&2; exit 249")
    with pytest.raises(TargetError, match=r"status 249: No accessible RP-series devices found"):
        run_flash(flash_command("pico2", firmware))
    put(tools, "picotool", "while :; do :; done")
    with pytest.raises(TargetError, match=r"did not finish in 0.1 s"):
        run_flash(flash_command("pico2", firmware), limit_s=0.1)


@pytest.mark.parametrize(
    ("board", "program", "text"),
    [
        ("toaster", None, "unknown board 'toaster'; available: arduino-nano-33-ble, "),
        ("pico2", "pyocd", "can be flashed by picotool, probe-rs, openocd, got 'pyocd'"),
    ],
)
def test_unknown_boards_and_tools_are_named(
    firmware: Path, board: str, program: str | None, text: str
) -> None:
    """Otherwise a typing error would end in a traceback."""
    with pytest.raises(UsageError, match=text):
        flash_command(board, firmware, program=program)


def test_firmware_for_another_board_is_refused(tools: Path, tmp_path: Path) -> None:
    """Otherwise a board would be written with code that it cannot run."""
    put(tools, "openocd", "true")
    other = tmp_path / "kit.elf"
    other.write_bytes(elf(0x1000_0000, 0x2000_0000))
    with pytest.raises(
        UsageError,
        match=r"at address 0x10000000, but the flash of nucleo-l4r5zi begins at 0x8000",
    ):
        flash_command("nucleo-l4r5zi", other)
    assert flash_command("rp2040-pico", other)
    other.write_bytes(elf(0x0800_0000)[:60])
    with pytest.raises(UsageError, match=r"kit.elf is not an ELF for a 32-bit microcontroller"):
        flash_command("nucleo-l4r5zi", other)
    [similar] = [file for file in packaged_firmware("nucleo-l476rg") if file.suffix == ".elf"]
    with pytest.raises(UsageError, match=r"edgebench's firmware for nucleo-l476rg, not for nucleo"):
        flash_command("nucleo-l4r5zi", similar)
    assert flash_command("nucleo-l476rg", similar)


def test_command_is_shown_without_a_tool(tools: Path, tmp_path: Path) -> None:
    """Otherwise nothing could be looked at before the tool is installed."""
    path = tmp_path / "boards.json"
    make = partial(BoardTools().flash_command, memory=path, tool=None, serial=None)
    with pytest.raises(FlashToolMissing, match=r"without a tool: hold BOOTSEL .*/pico2\.uf2 to"):
        make("pico2", None)
    shown = make("pico2", None, is_tool_needed=False)
    assert shown.line.startswith("picotool load --verify")
    assert shown.adapter_pins == "GP0 and GP1"
    chosen = make("nucleo-l4r5zi", None, tool="probe-rs", is_tool_needed=False)
    assert chosen.line.startswith("probe-rs download --chip STM32L4R5ZITx")
    assert chosen.adapter_pins is None


@pytest.mark.parametrize(
    ("name", "text", "meant"),
    [
        ("nucleo-l4r5", "no board matches 'nucleo-l4r5'", "nucleo-l4r5zi"),
        ("picoo2", "no board matches 'picoo2'", "pico2"),
        (
            "/dev/ttyACM9",
            r"no board is confirmed at '/dev/ttyACM9' \(confirmed boards: none\)",
            None,
        ),
    ],
)
def test_board_that_is_meant_is_named(
    tmp_path: Path, name: str, text: str, meant: str | None
) -> None:
    """Otherwise a user would compare all names, or not find out that a port must be confirmed."""
    with pytest.raises(UsageError, match=text) as refused:
        BoardTools().flash_command(name, None, tmp_path / "boards.json", tool=None, serial=None)
    assert refused.value.meant == meant


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Otherwise the tool would be started, and print an error of its own."""
    with pytest.raises(UsageError, match="no such firmware file"):
        flash_command("pico2", tmp_path / "nothing.elf")
