"""`edgebench lab`."""

from __future__ import annotations

import argparse
import shlex
from contextlib import suppress

from edgebench.host.cli.options import add_cluster_certificates, add_store, new_parser
from edgebench.protocol.text import printable
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from collections.abc import Sequence


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench lab`."""
    made = new_parser(
        "lab",
        "Share this host's devices and runs with other hosts. The hosts form a lab with a common "
        "identity; each host can see, stop and collect the runs of all hosts.",
    )
    actions = made.add_subparsers(dest="action", metavar="ACTION", required=True)
    written = "file to create; it contains the private key, and is readable only by you"
    action = actions.add_parser("export", help="write this host's identity and devices to a file")
    action.add_argument("file", metavar="FILE", help=written)
    action = actions.add_parser("join", help="import the identity and devices of another host")
    action.add_argument("file", metavar="FILE", help="file written by edgebench lab export")
    replaced = "replace this host's identity; devices paired with it must be paired again"
    action.add_argument("--replace", action="store_true", help=replaced)
    text = "offer this host's devices to campaigns over several lab hosts, until Ctrl-C"
    action = actions.add_parser("work", help=text)
    address = "Dask scheduler, such as tcp://server:8786; see docs/clusters.md"
    action.add_argument("address", metavar="ADDRESS", help=address)
    chosen = "devices to offer, written as in edgebench bench --on (default: all)"
    action.add_argument("--on", action="append", metavar="DEVICE", help=chosen)
    action.add_argument("--name", help="name of this lab host (default: this machine's name)")
    reached = "address at which the scheduler reaches this machine (default: found by Dask)"
    action.add_argument("--host", metavar="HOST", help=reached)
    add_cluster_certificates(action)
    add_store(action)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Export the lab to a file, join the lab in a file, or offer the devices to a cluster."""
    from edgebench.host.lab import Lab

    if options.action == "work":
        return _work(options)
    file, quoted = printable(options.file), shlex.quote(printable(options.file))
    if options.action == "export":
        devices = Lab().export_lab(options.file)
        print(f"exported: this host's identity and {_counted(len(devices))}, to {file}")
        print("warning: this file gives access to all these devices; remove it after use")
        print(f"next: on the other host: edgebench lab join {quoted}")
        return ExitCode.DONE
    report = Lab().join_lab(options.file, replaces=options.replace)
    for device in report.forgotten:
        print(f"forgotten: {printable(device.name)}, which was paired with the old identity")
    names = ", ".join(printable(device.name) for device in report.devices)
    print(f"joined: {_counted(len(report.devices))}{f': {names}' if names else ''}")
    print(f"next: rm {quoted}; edgebench devices")
    return ExitCode.DONE


def _work(options: argparse.Namespace) -> ExitCode:
    """Offer the devices to a cluster until Ctrl-C; runs in progress continue on the devices."""
    from edgebench.host.campaign.cluster.address import ClusterAddress
    from edgebench.host.lab import Lab

    certificates = (options.tls_ca_file, options.tls_cert, options.tls_key)
    cluster = ClusterAddress(options.address, *certificates)

    def connected(name: str, devices: Sequence[str]) -> None:
        names = ", ".join(map(printable, devices))
        print(f"ready: lab host {printable(name)} at {options.address}: {names}", flush=True)

    def away(reason: str) -> None:
        echo(f"waiting: {reason}")

    with suppress(KeyboardInterrupt):
        Lab(options.store).work_for(
            cluster,
            on=options.on or ("all",),
            name=options.name,
            host=options.host,
            on_connected=connected,
            on_away=away,
        )
    return ExitCode.DONE


def _counted(count: int) -> str:
    return f"{count} device{'s' if count != 1 else ''}"
