"""Serial ports and the boards on them, and which boards a model fits on."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.text import Text

from edgebench.host.devices.names import LOCAL_NAME
from edgebench.host.result.units import format_size
from edgebench.host.show.data_table import DataTable
from edgebench.host.show.tables import console, text
from edgebench.protocol.bridge import BoardFit, ModelCheck, PortReport
from edgebench.protocol.plain import to_plain
from edgebench.protocol.sizes import format_bytes
from edgebench.protocol.text import printable
from edgebench.system.terminal import echo


def print_ports(reports: Sequence[PortReport], *, as_json: bool, is_confirmed: bool) -> None:
    """Print every serial port, the board on it, and the programs that use it."""
    if as_json:
        print(json.dumps({"ports": [to_plain(report) for report in reports]}, indent=1))
        return
    if not reports:
        print("no serial port found")
    else:
        table = DataTable("port", "usb id", "serial number", "what", "board", "in use by")
        for report in reports:
            table.add_row(
                text(report.path),
                report.usb_id or "-",
                text(report.serial_number or "-"),
                text(report.text),
                _board(report),
                text(", ".join(report.used_by) or "-"),
            )
        console().print(table)
    if not is_confirmed and any(report.is_candidate and report.board is None for report in reports):
        echo("next: identify the boards: edgebench bridge list --confirm")
    found = next((report.board for report in reports if report.board is not None), None)
    if found is not None:
        echo(f"next: measure on this board: edgebench bench --on {LOCAL_NAME}/{printable(found)}")
    echo(
        "for a board on another port (a pseudo-terminal, a socket), start the agent with: "
        "edgebench-agent serve --board ADDRESS"
    )


def print_check(check: ModelCheck) -> None:
    """Print what a model needs on a microcontroller, and a line for each board."""
    if check.problem is not None:
        print(printable(f"{check.model}: {check.problem}"))
        replace = "replace these operators, or " if check.missing_operators else ""
        echo(f"next: {replace}measure the model on another device: edgebench devices")
        return
    print(
        printable(
            f"{check.model}: flash {format_size(check.flash_bytes)}, RAM "
            f"{format_size(check.ram_bytes)} (arena {format_size(check.arena_bytes)}, input "
            f"{format_size(check.input_bytes)}), output {format_size(check.output_bytes)}"
        )
    )
    table = DataTable("board", "fits")
    table.add_numbers("flash limit", "RAM limit", "firmware\nflash", "firmware\nRAM", "stack")
    for fit in check.boards:
        table.add_row(
            fit.board,
            _fits(fit),
            format_bytes(fit.flash_max_bytes),
            format_bytes(fit.ram_max_bytes),
            format_bytes(fit.firmware_flash_bytes),
            format_bytes(fit.firmware_ram_bytes),
            format_bytes(fit.stack_bytes),
        )
    console().print(table)
    if any(fit.is_linked for fit in check.boards):
        echo("linked: devtools/build_firmware.py BOARD --model MODEL (docs/firmware.md)")


def _fits(fit: BoardFit) -> Text:
    if not fit.fits:
        return Text("no", style="yellow")
    return Text("if linked" if fit.is_linked else "yes", style="green")


def _board(port_report: PortReport) -> Text:
    if port_report.board is not None:
        model = f", model {port_report.model}" if port_report.model else ""
        return Text(printable(f"{port_report.board}{model}"), style="green")
    if port_report.trouble is not None:
        return Text(printable(f"no: {port_report.trouble}"), style="yellow")
    return Text("unknown" if port_report.is_candidate else "-")
