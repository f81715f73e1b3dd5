"""Commands that write firmware onto boards, by tools that are on PATH.

None of the tools is a dependency, and none is imported (some are GPL): each is a program with
arguments, and the user sees the whole command before it runs. Tests without a board check the
arguments that a program of that name gets.

Source: the manuals of the tools: OpenOCD (`program`), pyOCD (`flash`), picotool (`load`),
probe-rs (`download`).
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgebench.protocol.errors import FlashToolMissing, TargetError, UsageError

FLASH_S = 300.0
"""Timeout, for a probe that hangs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashTool:
    """Program that writes firmware, with the arguments for it."""

    program: str
    arguments: tuple[str, ...]
    """Arguments with the placeholders {firmware} and {target}."""
    serial_arguments: tuple[str, ...]
    """Arguments that choose a probe by its {serial} number."""
    serial_place: int
    """Index at which `serial_arguments` are inserted."""
    formats: tuple[str, ...] = (".elf",)
    install: str = ""
    """Command or instruction to install it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashRecipe:
    """Board, and the tools that can write it, best first."""

    board: str
    text: str
    targets: dict[str, str]
    """The board's name in each program; for OpenOCD its files, the one of the adapter first."""
    tools: tuple[str, ...]


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
    )
}

FLASH_RECIPES: dict[str, FlashRecipe] = {
    recipe.board: recipe
    for recipe in (
        FlashRecipe(
            board="nucleo-l4r5zi",
            text="ST Nucleo-L4R5ZI",
            targets={
                "openocd": "board/st_nucleo_l4.cfg",
                "pyocd": "stm32l4r5zitx",
                "probe-rs": "STM32L4R5ZITx",
            },
            tools=("openocd", "pyocd", "probe-rs"),
        ),
        FlashRecipe(
            board="nucleo-f446re",
            text="ST Nucleo-F446RE",
            targets={
                "openocd": "board/st_nucleo_f4.cfg",
                "pyocd": "stm32f446retx",
                "probe-rs": "STM32F446RETx",
            },
            tools=("openocd", "pyocd", "probe-rs"),
        ),
        FlashRecipe(
            board="nucleo-f767zi",
            text="ST Nucleo-F767ZI",
            targets={
                "openocd": "board/st_nucleo_f7.cfg",
                "pyocd": "stm32f767zitx",
                "probe-rs": "STM32F767ZITx",
            },
            tools=("openocd", "pyocd", "probe-rs"),
        ),
        FlashRecipe(
            board="nrf52840-dk",
            text="Nordic nRF52840 DK",
            targets={
                "openocd": "board/nordic_nrf52_dk.cfg",
                "pyocd": "nrf52840",
                "probe-rs": "nRF52840_xxAA",
            },
            tools=("openocd", "pyocd", "probe-rs"),
        ),
        FlashRecipe(
            board="rp2040-pico",
            text="Raspberry Pi Pico",
            targets={
                "picotool": "",
                "openocd": "interface/cmsis-dap.cfg target/rp2040.cfg",
                "probe-rs": "RP2040",
            },
            tools=("picotool", "openocd", "probe-rs"),
        ),
        FlashRecipe(
            board="pico2",
            text="Raspberry Pi Pico 2",
            targets={
                "picotool": "",
                "openocd": "interface/cmsis-dap.cfg target/rp2350.cfg",
                "probe-rs": "RP235x",
            },
            tools=("picotool", "openocd", "probe-rs"),
        ),
    )
}


@dataclass(frozen=True, slots=True)
class ToolCommand:
    """Command that writes a board."""

    program: str
    arguments: tuple[str, ...]

    @property
    def line(self) -> str:
        """Command line, quoted for a shell."""
        return shlex.join((self.program, *self.arguments))


def flash_command(
    board: str, firmware: Path, *, program: str | None = None, serial: str | None = None
) -> ToolCommand:
    """Command that writes firmware onto a board, by the first tool that is on PATH.

    Args:
        board: Name of the board, as in `FLASH_RECIPES`.
        firmware: File to write.
        program: Tool to use; None: the first that is installed.
        serial: Serial number of the debug probe, if several are connected.

    Raises:
        UsageError: the board or the tool is unknown, or the file is missing or in another format.
        FlashToolMissing: no tool for this board is on PATH.
    """
    recipe = FLASH_RECIPES.get(board)
    if recipe is None:
        known = ", ".join(sorted(FLASH_RECIPES))
        raise UsageError(f"cannot flash board {board!r}; supported boards: {known}")
    if program is not None and program not in recipe.tools:
        raise UsageError(
            f"{recipe.text} can be flashed by {', '.join(recipe.tools)}, got {program!r}"
        )
    if not firmware.is_file():
        raise UsageError(f"no such firmware file: {firmware}")
    refusing: list[str] = []
    for name in (program,) if program else recipe.tools:
        tool = FLASH_TOOLS[name]
        path = shutil.which(name)
        if path is not None and firmware.suffix in tool.formats:
            return ToolCommand(path, _arguments(tool, recipe.targets[name], firmware, serial))
        if path is not None:
            refusing.append(f"{name} accepts {' or '.join(tool.formats)}")
    if refusing:
        raise UsageError(f"{', '.join(refusing)}; got {firmware.suffix or firmware.name}")
    formats = dict.fromkeys(one for name in recipe.tools for one in FLASH_TOOLS[name].formats)
    if firmware.suffix not in formats:
        raise UsageError(f"firmware must be one of {', '.join(formats)}, got {firmware.name}")
    wanted = "; ".join(f"{name}: {FLASH_TOOLS[name].install}" for name in recipe.tools)
    raise FlashToolMissing(f"no tool on PATH writes {firmware.name} onto {recipe.text} ({wanted})")


def _arguments(tool: FlashTool, target: str, firmware: Path, serial: str | None) -> tuple[str, ...]:
    """Arguments with their values."""
    values = {"firmware": str(firmware.resolve()), "target": target, "serial": serial or ""}
    arguments = [argument.format(**values) for argument in tool.arguments]
    if tool.program == "openocd":
        arguments[:2] = [word for name in target.split() for word in ("-f", name)]
    if serial is not None:
        chosen = [serial_argument.format(**values) for serial_argument in tool.serial_arguments]
        arguments[tool.serial_place : tool.serial_place] = chosen
    return tuple(arguments)


def run_flash(command: ToolCommand, *, limit_s: float = FLASH_S) -> str:
    """Run a command that writes a board, and return the output of the tool.

    Raises:
        TargetError: the tool failed, or did not end in time; the text quotes its last line.
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
