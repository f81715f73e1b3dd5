"""`edgebench devices`."""

from __future__ import annotations

import argparse
import json

from edgebench.host.cli.options import add_json, new_parser
from edgebench.host.cli.watch import add_watch, run_watch
from edgebench.host.options.values import seconds
from edgebench.protocol.errors import UsageError
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo

MAX_TIMEOUT_S = 600.0
"""Limit of --timeout; devices announce themselves within seconds."""


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench devices`."""
    made = new_parser(
        "devices", "List this machine, paired devices, agents on the network, and emulated boards."
    )
    made.add_argument(
        "--timeout",
        type=seconds,
        default=3.0,
        metavar="3s",
        help="time to wait for announcements of agents (default: 3s)",
    )
    add_watch(made)
    add_json(made)
    actions = made.add_subparsers(dest="action", metavar="ACTION")
    checked = "check devices with a quick run; the result starts or ends their quarantine"
    check = actions.add_parser("check", help=checked, description=_CHECK)
    check.add_argument("names", nargs="*", metavar="NAME", help="devices (default: all)")
    renamed = "rename a device, on this host and in the farm file"
    rename = actions.add_parser("rename", help=renamed)
    rename.add_argument("old", metavar="OLD", help="device")
    rename.add_argument("new", metavar="NEW", help="its new name: one word")
    label = actions.add_parser("label", help="add and remove labels, in the farm file")
    label.add_argument(
        "name",
        metavar="NAME",
        help="device; AGENT/DEVICE for an agent with several devices, such as rack/rock-5b",
    )
    label.add_argument("labels", nargs="*", metavar="WORD", help="labels to add")
    removed = "labels to remove; must be the last option"
    label.add_argument("--remove", nargs="+", default=(), metavar="WORD", help=removed)
    forgotten = "remove a device, its pairing and its history; its runs stay in the store"
    forget = actions.add_parser("forget", help=forgotten)
    forget.add_argument("name", metavar="NAME", help="full name of the device")
    for action in actions.choices.values():
        add_json(action, argparse.SUPPRESS)
    return made


_CHECK = (
    "Connects to each device, checks its condition, and makes a quick run of a built-in model; "
    "the run is not stored. A device that passes leaves quarantine. A device that fails is put in "
    "quarantine: --on all and --on with a condition then skip it. Exit code 1: a device failed the "
    "check."
)


def run(options: argparse.Namespace) -> ExitCode:
    """List the devices, or run the action."""
    if options.watch:
        return run_watch(as_json=options.json)
    actions = {"check": _check, "rename": _rename, "label": _label, "forget": _forget}
    return actions.get(options.action, _list)(options)


def _list(options: argparse.Namespace) -> ExitCode:
    from edgebench.host.devices.bridge import emulated_boards
    from edgebench.host.lab import Lab
    from edgebench.host.show.devices import devices_table, emulated_lines
    from edgebench.host.show.tables import console
    from edgebench.protocol.plain import to_plain

    if not 0 <= options.timeout <= MAX_TIMEOUT_S:
        limit = f"0 to {MAX_TIMEOUT_S:g} s (10 minutes)"
        raise UsageError(f"timeout must be {limit}, got {options.timeout:.10g} s")
    devices = Lab().devices(options.timeout, on_doubt=lambda error: echo(f"warning: {error}"))
    boards = tuple(emulated_boards())
    if options.json:
        document = {"devices": to_plain(tuple(devices)), "emulated_boards": to_plain(boards)}
        print(json.dumps(document, indent=1))
    else:
        out = console()
        out.print(devices_table(devices, width=out.width))
        for line in emulated_lines(boards):
            print(line)
    return ExitCode.DONE


def _check(options: argparse.Namespace) -> ExitCode:
    from edgebench.host.devices.health import CheckState, HealthCheck
    from edgebench.host.lab import Lab
    from edgebench.host.show.devices import check_line
    from edgebench.protocol.plain import to_plain
    from edgebench.protocol.text import printable

    def report(check: HealthCheck) -> None:
        if options.json:
            echo(check_line(check))
        else:
            print(printable(check_line(check)))

    checks = Lab().check(*options.names, on_checked=report)
    if options.json:
        print(json.dumps({"devices": to_plain(tuple(checks))}, indent=1))
    is_unwell = any(check.state is CheckState.UNWELL for check in checks)
    return ExitCode.FAILED if is_unwell else ExitCode.DONE


def _rename(options: argparse.Namespace) -> ExitCode:
    from edgebench.host.lab import Lab
    from edgebench.protocol.text import printable

    device = Lab().rename(options.old, options.new)
    if options.json:
        print(json.dumps({"name": device.name}, indent=1))
    else:
        print(f"renamed: {printable(options.old)} is now {printable(device.name)}")
    return ExitCode.DONE


def _label(options: argparse.Namespace) -> ExitCode:
    from edgebench.host.lab import Lab
    from edgebench.protocol.text import printable

    if not (options.labels or options.remove):
        raise UsageError("no label to add or remove")
    device, labels = Lab().label(options.name, *options.labels, remove=options.remove)
    if options.json:
        print(json.dumps({"name": device.name, "labels": list(labels)}, indent=1))
    else:
        print(printable(f"{device.name}: {', '.join(labels) or 'no labels'}"))
    return ExitCode.DONE


def _forget(options: argparse.Namespace) -> ExitCode:
    import shlex

    from edgebench.host.lab import Lab
    from edgebench.protocol.text import printable

    device = Lab().forget(options.name)
    if options.json:
        print(json.dumps({"forgotten": device.name}, indent=1))
    else:
        print(f"forgotten: {printable(device.name)}; its runs stay in the store")
    if device.deployed_to:
        target = printable(shlex.quote(device.deployed_to))
        echo(
            "note: the agent on the device still runs; to remove the agent: edgebench deploy "
            f"{target} --uninstall"
        )
    return ExitCode.DONE
