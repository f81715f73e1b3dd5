"""`edgebench deploy`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.host.cli.options import new_parser
from edgebench.protocol.errors import EdgebenchError, UsageError
from edgebench.protocol.identity import DEFAULT_PORT
from edgebench.protocol.text import printable
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo, echo_hint

if TYPE_CHECKING:
    from edgebench.host.devices.deploy import DeployReport
    from edgebench.host.lab import Lab

_Work = Callable[[Callable[[str], None]], Callable[[], None]]
"""Function that works on one target. It takes a function that prints a step, and returns a function
that prints the outcome."""
MAX_AT_ONCE = 8
"""Maximum number of targets that are deployed to at the same time; further targets wait."""


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench deploy`."""
    made = new_parser("deploy", "Install an agent over SSH or adb, start it, and pair with it.")
    made.add_argument(
        "target",
        nargs="+",
        metavar="TARGET",
        help="device to log in to over SSH, as [USER@]HOST[:PORT] or a host of ~/.ssh/config; a "
        "phone, as adb:SERIAL; or all ready phones, as adb:all",
    )
    made.add_argument(
        "-i", "--identity-file", type=Path, metavar="FILE", help="private key to log in with"
    )
    made.add_argument("--python", metavar="PATH", help="the device's Python, 3.10 or newer")
    made.add_argument(
        "--kit",
        type=Path,
        metavar="FILE",
        help="Python for a phone, built by edgebench kit build (default: the kit built on this "
        "host, or the installed package edgebench-kit)",
    )
    made.add_argument("--uninstall", action="store_true", help="remove the agent and all its data")
    packages = made.add_argument_group("what is installed")
    packages.add_argument(
        "--runtime",
        action="append",
        metavar="R",
        help="runtime, such as onnx; repeatable (default: all that the device supports)",
    )
    packages.add_argument(
        "--wheels",
        type=Path,
        metavar="DIR",
        help="install wheels only from this directory; nothing is downloaded",
    )
    packages.add_argument(
        "--bridge",
        action=argparse.BooleanOptionalAction,
        help="also install the firmware bridge, for microcontrollers attached to the device "
        "(default: as in the last deploy; off in the first deploy)",
    )
    _add_agent(made.add_argument_group("the agent"))
    return made


def _add_agent(agent: argparse._ArgumentGroup) -> None:
    agent.add_argument(
        "--port",
        type=_port,
        metavar="N",
        help=f"port that the agent listens on (default: unchanged, initially {DEFAULT_PORT})",
    )
    agent.add_argument(
        "--no-boot",
        dest="at_boot",
        action="store_false",
        help="do not start the agent at boot (default: started by systemd or cron, if available)",
    )
    agent.add_argument(
        "--via",
        choices=("tls", "ssh"),
        help="reach the agent directly at its port (tls), or through an SSH tunnel (ssh) "
        "(default: as in the last deploy; "
        "in the first deploy ssh if the login uses a jump host or a proxy command, else tls)",
    )
    agent.add_argument(
        "--name", help="name of the device (default: unchanged, initially its host name)"
    )
    agent.add_argument(
        "--meter",
        action="append",
        default=[],
        metavar="METER",
        help="energy meter that is attached to the device; the value none removes the meters; "
        "repeatable (default: unchanged); edgebench meters --help lists the options of each "
        "meter",
    )
    agent.add_argument(
        "--sync-line",
        metavar="gpio:PATH|uart:PATH|none",
        help="line from the device to a digital input of a meter, to mark the runs (default: "
        "unchanged)",
    )


def run(options: argparse.Namespace) -> ExitCode:
    """Deploy to every target, or uninstall; a failed target does not stop the others.

    Targets are handled in parallel; their outcomes are printed in the order of the targets.

    Raises:
        UsageError: --name is given with several targets.
        EdgebenchError: the error of the first target that failed; every failure is also printed as
            a note.
    """
    from edgebench.host.devices.adb import ALL_PHONES, ready_phones
    from edgebench.host.lab import Lab

    if options.name is not None and (len(options.target) > 1 or options.target == [ALL_PHONES]):
        raise UsageError(f"--name needs a single target, got {' '.join(options.target)}")
    phones = [phone.target for phone in ready_phones()] if ALL_PHONES in options.target else []
    named = [name for name in options.target if name != ALL_PHONES]
    targets = tuple(dict.fromkeys(named + phones))
    works = {
        target: partial(_undeploy if options.uninstall else _deploy, Lab(), target, options)
        for target in targets
    }
    if len(works) == 1:
        works[targets[0]](echo)()
        return ExitCode.DONE
    if failures := _side_by_side(works):
        raise failures[0]
    return ExitCode.DONE


def _side_by_side(works: Mapping[str, _Work]) -> list[EdgebenchError]:
    """Deploy to all targets in parallel, print the outcomes in order, and return the failures."""
    failures = list[EdgebenchError]()
    with ThreadPoolExecutor(MAX_AT_ONCE) as pool:
        ends = {target: pool.submit(work, _naming(target)) for target, work in works.items()}
        try:
            for target, end in ends.items():
                try:
                    end.result()()
                except EdgebenchError as exc:
                    failures.append(exc)
                    echo(f"note: {target} failed: {exc}")
        except KeyboardInterrupt:  # Ctrl-C also ends the programs of the targets in progress
            pool.shutdown(cancel_futures=True)
            raise
    return failures


def _naming(target: str) -> Callable[[str], None]:
    """A function that prints a step with the target's name in front."""
    return lambda step: echo(f"{target}: {step}")


def _undeploy(
    lab: Lab, target: str, options: argparse.Namespace, on_step: Callable[[str], None]
) -> Callable[[], None]:
    """Uninstall; return a function that prints the outcome."""
    removed = lab.undeploy(
        target, on_step, identity_file=options.identity_file, python=options.python
    )
    done = "removed the agent from" if removed.was_there else "nothing was deployed to"
    return lambda: print(printable(f"{done} {target}"))


def _deploy(
    lab: Lab, target: str, options: argparse.Namespace, on_step: Callable[[str], None]
) -> Callable[[], None]:
    """Deploy; return a function that prints the outcome."""
    runtimes = {"runtimes": tuple(dict.fromkeys(options.runtime))} if options.runtime else {}
    report = lab.deploy(
        target,
        on_step,
        identity_file=options.identity_file,
        wheels=options.wheels,
        python=options.python,
        kit=options.kit,
        port=options.port,
        name=options.name,
        via=options.via,
        at_boot=options.at_boot,
        meters=tuple(dict.fromkeys(options.meter)),
        sync_line=options.sync_line,
        has_bridge=options.bridge,
        **runtimes,
    )

    def show() -> None:
        _report(report)
        _require_runtime(report, options.runtime)
        print(printable(f"next: edgebench bench --quick --on {report.device.name}"))

    return show


def _report(report: DeployReport) -> None:
    from edgebench.host.show.devices import CLOSE_FILES

    device, system = report.device, report.system
    usable = [f"{r.name} {r.version}" for r in system.runtimes if r.is_usable]
    about = (system.device.soc, system.device.arch, f"profile {system.device.profile}")
    print(printable(f"device    {device.name} ({device.endpoint.address})"))
    print(printable(f"          {', '.join((*about, system.device.os))}"))
    print(printable(f"runtimes  {', '.join(usable) or 'none is usable'}"))
    print(printable(f"meters    {', '.join(system.meters) or 'none'}"))
    if system.sync_line:
        print(printable(f"line      {system.sync_line}"))
    for warning in report.warnings:
        print(printable(f"warning   {warning}"))
    if system.open_files is not None:
        print(
            printable(f"warning   models can access files of the agent's user: {system.open_files}")
        )
        echo_hint(CLOSE_FILES)


def _require_runtime(report: DeployReport, requested: Sequence[str] | None) -> None:
    """Check that at least one runtime works on the device.

    Raises:
        RuntimeUnavailable: no runtime works; the message states what each runtime lacks.
    """
    from edgebench.protocol.errors import RuntimeUnavailable

    runtimes = report.system.runtimes
    if any(runtime.is_usable for runtime in runtimes):
        return
    lacks = [
        f"{runtime.name}: {runtime.reason}{f' ({runtime.install})' if runtime.install else ''}"
        for runtime in runtimes
        if not requested or runtime.name in requested
    ]
    what = f"agent runs on {report.device.name}, but no runtime works there"
    raise RuntimeUnavailable("; ".join((what, *lacks)))


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"not a port: {text!r}; write a number from 1 to 65535")
    return int(text)
