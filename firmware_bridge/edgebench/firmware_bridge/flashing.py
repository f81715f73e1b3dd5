"""Makes and runs the commands of flashing tools on PATH, which write firmware onto boards.

The tools are external programs. They are not dependencies, and are not imported, because some are
GPL. The user sees the whole command before it runs. Tests run without boards: a substitute program
records the arguments that a tool would get.

Source: the manuals of OpenOCD (`program`), pyOCD (`flash`), picotool (`load`) and probe-rs
(`download`). The arguments of Arduino's bossac are from hathach/tinyusb, hw/bsp/nrf.
"""

from __future__ import annotations

import shlex
import shutil
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from edgebench.firmware_bridge.elf_segments import loaded_segments
from edgebench.protocol.errors import FlashToolMissing, TargetError, UsageError, unknown_name

FLASH_S = 300.0
"""Timeout of a flashing tool in seconds, because a debug probe may hang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashTool:
    """Program that writes firmware, and its arguments."""

    program: str
    arguments: tuple[str, ...]
    """Arguments with the placeholders {firmware} and {target}."""
    serial_arguments: tuple[str, ...]
    """Arguments that select a debug probe by its serial number, with the placeholder {serial}."""
    serial_place: int
    """Index at which `serial_arguments` are inserted."""
    formats: tuple[str, ...] = (".elf",)
    install: str = ""
    """Command or instruction to install the tool."""


@dataclass(frozen=True, slots=True)
class FlashRecipe:
    """A board, and the tools that can write firmware onto it, in order of preference."""

    board: str
    text: str
    targets: dict[str, str]
    """Maps each program to the name that the program uses for the board. For OpenOCD, the name is a
    list of configuration files, of which the first is for the debug adapter."""
    probe_vendor: int | None = None
    """USB vendor of the debug probe, which also has the board's serial port; None without a
    probe."""
    adapter_pins: str | None = None
    """Pins of the serial line if it needs an adapter; None if the line is on the board's USB
    port."""
    by_hand: str | None = None
    """Instruction to write the packaged file without a tool, with the placeholder {file}."""

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the programs in the order of `targets`; the first is the preferred program."""
        return tuple(self.targets)


FLASH_TOOLS: dict[str, FlashTool] = {
    tool.program: tool
    for tool in (
        FlashTool(
            program="openocd",
            # In Tcl, braces quote a path with any characters.
            arguments=("-f", "{target}", "-c", "program {{{firmware}}} verify reset exit"),
            serial_arguments=("-c", "adapter serial {serial}"),
            serial_place=2,  # after the file that names the adapter
            formats=(".elf", ".hex"),
            install="apt install openocd",
        ),
        FlashTool(
            program="pyocd",
            arguments=("flash", "--target", "{target}", "{firmware}"),
            serial_arguments=("--uid", "{serial}"),
            serial_place=1,
            formats=(".elf", ".hex"),
            install="pip install pyocd",
        ),
        FlashTool(
            program="picotool",
            arguments=("load", "--verify", "--execute", "--force", "{firmware}"),
            serial_arguments=("--ser", "{serial}"),
            serial_place=1,
            formats=(".elf", ".uf2"),
            install="build it from raspberrypi/picotool",
        ),
        FlashTool(
            program="probe-rs",
            arguments=("download", "--chip", "{target}", "{firmware}"),
            serial_arguments=("--probe", "{serial}"),
            serial_place=1,
            install="cargo install probe-rs-tools",
        ),
        FlashTool(
            program="bossac",
            arguments=("-U", "-i", "-e", "-w", "{firmware}", "-R"),
            serial_arguments=("--port", "{serial}"),
            serial_place=0,
            formats=(".bin",),
            install="part of the Arduino IDE, in packages/arduino/tools/bossac/1.9.1-arduino2",
        ),
    )
}

_NUCLEO = "board/st_nucleo_{}.cfg"
_DEBUG_PROBE = "interface/cmsis-dap.cfg target/{}.cfg"
_ST, _SEGGER = 0x0483, 0x1366
"""USB vendors of the debug probes ST-LINK and J-Link. Source: `usb_ids`."""
_BOOTSEL = "hold BOOTSEL while you connect the board, and copy {file} to its drive"
"""Source: RP2040 datasheet, 2.8.4 (the drive of the boot ROM); RP2350 datasheet, 5.5."""
_RECIPES: tuple[FlashRecipe, ...] = (
    *(
        FlashRecipe(
            f"nucleo-{chip.lower()[5:11]}",
            f"ST Nucleo-{chip[5:11]}",
            {"openocd": _NUCLEO.format(file), "pyocd": chip.lower(), "probe-rs": chip},
            probe_vendor=_ST,
        )
        for chip, file in (
            ("STM32L4R5ZITx", "l4"),
            ("STM32L476RGTx", "l4"),
            ("STM32F446RETx", "f4"),
            ("STM32F767ZITx", "f7"),
            ("STM32H743ZITx", "h743zi"),
        )
    ),
    FlashRecipe(
        "nrf52840-dk",
        "Nordic nRF52840 DK",
        {
            "openocd": "board/nordic_nrf52_dk.cfg",
            "pyocd": "nrf52840",
            "probe-rs": "nRF52840_xxAA",
        },
        probe_vendor=_SEGGER,
    ),
    FlashRecipe(
        "arduino-nano-33-ble",
        "Arduino Nano 33 BLE",
        {
            "bossac": "",
            "openocd": _DEBUG_PROBE.format("nrf52"),
            "pyocd": "nrf52840",
            "probe-rs": "nRF52840_xxAA",
        },
        adapter_pins="TX and RX",
    ),
    FlashRecipe(
        "rp2040-pico",
        "Raspberry Pi Pico",
        {"picotool": "", "openocd": _DEBUG_PROBE.format("rp2040"), "probe-rs": "RP2040"},
        adapter_pins="GP0 and GP1",
        by_hand=_BOOTSEL,
    ),
    FlashRecipe(
        "pico2",
        "Raspberry Pi Pico 2",
        # OpenOCD 0.12, which distributions have, lacks the RP2350.
        {"picotool": "", "probe-rs": "RP235x", "openocd": _DEBUG_PROBE.format("rp2350")},
        adapter_pins="GP0 and GP1",
        by_hand=_BOOTSEL,
    ),
)
FLASH_RECIPES = {recipe.board: recipe for recipe in _RECIPES}


@dataclass(frozen=True, slots=True)
class ToolCommand:
    """Command that writes firmware onto a board."""

    program: str
    arguments: tuple[str, ...]

    @property
    def line(self) -> str:
        """Command line, quoted for a shell."""
        return shlex.join((self.program, *self.arguments))


def flash_command(
    board: str,
    firmware: Path | None,
    *,
    program: str | None = None,
    serial: str | None = None,
    is_tool_needed: bool = True,
) -> ToolCommand:
    """Make the command that writes firmware onto a board with the preferred tool on PATH.

    Args:
        board: Name of the board, as in `FLASH_RECIPES`.
        firmware: File to write; None selects the packaged firmware in a format that the tool
            accepts.
        program: Tool to use; None selects the preferred tool among the installed tools.
        serial: Serial number of the debug probe, needed if several probes are connected. For
            bossac, the port.
        is_tool_needed: Whether a tool must be on PATH. If false, the command of the preferred tool
            is returned even if no tool is on PATH.

    Raises:
        UsageError: the board or the tool is unknown, or the file is missing, in a wrong format, or
            for a different board.
        FlashToolMissing: no tool for this board is on PATH.
    """
    recipe = FLASH_RECIPES.get(board)
    if recipe is None:
        raise unknown_name("board", board, sorted(FLASH_RECIPES))
    if program is not None and program not in recipe.tools:
        raise UsageError(
            f"{recipe.text} can be flashed by {', '.join(recipe.tools)}, got {program!r}"
        )
    if firmware is not None and not firmware.is_file():
        raise UsageError(f"no such firmware file: {firmware}")
    candidates = [firmware] if firmware else packaged_firmware(board)
    if not candidates:
        raise UsageError(
            f"the package lacks its firmware for {recipe.text}; reinstall edgebench, or give a file"
        )
    first = candidates[0]
    if firmware is not None:
        _check_board(firmware, board)
    refusing: list[str] = []
    names = (program,) if program else recipe.tools
    installed = {name: path for name in names if (path := shutil.which(name))}
    if not installed and not is_tool_needed:
        installed = dict(zip(names, names, strict=True))
    for name in names:
        tool = FLASH_TOOLS[name]
        path = installed.get(name)
        fitting = next((file for file in candidates if file.suffix in tool.formats), None)
        if path is not None and fitting is not None:
            return ToolCommand(path, _arguments(tool, recipe.targets[name], fitting, serial))
        if path is not None:
            refusing.append(f"{name} accepts {' or '.join(tool.formats)}")
    if refusing:
        raise UsageError(f"{', '.join(refusing)}; got {first.suffix or first.name}")
    formats = dict.fromkeys(one for name in recipe.tools for one in FLASH_TOOLS[name].formats)
    if first.suffix not in formats:
        raise UsageError(f"firmware must be one of {', '.join(formats)}, got {first.name}")
    wanted = "; ".join(f"{name}: {FLASH_TOOLS[name].install}" for name in recipe.tools)
    text = f"no tool on PATH writes {first.name} onto {recipe.text} ({wanted})"
    copied = next((file for file in candidates if file.suffix == ".uf2"), None)
    if recipe.by_hand is not None and copied is not None:
        text += f"; without a tool: {recipe.by_hand.format(file=copied)}"
    raise FlashToolMissing(text)


def packaged_firmware(board: str) -> list[Path]:
    """Firmware files in the package for a kind of board, the ELF file first."""
    folder = Path(str(files("edgebench.firmware_bridge"))) / "elf"
    return sorted(folder.glob(f"{board}.*"), key=lambda path: (path.suffix != ".elf", path.name))


def _check_board(firmware: Path, board: str) -> None:
    """Reject packaged firmware of a different board, and an ELF file for a different flash address.

    Raises:
        UsageError: the file is for a different board, or cannot be read.
    """
    try:
        content = firmware.read_bytes()
    except OSError as exc:
        raise UsageError(f"firmware not readable: {exc.strerror}: {firmware}") from exc
    for other in FLASH_RECIPES:
        if other != board and any(
            content == file.read_bytes() for file in packaged_firmware(other)
        ):
            raise UsageError(f"{firmware} is edgebench's firmware for {other}, not for {board}")
    own = next((file for file in packaged_firmware(board) if file.suffix == ".elf"), None)
    if firmware.suffix != ".elf" or own is None:
        return
    addresses = _load_addresses(content)
    if not addresses:
        raise UsageError(f"{firmware} is not an ELF for a 32-bit microcontroller")
    expected = min(_load_addresses(own.read_bytes()))
    # The flash of each of these boards has at most 16 MiB.
    if expected >> 24 not in {address >> 24 for address in addresses}:
        raise UsageError(
            f"{firmware} begins at address {min(addresses):#x}, but the flash of {board} begins at "
            f"{expected & ~0xFFFFFF:#x}: the file is for another board"
        )


def _load_addresses(elf: bytes) -> set[int]:
    """Load addresses of the segments with content; empty if the file is not a 32-bit ELF file."""
    try:
        return {segment.load_address for segment in loaded_segments(elf) if segment.content}
    except struct.error:
        return set()


def _arguments(tool: FlashTool, target: str, firmware: Path, serial: str | None) -> tuple[str, ...]:
    """Arguments of a tool, with the placeholders replaced by values."""
    values = {"firmware": str(firmware.resolve()), "target": target, "serial": serial or ""}
    arguments = [argument.format(**values) for argument in tool.arguments]
    if tool.program == "openocd":
        arguments[:2] = [word for name in target.split() for word in ("-f", name)]
    if serial is not None:
        chosen = [serial_argument.format(**values) for serial_argument in tool.serial_arguments]
        arguments[tool.serial_place : tool.serial_place] = chosen
    return tuple(arguments)


def run_flash(command: ToolCommand, *, limit_s: float = FLASH_S) -> str:
    """Run a command that writes firmware onto a board, and return the output of the tool.

    Raises:
        TargetError: the tool failed, or did not end in time. The error quotes the tool's last line.
    """
    arguments: Sequence[str] = (command.program, *command.arguments)
    try:
        run = subprocess.run(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise TargetError(f"flashing did not finish in {limit_s:g} s: {command.line}") from exc
    except OSError as exc:
        raise TargetError(f"cannot run {command.line}: {exc.strerror}") from exc
    if run.returncode:
        lines = [line for line in run.stdout.splitlines() if line.strip()] or ["no output"]
        raise TargetError(f"flashing failed with status {run.returncode}: {lines[-1]}")
    return run.stdout
