"""`edgebench deploy`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.host.cli.options import new_parser
from edgebench.protocol.exit_code import ExitCode
from edgebench.protocol.identity import DEFAULT_PORT
from edgebench.protocol.terminal import say
from edgebench.protocol.text import printable

if TYPE_CHECKING:
    from edgebench.host.devices.deploy import DeployReport


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("deploy", "Install an agent over SSH, start it, and pair with it.")
    made.add_argument("target", metavar="USER@HOST[:PORT]", help="an account on the device")
    made.add_argument(
        "-i", "--identity-file", type=Path, metavar="FILE", help="private key to log in with"
    )
    made.add_argument("--python", metavar="PATH", help="the device's Python, 3.10 or newer")
    made.add_argument(
        "--uninstall", action="store_true", help="remove the agent and all that it stores"
    )
    packages = made.add_argument_group("what is installed")
    packages.add_argument(
        "--runtime",
        action="append",
        metavar="R",
        help="runtime, as onnx; may be repeated (default: all that the device can have)",
    )
    packages.add_argument(
        "--wheels",
        type=Path,
        metavar="DIR",
        help="install wheels from this directory only; nothing is downloaded",
    )
    packages.add_argument(
        "--bridge",
        action=argparse.BooleanOptionalAction,
        help="bring the firmware bridge along, for microcontrollers beside the device (default: "
        "unchanged, initially not)",
    )
    agent = made.add_argument_group("the agent")
    agent.add_argument(
        "--port",
        type=_port,
        metavar="N",
        help=f"port that it listens on (default: unchanged, initially {DEFAULT_PORT})",
    )
    agent.add_argument(
        "--name", help="name of the device (default: unchanged, initially its host name)"
    )
    agent.add_argument(
        "--meter",
        action="append",
        default=[],
        metavar="METER",
        help="energy meter at the device that its agent serves, or none; may be repeated (default: "
        "unchanged); edgebench meters --help has the options of each",
    )
    agent.add_argument(
        "--sync-line",
        metavar="gpio:PATH|uart:PATH|none",
        help="line to a meter's digital input, on which runs are marked (default: unchanged)",
    )
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Deploy, or uninstall."""
    from edgebench.host.lab import Lab

    lab = Lab()
    if options.uninstall:
        removed = lab.undeploy(
            options.target, say, identity_file=options.identity_file, python=options.python
        )
        done = "removed the agent from" if removed.was_there else "nothing was deployed to"
        print(f"{done} {options.target}")
        return ExitCode.DONE
    runtimes = {"runtimes": tuple(dict.fromkeys(options.runtime))} if options.runtime else {}
    report = lab.deploy(
        options.target,
        say,
        identity_file=options.identity_file,
        wheels=options.wheels,
        python=options.python,
        port=options.port,
        name=options.name,
        meters=tuple(dict.fromkeys(options.meter)),
        sync_line=options.sync_line,
        has_bridge=options.bridge,
        **runtimes,
    )
    _report(report)
    _require_runtime(report, options.runtime)
    print(printable(f"next: edgebench bench --quick --on {report.device.name}"))
    return ExitCode.DONE


def _report(report: DeployReport) -> None:
    device, system = report.device, report.system
    usable = [f"{r.name} {r.version}" for r in system.runtimes if r.is_usable]
    about = (system.device.soc, system.device.arch, f"profile {system.device.profile}")
    print(printable(f"device    {device.name} ({device.endpoint.address})"))
    print(printable(f"          {', '.join((*about, system.device.os))}"))
    print(printable(f"runtimes  {', '.join(usable) or 'none works'}"))
    print(printable(f"meters    {', '.join(system.meters) or 'none'}"))
    if system.sync_line:
        print(printable(f"line      {system.sync_line}"))
    for warning in report.warnings:
        print(printable(f"warning   {warning}"))


def _require_runtime(report: DeployReport, requested: Sequence[str] | None) -> None:
    """Refuse a device that can measure nothing, with what each runtime lacks.

    Raises:
        RuntimeUnavailable: no runtime works there.
    """
    from edgebench.protocol.errors import RuntimeUnavailable

    runtimes = report.system.runtimes
    if any(one.is_usable for one in runtimes):
        return
    lacks = [
        f"{one.name}: {one.reason}{f' ({one.install})' if one.install else ''}"
        for one in runtimes
        if not requested or one.name in requested
    ]
    what = f"agent runs on {report.device.name}, but no runtime works there"
    raise RuntimeUnavailable("; ".join((what, *lacks)))


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"not a port: {text!r}; write a number from 1 to 65535")
    return int(text)
