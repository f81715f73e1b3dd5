"""`edgebench deploy`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.host.cli.options import Add, new_parser
from edgebench.protocol.identity import DEFAULT_PORT

if TYPE_CHECKING:
    from edgebench.host.devices.deploy import Deployed


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("deploy", "Install an agent over SSH, start it, and pair with it.")
    made.add_argument("target", metavar="USER@HOST[:PORT]", help="an account on the device")
    made.add_argument(
        "-i", "--identity-file", type=Path, metavar="FILE", help="a private key to log in with"
    )
    made.add_argument("--python", metavar="PATH", help="the device's Python, 3.10 or newer")
    made.add_argument(
        "--uninstall", action="store_true", help="remove the agent and all that it keeps"
    )
    _add_packages(made.add_argument_group("what is installed").add_argument)
    _add_agent(made.add_argument_group("the agent").add_argument)
    return made


def _add_packages(add: Add) -> None:
    runtime = "tflite, litert or onnx; may be repeated (default: all that exist for the device)"
    add("--runtime", action="append", metavar="R", help=runtime)
    wheels = "take packages from here, download nothing"
    add("--wheels", type=Path, metavar="DIR", help=wheels)


def _add_agent(add: Add) -> None:
    add("--port", type=_port, metavar="N", help=f"port of the agent (default: {DEFAULT_PORT})")
    add("--name", help="name of the device (default: its host name)")
    meter = "a meter at the device that its agent serves, or none; may be repeated (default: as "
    meter += "before); edgebench meters --help has the options of each"
    add("--meter", action="append", default=[], metavar="METER", help=meter)
    line = "wire to a meter's digital input, on which runs are marked (default: as before)"
    add("--sync-line", metavar="gpio:PATH|uart:PATH|none", help=line)


def run(options: argparse.Namespace) -> int:
    """Deploy, or undo it."""
    from edgebench.host.lab import Lab

    lab = Lab()
    if options.uninstall:
        removed = lab.undeploy(
            options.target, _say, identity_file=options.identity_file, python=options.python
        )
        done = "removed the agent from" if removed.was_there else "nothing was deployed to"
        print(f"{done} {options.target}")
        return 0
    runtimes = {"runtimes": tuple(dict.fromkeys(options.runtime))} if options.runtime else {}
    deployed = lab.deploy(
        options.target,
        _say,
        identity_file=options.identity_file,
        wheels=options.wheels,
        python=options.python,
        port=options.port,
        name=options.name,
        meters=tuple(dict.fromkeys(options.meter)),
        sync_line=options.sync_line,
        **runtimes,
    )
    _report(deployed)
    return 0


def _report(deployed: Deployed) -> None:
    from edgebench.host.show.tables import safe

    device, system = deployed.device, deployed.system
    usable = [f"{r.name} {r.version}" for r in system.runtimes if r.is_usable]
    about = (system.device.soc, system.device.arch, f"profile {system.device.profile}")
    print(safe(f"device    {device.name} ({device.addresses[0]}:{device.port})"))
    print(safe(f"          {', '.join((*about, system.device.os))}"))
    print(safe(f"runtimes  {', '.join(usable) or 'none works'}"))
    print(safe(f"meters    {', '.join(system.meters) or 'none'}"))
    if system.sync_line:
        print(safe(f"line      {system.sync_line}"))
    for warning in deployed.warnings:
        print(safe(f"warning   {warning}"))
    print(safe(f"next: edgebench bench --quick --on {device.name}"))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _port(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"not a port: {text!r}; write a number from 1 to 65535")
    return int(text)
