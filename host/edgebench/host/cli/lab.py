"""`edgebench lab`."""

from __future__ import annotations

import argparse
import shlex

from edgebench.host.cli.options import new_parser
from edgebench.protocol.exit_code import ExitCode
from edgebench.protocol.text import printable


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser(
        "lab",
        "Share this host's devices and runs with other hosts: they become one owner, a lab, and "
        "each sees, stops and collects the runs of all.",
    )
    actions = made.add_subparsers(dest="action", metavar="ACTION", required=True)
    written = "new file; it has the private key, and is readable by you only"
    action = actions.add_parser("export", help="write identity and devices into a file")
    action.add_argument("file", metavar="FILE", help=written)
    action = actions.add_parser("join", help="take over what another host has exported")
    action.add_argument("file", metavar="FILE", help="file of edgebench lab export")
    replaced = "give up this host's own identity; its own devices have to be paired anew"
    action.add_argument("--replace", action="store_true", help=replaced)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Write the file, or take it over."""
    from edgebench.host.lab import Lab

    file, quoted = printable(options.file), shlex.quote(printable(options.file))
    if options.action == "export":
        devices = Lab().export_lab(options.file)
        print(f"exported: this host's identity and {_counted(len(devices))}, to {file}")
        print("warning: who has this file may measure on all of them; remove it once it is used")
        print(f"next: on the other host: edgebench lab join {quoted}")
        return ExitCode.DONE
    report = Lab().join_lab(options.file, replaces=options.replace)
    for device in report.forgotten:
        print(f"forgotten: {printable(device.name)}, which knew this host by its old identity")
    names = ", ".join(printable(device.name) for device in report.devices)
    print(f"joined: {_counted(len(report.devices))}{f': {names}' if names else ''}")
    print(f"next: rm {quoted}; edgebench devices")
    return ExitCode.DONE


def _counted(count: int) -> str:
    return f"{count} device{'s' if count != 1 else ''}"
