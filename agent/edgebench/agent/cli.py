"""Command line of the agent: `edgebench-agent serve | pair | status | stop | …`."""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import json
import logging
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeVar

from edgebench.agent.log import log_to_stderr
from edgebench.agent.simulated import find_simulator
from edgebench.protocol.distributions import AGENT_DISTRIBUTION, install_command, why_missing
from edgebench.protocol.errors import (
    AgentRunning,
    EdgebenchError,
    PortTaken,
    RuntimeUnavailable,
    SimulationMissing,
    TargetDriverMissing,
    TargetError,
    Unreachable,
    UsageError,
)
from edgebench.protocol.identity import DEFAULT_PORT, PAIRING_VALID_S
from edgebench.protocol.sizes import format_bytes
from edgebench.system.command_line import CommandParser
from edgebench.system.command_process import exit_code_of, raise_when_interrupted
from edgebench.system.control_address import ControlAddress
from edgebench.system.exit_code import ExitCode
from edgebench.system.paths import Paths, refuse_long, user_paths
from edgebench.system.python_environment import PythonEnvironment, this_environment
from edgebench.system.terminal import echo, echo_hint
from edgebench.system.variables import WIRING_VARIABLES

if TYPE_CHECKING:
    from edgebench.meters.wiring import Wiring
    from edgebench.protocol.messages import Message, SeatState

_T = TypeVar("_T")

METERS_VARIABLE, SYNC_LINE_VARIABLE = WIRING_VARIABLES
"""Environment variables with the default meters and sync line. They are also read by an agent that
a command such as `edgebench bench` starts on this machine."""

_HINTS: tuple[tuple[type[EdgebenchError], str], ...] = (
    (Unreachable, "start the agent: edgebench-agent serve"),
    (SimulationMissing, "run the command on a host, which has all packages of edgebench"),
    (PortTaken, f"use another port: edgebench-agent serve --listen :{DEFAULT_PORT + 1}"),
    (
        TargetDriverMissing,
        "install the firmware bridge from a host: edgebench deploy USER@HOST --bridge",
    ),
    (TargetError, "see the agent's state: edgebench-agent status"),
    (RuntimeUnavailable, "install the driver's package in this environment: pip install PACKAGE"),
    (UsageError, "see all arguments: edgebench-agent serve --help"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return exit_code_of(lambda: _run(arguments), AGENT_DISTRIBUTION)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        options = command_parser().parse_args(arguments)
    except SystemExit as exc:  # argparse has printed the help or an error
        return int(exc.code or 0)
    level = logging.DEBUG if options.verbose else logging.WARNING
    log_to_stderr(level)
    # zeroconf logs a traceback for every interface without multicast, which is normal.
    logging.getLogger("zeroconf").setLevel(logging.DEBUG if options.verbose else logging.ERROR)
    try:
        code: ExitCode | None = options.command(options)
    except EdgebenchError as exc:
        echo(f"error: {exc}")
        if hint := _hint(exc, options):
            echo_hint(hint)
        return ExitCode.USAGE if isinstance(exc, UsageError) else ExitCode.FAILED
    except ModuleNotFoundError as exc:
        if (message := why_missing(exc)) is None:
            raise
        # Meter drivers import numpy, which is installed together with a runtime.
        what = (
            install_command("runtimes")
            if exc.name == "numpy"
            else f"pip install {AGENT_DISTRIBUTION}"
        )
        echo(f"error: {message}")
        echo_hint(f"install the missing package: {what}")
        return ExitCode.FAILED
    return code or ExitCode.DONE


def _hint(exc: EdgebenchError, options: argparse.Namespace) -> str | None:
    """Hint to the next step; each command in it works as printed, except for words in capitals."""
    if isinstance(exc, UsageError) and options.command is _forget:
        return (
            "see the seats: edgebench-agent status; collect the runs of a seat, on a host: "
            "edgebench collect --on AGENT/SEAT"
        )
    if isinstance(exc, UsageError) and options.command is _check_runtime:
        return "see all arguments: edgebench-agent check-runtime --help"
    if isinstance(exc, AgentRunning) and options.command is _new_identity:
        how = "its process" if exc.pid is None else f"it: kill {exc.pid}"
        return f"stop {how}; then: edgebench-agent new-identity"
    if isinstance(exc, AgentRunning):
        process = "" if exc.pid is None else f" (process {exc.pid})"
        return (
            f"see the agent's state: edgebench-agent status{process}; an agent started by "
            "edgebench bench stops 10 s after the last command, so try again then; or start a "
            f"second agent: edgebench-agent --state DIR serve --listen :{DEFAULT_PORT + 1}"
        )
    return next((text for kind, text in _HINTS if isinstance(exc, kind)), None)


class _Parser(CommandParser):
    """Prints an error as one line and a hint, as the command line of the host does."""

    def error(self, message: str) -> NoReturn:
        self.exit(
            ExitCode.USAGE, f"error: {message}\nhint: see all arguments: {self.prog} --help\n"
        )


class _AgentParser(_Parser):
    """Looks for simulated boards only when it prints a help text, because the search takes time."""

    def format_help(self) -> str:
        with suppress(SimulationMissing):
            self.epilog = f"boards of --simulate: {', '.join(find_simulator().board_names)}"
        return super().format_help()


def command_parser() -> argparse.ArgumentParser:
    """Create the parser of all commands."""
    paths = user_paths(os.environ)
    parser = _Parser(prog="edgebench-agent", description="Run and measure models on this device.")
    parser.add_argument("--verbose", action="store_true", help="log every step")
    parser.add_argument(
        "--state",
        type=Path,
        metavar="DIR",
        help=f"models, uncollected runs and the control socket (default: {paths.agent_state})",
    )
    parser.add_argument(
        "--config",
        type=Path,
        metavar="DIR",
        help=f"this agent's identity and the paired hosts (default: {paths.agent_config})",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=_AgentParser)
    _add_serve(commands.add_parser("serve", help="serve hosts until stopped"))
    pair = commands.add_parser("pair", help="print a pairing string, which a host needs to pair")
    pair.add_argument("--json", action="store_true", help="print one JSON document")
    pair.set_defaults(command=_pair)
    status = commands.add_parser("status", help="show the state of the running agent")
    status.add_argument("--json", action="store_true", help="print one JSON document")
    status.set_defaults(command=_status)
    stop = commands.add_parser("stop", help="stop the run in progress, whichever host started it")
    stop.set_defaults(command=_stop)
    renew = commands.add_parser(
        "new-identity", help="give this device a new identity, for a copied SD card"
    )
    renew.set_defaults(command=_new_identity)
    forget = commands.add_parser(
        "forget", help="remove the seat of an unplugged device, so that its name is free again"
    )
    forget.add_argument("seat", metavar="SEAT", help="name of the seat, as status shows it")
    forget.set_defaults(command=_forget)
    check = commands.add_parser(
        "check-runtime", help="check that a runtime's driver meets the conditions for valid results"
    )
    check.add_argument("name", metavar="NAME", help="name of the runtime, as in bench --runtime")
    check.add_argument(
        "model", metavar="MODEL", type=Path, help="model file whose outputs depend on its inputs"
    )
    check.add_argument("--json", action="store_true", help="print one JSON document")
    check.set_defaults(command=_check_runtime)
    for other in (pair, status, stop, renew, forget):
        other.add_argument(
            "--simulate", metavar="BOARD", help="use the agent that simulates this board"
        )
    return parser


def _add_serve(serve: argparse.ArgumentParser) -> None:
    serve.add_argument(
        "--listen",
        default=f":{DEFAULT_PORT}",
        metavar="[ADDRESS]:PORT",
        help="address and port for paired hosts (default: %(default)s, on all addresses)",
    )
    serve.add_argument(
        "--local", action="store_true", help="serve this machine only, not the network"
    )
    serve.add_argument("--name", help="name of this device (default: the host name)")
    _add_devices(serve)
    serve.add_argument("--no-advertise", action="store_true", help="do not announce by mDNS")
    serve.add_argument(
        "--idle-exit",
        type=float,
        metavar="SECONDS",
        help="stop after this time without a connection or a run",
    )
    serve.add_argument(
        "--models-quota", type=int, metavar="BYTES", help="disk space for models (default: 4 GiB)"
    )
    serve.add_argument(
        "--log",
        type=Path,
        metavar="FILE",
        help="write the log to this file, capped at 1 MiB, and keep three older files "
        "(default: standard error)",
    )
    # Digests of the Python environment of the command that starts this agent.
    serve.add_argument("--environment", help=argparse.SUPPRESS)
    serve.set_defaults(command=_serve)


def _add_devices(serve: argparse.ArgumentParser) -> None:
    """Add the options for simulated boards, microcontrollers and meters."""
    serve.add_argument(
        "--simulate",
        action="append",
        metavar="BOARD[:SEED]",
        help="simulate a board that slows down, for tests; may be repeated",
    )
    serve.add_argument(
        "--simulate-directory",
        type=Path,
        metavar="DIR",
        help="simulate a board for each file of this directory; a board exists until its file is "
        "deleted",
    )
    serve.add_argument(
        "--board",
        action="append",
        metavar="[NAME=]ADDRESS",
        help="address of a microcontroller that is not discovered: a serial port or "
        "socket://HOST:PORT; append ,play=FILE for a sound that an interface board plays; may be "
        "repeated; the value none turns microcontrollers off",
    )
    serve.add_argument(
        "--meter",
        action="append",
        metavar="NAME[:ADDRESS]",
        help="energy meter of this device for use in runs; may be repeated; the value none turns "
        f"meters off (default: ${METERS_VARIABLE})",
    )
    serve.add_argument(
        "--sync-line",
        metavar="gpio:PATH|uart:PATH|none",
        help="GPIO or UART line to a meter's digital input, for pulses that mark the runs "
        f"(default: ${SYNC_LINE_VARIABLE})",
    )


def _paths(options: argparse.Namespace) -> Paths:
    """Directories of the agent that the command addresses; simulated boards have separate ones."""
    paths, boards = user_paths(os.environ), _boards(options)
    if not boards:
        return paths
    names = [find_simulator().board_name(board) for board in boards]
    return paths.of_simulated(names[0])


def _boards(options: argparse.Namespace) -> list[str]:
    """Names of the simulated boards; the agent's directories are named after the first board."""
    named: list[str] | str | None = options.simulate
    return [named] if isinstance(named, str) else named or []


def _state(options: argparse.Namespace) -> Path:
    """The state directory of the agent that the command addresses.

    Raises:
        UsageError: a simulated board would use this machine's state directory.
    """
    paths = _paths(options)  # even when --state is given: an unknown board is refused
    state: Path = (options.state or Path(paths.agent_state)).absolute()
    if _boards(options) and state == Path(user_paths(os.environ).agent_state):
        raise UsageError(
            f"a simulated board cannot use the state directory of this machine: {state}"
        )
    refuse_long(state)
    return state


def _serve(options: argparse.Namespace) -> None:
    from edgebench.agent.agent import AgentSettings
    from edgebench.agent.daemon import run_daemon

    raise_when_interrupted()
    wiring = _wiring(options)
    _warn(wiring)
    config = (options.config or Path(_paths(options).agent_config)).absolute()
    refuse_long(config)
    run_daemon(
        AgentSettings(
            config=config,
            state=_state(options),
            name=options.name,
            listen=None if options.local else _parse_listen(options.listen),
            idle_exit_s=options.idle_exit,
            is_advertised=not options.no_advertise,
            models_quota_bytes=options.models_quota,
            wiring=wiring,
            simulate=tuple(_boards(options)),
            simulate_directory=_directory(options.simulate_directory),
            boards=tuple(options.board or ()),
            log=options.log.absolute() if options.log else None,
            environment=_environment(options.environment),
        )
    )


def _environment(text: str | None) -> PythonEnvironment:
    """Environment of the command that started this agent, or of this process if no command did."""
    environment = this_environment()
    libraries, _, settings = (text or "").partition(":")
    return replace(environment, libraries=libraries, settings=settings) if text else environment


def _directory(path: Path | None) -> Path | None:
    """Absolute path of the directory of simulated boards; None if the option is not given.

    Raises:
        UsageError: the path is not a directory.
        SimulationMissing: the simulated boards are not installed.
    """
    if path is None:
        return None
    find_simulator()
    if not path.is_dir():
        raise UsageError(f"--simulate-directory takes a directory, got {str(path)!r}")
    return path.absolute()


def _wiring(options: argparse.Namespace) -> Wiring:
    """Meters and sync line at this device, from the options, else from environment variables.

    Raises:
        UsageError: a meter's name, or an option of a meter, is unknown.
    """
    from edgebench.meters.options import with_absolute_paths
    from edgebench.meters.wiring import NOTHING, Wiring, check_line, check_meters

    line = options.sync_line or os.environ.get(SYNC_LINE_VARIABLE)
    words = options.meter or os.environ.get(METERS_VARIABLE, "").split(";")
    named = [text.strip() for text in words if text.strip()]
    meters = check_meters(
        [text if text == NOTHING else with_absolute_paths(text) for text in named]
    )
    return Wiring(sync_line=check_line(line) if line else None, meters=meters)


def _warn(wiring: Wiring) -> None:
    """Warn about each meter or sync line that is absent now; every run checks this again."""
    from edgebench.agent.metering import why_not_there

    line = (wiring.sync_line or "").partition(":")[2]
    if line and not os.access(line, os.W_OK):
        why = "permission denied" if os.path.exists(line) else "no such file"
        echo(f"warning: sync line {wiring.sync_line}: {why}; runs will lack sync marks")
    for why in filter(None, map(why_not_there, wiring.meters)):
        echo(f"warning: {why}; runs will lack energy values")


def _request(options: argparse.Namespace, request: Message, answer: type[_T]) -> _T:
    """Send a request to the running agent over its control socket, and return the reply."""
    from edgebench.agent.control import send_request

    raise_when_interrupted()
    return asyncio.run(send_request(ControlAddress(_state(options)), request, answer))


def _pair(options: argparse.Namespace) -> None:
    from edgebench.protocol import identity
    from edgebench.protocol.messages import PairingOpen, PairingReady

    secret = secrets.token_bytes(identity.SECRET_BYTES)
    certificate = identity.pairing_identity(secret).certificate_pem
    request = PairingOpen(certificate, PAIRING_VALID_S)
    ready = _request(options, request, PairingReady)
    addresses = ready.addresses or ("127.0.0.1",)
    string = identity.PairingString(addresses, ready.port, ready.fingerprint, secret)
    if options.json:
        print(json.dumps({"pairing": str(string), "valid_s": PAIRING_VALID_S}))
        return
    print(string)
    echo(f"next: on the host, within {PAIRING_VALID_S / 60:.0f} minutes: edgebench pair '{string}'")


def _status(options: argparse.Namespace) -> None:
    from edgebench.protocol.messages import Status, StatusAsk
    from edgebench.protocol.plain import to_plain

    status = _request(options, StatusAsk(), Status)
    if options.json:
        print(json.dumps(to_plain(status), indent=1))
        return
    lease = "free"
    if status.lease_holder:
        left = status.lease_expires_in_s
        until = "until its run ends" if left is None else f"for {left:.0f} s more"
        lease = f"held by {status.lease_holder}, {until}"
    print(f"device   {status.device.name} ({status.device.id}), {status.device.os}")
    print(f"agent    {status.software}, pid {status.pid}, up {status.uptime_s:.0f} s")
    if status.is_root:
        print("user     root: governors can be set; models run without root's capabilities")
    print(f"port     {status.port or 'none: this machine only'}")
    if len(status.seats) > 1:
        for seat in status.seats:
            print(f"seat     {seat_line(seat)}")
    else:
        print(f"lease    {lease}")
        print(f"running  {status.running or 'nothing'}")
    spooled = format_bytes(status.spooled_bytes)
    print(f"spool    {status.spooled_count} runs not yet collected, {spooled}")
    used, quota = format_bytes(status.models_bytes), format_bytes(status.models_quota_bytes)
    print(f"models   {status.models_count}, {used} of {quota}")
    print(f"hosts    {', '.join(status.paired_hosts) or 'none paired'}")
    print(f"meters   {', '.join(status.meters) or 'none'}")
    print(f"line     {status.sync_line or 'none'}")


def seat_line(seat: SeatState) -> str:
    """Line about a seat in the output of `status`, for an agent with several seats.

    >>> from edgebench.protocol.device import DeviceDescription
    >>> from edgebench.protocol.messages import SeatState
    >>> device = DeviceDescription("0f", "pi-simulated", "generic", "aarch64", "bcm2712", "Linux")
    >>> seat_line(SeatState("pi", device, "ada", 61.0, "20261123-1", 48.2))
    'pi: pi-simulated, held by ada for 61 s, runs 20261123-1, 48.2 °C'
    >>> seat_line(SeatState("pi", device, fault="it has 90.0 °C"))
    'pi: pi-simulated, free; it has 90.0 °C'
    >>> seat_line(SeatState("pi", device, gone_for_s=12.0))
    'pi: pi-simulated, gone for 12 s'
    """
    if seat.gone_for_s is not None:
        return f"{seat.name}: {seat.device.name}, gone for {seat.gone_for_s:.0f} s"
    parts = [seat.device.name, "free"]
    if seat.held_by is not None:
        parts[1] = f"held by {seat.held_by} for {seat.held_for_s or 0:.0f} s"
    if seat.running is not None:
        parts.append(f"runs {seat.running}")
    if seat.temp_c is not None:
        parts.append(f"{seat.temp_c:.1f} °C")
    fault = f"; {seat.fault}" if seat.fault else ""
    return f"{seat.name}: {', '.join(parts)}{fault}"


def _stop(options: argparse.Namespace) -> None:
    from edgebench.protocol.messages import Done, RunStop

    _request(options, RunStop(), Done)
    print("stopped; partial results are kept for the host")


def _forget(options: argparse.Namespace) -> None:
    from edgebench.protocol.messages import Done, SeatForget

    _request(options, SeatForget(options.seat), Done)
    print(f"forgotten: {options.seat}; its name is free for another device")


def _new_identity(options: argparse.Namespace) -> None:
    from edgebench.agent.daemon import only_one
    from edgebench.agent.files import disk_errors, make_private_directory
    from edgebench.agent.hardware import forget_hardware
    from edgebench.agent.identity import renew_identity
    from edgebench.agent.system import renew_device_id

    raise_when_interrupted()
    state = _state(options)
    config = (options.config or Path(_paths(options).agent_config)).absolute()
    with disk_errors("no new identity", state):
        make_private_directory(state)
        make_private_directory(config)
    with only_one(state), disk_errors("no new identity", state):
        renew_identity(config)
        renew_device_id(state)
        forget_hardware(state)
    print("new identity, not yet paired with a host; start the agent, then: edgebench-agent pair")


def _check_runtime(options: argparse.Namespace) -> ExitCode:
    from edgebench.agent.conformance import failed_checks
    from edgebench.agent.conformance_process import check_runtime
    from edgebench.protocol.plain import to_plain

    if not options.model.is_file():
        raise UsageError(f"no such model file: {options.model}")
    checks = check_runtime(options.name, options.model)
    failed = failed_checks(checks)
    if options.json:
        rows = [to_plain(check) for check in checks]
        document = {"runtime": options.name, "model": str(options.model), "checks": rows}
        print(json.dumps(document, indent=1))
    else:
        for check in checks:
            print(f"{check.outcome.value:<8} {check.name:<14} {check.seen}")
    if not failed:
        return ExitCode.DONE
    echo(f"error: {options.name} fails {len(failed)} of {len(checks)} checks")
    echo_hint(
        "see what each check requires in docs/add-a-runtime.md, change the driver, then: "
        f"edgebench-agent check-runtime {options.name} {options.model}"
    )
    return ExitCode.FAILED


def _parse_listen(text: str) -> tuple[str | None, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"--listen takes [ADDRESS]:PORT, got {text!r}")
    address = host.strip("[]")
    if address:
        try:
            ipaddress.ip_address(address)
        except ValueError as exc:
            raise UsageError(f"--listen takes an IP address, not a host name: {address!r}") from exc
    return address or None, int(port)
