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
from edgebench.system.terminal import say, say_hint

if TYPE_CHECKING:
    from edgebench.host.devices.deploy import DeployReport
    from edgebench.host.lab import Lab

_Work = Callable[[Callable[[str], None]], Callable[[], None]]
"""Does what a command is for, with a function that prints its steps; what prints its end."""
MAX_AT_ONCE = 8
"""Targets that are deployed to at the same time; more of them wait."""


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("deploy", "Install an agent over SSH or adb, start it, and pair with it.")
    made.add_argument(
        "target",
        nargs="+",
        metavar="TARGET",
        help="an account on the device, as ssh reaches it: [USER@]HOST[:PORT], or a host of "
        "~/.ssh/config; or a phone: adb:SERIAL; or every phone that is ready: adb:all",
    )
    made.add_argument(
        "-i", "--identity-file", type=Path, metavar="FILE", help="private key to log in with"
    )
    made.add_argument("--python", metavar="PATH", help="the device's Python, 3.10 or newer")
    made.add_argument(
        "--kit",
        type=Path,
        metavar="FILE",
        help="Python for a phone, of edgebench kit build (default: the one that was made here, or "
        "the installed package edgebench-kit)",
    )
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
        "--no-boot",
        dest="at_boot",
        action="store_false",
        help="do not start it at boot (default: by systemd or cron, where there is one)",
    )
    agent.add_argument(
        "--via",
        choices=("tls", "ssh"),
        help="reach the agent at its port, or through a tunnel of ssh (default: unchanged, "
        "initially a tunnel where ssh takes a jump or a proxy command)",
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
    """Deploy to every target, or uninstall there; one that fails keeps no other from its turn.

    Several are served at the same time; what is printed of each at its end keeps their order.

    Raises:
        UsageError: several targets would have one name.
        EdgebenchError: the failure of the first target that failed; the others are notes.
    """
    from edgebench.host.devices.adb import ALL_PHONES, ready_phones
    from edgebench.host.lab import Lab

    if options.name is not None and (len(options.target) > 1 or options.target == [ALL_PHONES]):
        raise UsageError(f"--name goes with one target, not with {' '.join(options.target)}")
    phones = [phone.target for phone in ready_phones()] if ALL_PHONES in options.target else []
    named = [name for name in options.target if name != ALL_PHONES]
    targets = tuple(dict.fromkeys(named + phones))
    works = {
        target: partial(_undeploy if options.uninstall else _deploy, Lab(), target, options)
        for target in targets
    }
    if len(works) == 1:
        works[targets[0]](say)()
        return ExitCode.DONE
    if failures := _side_by_side(works):
        raise failures[0]
    return ExitCode.DONE


def _side_by_side(works: Mapping[str, _Work]) -> list[EdgebenchError]:
    """Do all works, so many at the same time, and print their ends in order; what failed."""
    failures = list[EdgebenchError]()
    with ThreadPoolExecutor(MAX_AT_ONCE) as pool:
        ends = {target: pool.submit(work, _naming(target)) for target, work in works.items()}
        try:
            for target, end in ends.items():
                try:
                    end.result()()
                except EdgebenchError as exc:
                    failures.append(exc)
                    say(f"note: {target} failed: {exc}")
        except KeyboardInterrupt:  # which ends the programs of those that have begun, too
            pool.shutdown(cancel_futures=True)
            raise
    return failures


def _naming(target: str) -> Callable[[str], None]:
    """What prints the steps of one target among several."""
    return lambda step: say(f"{target}: {step}")


def _undeploy(
    lab: Lab, target: str, options: argparse.Namespace, on_step: Callable[[str], None]
) -> Callable[[], None]:
    """Uninstall; what prints the outcome."""
    removed = lab.undeploy(
        target,
        on_step,
        identity_file=options.identity_file,
        python=options.python,
    )
    done = "removed the agent from" if removed.was_there else "nothing was deployed to"
    return lambda: print(printable(f"{done} {target}"))


def _deploy(
    lab: Lab, target: str, options: argparse.Namespace, on_step: Callable[[str], None]
) -> Callable[[], None]:
    """Deploy; what prints the outcome."""
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
    print(printable(f"runtimes  {', '.join(usable) or 'none works'}"))
    print(printable(f"meters    {', '.join(system.meters) or 'none'}"))
    if system.sync_line:
        print(printable(f"line      {system.sync_line}"))
    for warning in report.warnings:
        print(printable(f"warning   {warning}"))
    if system.open_files is not None:
        print(printable(f"warning   models are not kept from files: {system.open_files}"))
        say_hint(CLOSE_FILES)


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
