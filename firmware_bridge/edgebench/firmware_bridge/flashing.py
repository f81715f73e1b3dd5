"""Commands that put firmware onto boards, by tools that are on PATH: found, shown, run.

None of the tools is a dependency, and none is imported (some are GPL): each is a program with
arguments, and the user sees the whole command before it runs. Without a board this is tested as the
right arguments to a program of that name.

Source: the tools' own manuals: OpenOCD (`program`), pyOCD (`flash`), picotool (`load`),
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
"""A probe that hangs is given up after so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashTool:
    """Program that writes firmware, with the arguments for it."""

    program: str
    arguments: tuple[str, ...]
    """With {firmware} and {target} where those belong."""
    serial_arguments: tuple[str, ...]
    """Choose a probe by its {serial} number."""
    serial_place: int
    """Number of the arguments that stand before those."""
    formats: tuple[str, ...] = (".elf",)
    install: str = ""
    """How to get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlashRecipe:
    """Board, and the tools that can write it, best first."""

    board: str
    text: str
    targets: dict[str, str]
    """What the board is called, by program."""
    tools: tuple[str, ...]


FLASH_TOOLS: dict[str, FlashTool] = {
    tool.program: tool
    for tool in (
        FlashTool(
            program="openocd",
            # Braces keep a path whole, whatever is in it: to Tcl they are quotes.
            arguments=("-f", "{target}", "-c", "program {{{firmware}}} verify reset exit"),
            serial_arguments=("-c", "adapter serial {serial}"),
            serial_place=2,  # of the adapter that the file names
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
            board="pico2",
            text="Raspberry Pi Pico 2",
            targets={"picotool": "", "openocd": "target/rp2350.cfg", "probe-rs": "RP235x"},
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
        """Command as a shell takes it."""
        return shlex.join((self.program, *self.arguments))


def flash_command(
    board: str, firmware: Path, *, program: str | None = None, serial: str | None = None
) -> ToolCommand:
    """Command that writes firmware onto a board, by the first tool that is on PATH.

    Args:
        board: Name of the board, as in `FLASH_RECIPES`.
        firmware: File to write.
        program: Tool to use; None: the first that is there.
        serial: Serial number of the debug probe, where several are connected.

    Raises:
        UsageError: the board or the tool is unknown, or the file is none that it takes.
        FlashToolMissing: no tool for this board is on PATH.
    """
    recipe = FLASH_RECIPES.get(board)
    if recipe is None:
        known = ", ".join(sorted(FLASH_RECIPES))
        raise UsageError(f"no way to flash board {board!r} is known; boards: {known}")
    if program is not None and program not in recipe.tools:
        raise UsageError(f"{recipe.text} is flashed by {', '.join(recipe.tools)}, got {program!r}")
    if not firmware.is_file():
        raise UsageError(f"no such firmware file: {firmware}")
    refusing: list[str] = []
    for name in (program,) if program else recipe.tools:
        tool = FLASH_TOOLS[name]
        path = shutil.which(name)
        if path is not None and firmware.suffix in tool.formats:
            return ToolCommand(path, _arguments(tool, recipe.targets[name], firmware, serial))
        if path is not None:
            refusing.append(f"{name} takes {' or '.join(tool.formats)}")
    if refusing:
        raise UsageError(f"{', '.join(refusing)}; got {firmware.suffix or firmware.name}")
    formats = dict.fromkeys(one for name in recipe.tools for one in FLASH_TOOLS[name].formats)
    if firmware.suffix not in formats:
        raise UsageError(f"firmware is one of {', '.join(formats)}, got {firmware.name}")
    wanted = "; ".join(f"{name}: {FLASH_TOOLS[name].install}" for name in recipe.tools)
    raise FlashToolMissing(f"no tool on PATH writes {firmware.name} onto {recipe.text} ({wanted})")


def _arguments(tool: FlashTool, target: str, firmware: Path, serial: str | None) -> tuple[str, ...]:
    """Arguments with their values."""
    values = {"firmware": str(firmware.resolve()), "target": target, "serial": serial or ""}
    arguments = [one.format(**values) for one in tool.arguments]
    if serial is not None:
        chosen = [one.format(**values) for one in tool.serial_arguments]
        arguments[tool.serial_place : tool.serial_place] = chosen
    return tuple(arguments)


def run_flash(command: ToolCommand, *, limit_s: float = FLASH_S) -> str:
    """Run a command that writes a board; what the tool said.

    Raises:
        TargetError: the tool failed, with its last line; or did not end.
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
        raise TargetError(f"flashing did not end in {limit_s:g} s: {command.line}") from exc
    except OSError as exc:
        raise TargetError(f"cannot run {command.line}: {exc.strerror}") from exc
    if run.returncode:
        lines = [line for line in run.stdout.splitlines() if line.strip()] or ["without a word"]
        raise TargetError(f"flashing failed with status {run.returncode}: {lines[-1]}")
    return run.stdout
