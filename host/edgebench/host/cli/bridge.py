"""`edgebench bridge`."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from edgebench.host.cli.options import add_json, new_parser
from edgebench.host.options.values import seconds, whole
from edgebench.protocol.bridge import BAUD_RATE
from edgebench.system.exit_code import ExitCode

SILENCE_S = 30.0
"""Longest time without output from a board while a command runs, seconds.

A board sends nothing while it times a window of inferences."""


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench bridge`."""
    made = new_parser(
        "bridge",
        "List the microcontrollers on this machine, flash firmware, or open a console. To measure "
        "a microcontroller: edgebench bench MODEL --on AGENT/BOARD",
    )
    actions = made.add_subparsers(dest="action", metavar="ACTION")
    listed = actions.add_parser("list", help="list ports and the programs that use them (default)")
    listed.add_argument(
        "--confirm",
        action="store_true",
        help="query the name of the board on every unused USB serial port; opening a port "
        "restarts many kinds of board, and may restart other devices",
    )
    add_json(listed)
    flash = actions.add_parser("flash", help="write firmware to a board, with a tool on PATH")
    flash.add_argument(
        "board",
        metavar="BOARD",
        help="kind of board, such as nucleo-l4r5zi or pico2; or the port, USB serial number or "
        "name of a board from edgebench bridge list --confirm",
    )
    flash.add_argument(
        "firmware",
        metavar="FILE",
        nargs="?",
        type=Path,
        help="an .elf, .hex, .uf2 or .bin file (default: edgebench's firmware for the board)",
    )
    flash.add_argument("--tool", metavar="T", help="openocd, pyocd, picotool, probe-rs or bossac")
    flash.add_argument(
        "--serial", metavar="N", help="serial number of the debug probe; for bossac, the port"
    )
    flash.add_argument("--dry-run", action="store_true", help="only print the command")
    talk = actions.add_parser(
        "console",
        help="print a board's output, and send it commands",
        description="Prints the board's output. Sends each line of standard input to the board "
        "as a command, and adds the % that ends a command. "
        "Ctrl-C or the end of the input ends the console.",
    )
    talk.add_argument("port", metavar="PORT", help="/dev/ttyACM0, or socket://HOST:PORT")
    talk.add_argument(
        "--baud",
        type=whole,
        default=BAUD_RATE,
        metavar="N",
        help="baud rate (default: %(default)s)",
    )
    talk.add_argument(
        "--wait",
        type=seconds,
        default=SILENCE_S,
        metavar="TIME",
        help=f"maximum silence of the board during a command (default: {SILENCE_S:g}s)",
    )
    made.set_defaults(json=False, confirm=False)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Run the action."""
    actions = {"flash": _flash, "console": _console}
    return actions.get(options.action, _list)(options)


def _list(options: argparse.Namespace) -> ExitCode:
    from edgebench.host.devices.bridge import board_memory, find_tools
    from edgebench.host.show.boards import print_ports

    reports = find_tools().ports(board_memory(), is_probing=options.confirm)
    print_ports(reports, as_json=options.json, is_confirmed=options.confirm)
    return ExitCode.DONE


def _flash(options: argparse.Namespace) -> ExitCode:
    from edgebench.host.devices.bridge import board_memory, find_tools
    from edgebench.protocol.text import printable

    command = find_tools().flash_command(
        options.board,
        options.firmware,
        board_memory(),
        tool=options.tool,
        serial=options.serial,
        is_tool_needed=not options.dry_run,
    )
    if options.dry_run:
        print(printable(command.line))
        return ExitCode.DONE
    print(f"$ {printable(command.line)}", file=sys.stderr)
    print(printable(command.run(), keep_lines=True), file=sys.stderr)
    firmware = str(options.firmware or "edgebench's firmware")
    print(f"written: {printable(firmware)} onto {printable(options.board)}")
    if options.firmware is None and command.adapter_pins is not None:
        print(
            f"serial line of the board: pins {command.adapter_pins}; connect a 3.3 V serial "
            "adapter to them"
        )
    print("next: check that the board is found: edgebench bridge list --confirm")
    return ExitCode.DONE


def _console(options: argparse.Namespace) -> ExitCode:
    from edgebench.host.devices.bridge import find_tools

    if sys.stdin.isatty():
        print(
            "enter one command per line, for example `name`; Ctrl-C ends the console",
            file=sys.stderr,
        )
    texts = find_tools().converse(options.port, options.baud, sys.stdin, silence_s=options.wait)
    try:
        for text in texts:
            print(text, end="", flush=True)
    except KeyboardInterrupt:
        print(end=os.linesep)
    return ExitCode.DONE
