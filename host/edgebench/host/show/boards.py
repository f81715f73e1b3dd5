"""Serial ports and the boards on them, as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.text import Text

from edgebench.host.show.data_table import DataTable
from edgebench.host.show.tables import console, text
from edgebench.protocol.bridge import PortReport
from edgebench.protocol.plain import to_plain
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
    echo(
        "for a board on another port (a pseudo-terminal, a socket), start the agent with: "
        "edgebench-agent serve --board ADDRESS"
    )


def _board(port_report: PortReport) -> Text:
    if port_report.board is not None:
        model = f", model {port_report.model}" if port_report.model else ""
        return Text(printable(f"{port_report.board}{model}"), style="green")
    if port_report.trouble is not None:
        return Text(printable(f"no: {port_report.trouble}"), style="yellow")
    return Text("unknown" if port_report.is_candidate else "-")
