"""`edgebench meters`."""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import TYPE_CHECKING

from edgebench.host.cli.options import (
    add_columns,
    add_instrument_errors,
    add_json,
    add_store,
    new_parser,
    stated_columns,
)
from edgebench.host.options.values import seconds, volts
from edgebench.protocol.errors import UsageError
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo

if TYPE_CHECKING:
    from pathlib import Path

    from edgebench.host.power.stored import StoredSession
    from edgebench.meters.registry import Driver

SELFTEST_S = 3.0
"""Duration of a self-test, seconds; it is long enough to detect a difference of 1000 ppm between
the clocks of the meter and the host."""
RECORD_S = 10.0
_HELP_WIDTH = 78
_PORTS = (
    "PORT is a serial port such as /dev/ttyACM0; default: the only connected meter of this kind.",
    "If the port cannot be opened: run sudo usermod -aG dialout $USER, and log in again.",
    "Meters of an agent can be used only in runs: edgebench bench MODEL --meter agent:METER",
    "More: docs/meters.md",
)


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench meters`."""
    made = new_parser("meters", "List, check and record energy meters, without a model.")
    made.epilog, made.formatter_class = _meters_help(), argparse.RawDescriptionHelpFormatter
    actions = made.add_subparsers(dest="action", metavar="ACTION")
    listed = actions.add_parser(
        "list", help="list the drivers, and the meter that each driver finds (default)"
    )
    add_json(listed)
    for name, text in (
        ("info", "show a meter's identity and capabilities"),
        ("selftest", "make a short recording and check it"),
        ("record", "record, and print the energy"),
    ):
        action = actions.add_parser(
            name,
            help=text,
            epilog=_meters_help(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        action.add_argument("meter", metavar="METER", help="such as ppk2:/dev/ttyACM0,supply=3.3")
        add_json(action)
        if name == "selftest":
            _add_duration(action, SELFTEST_S)
        if name == "record":
            _add_duration(action, RECORD_S)
            _add_output(action)
    imported = "import a file as a recording, and print its energy"
    action = actions.add_parser("import", help=imported)
    action.description = (
        "Reads a .ppk2 of Nordic's Power Profiler; a .jls of a Joulescope; a .sr of sigrok; a log "
        "of PTDaemon, a PowerShield, tegrastats, perf stat, a Tasmota or a Shelly plug; Parquet "
        "(including power.parquet of another run); or a CSV with a header line, from Monsoon, nRF "
        "Connect, Home Assistant, nvidia-smi, Yokogawa, and others (docs/recordings.md). In "
        "other files, the name of each column must contain its unit: t_s or time_ms for the time, "
        "and power_W, or current_mA and voltage_V. Otherwise, state the columns with --time, "
        "--power, --current and --voltage."
    )
    action.add_argument("file", metavar="FILE", help="such as trace.csv")
    action.add_argument(
        "--supply", type=volts, metavar="V", help="supply voltage, for a file with currents only"
    )
    add_columns(action.add_argument)
    action.add_argument("--voltage", metavar="COLUMN", help="column of the voltage")
    add_instrument_errors(action.add_argument)
    strict = "exit with 3 also if the verdict is suspect"
    action.add_argument("--strict", action="store_true", help=strict)
    add_json(action)
    _add_output(action)
    made.set_defaults(json=False)
    return made


def _meters_help() -> str:
    """Address and options of each meter, from the registry of drivers."""
    from edgebench.meters.registry import DRIVERS

    rows = [
        line
        for name, driver in DRIVERS.items()
        for line in (*_usage_lines(name, driver), f"      {driver.summary}")
    ]
    return "\n".join(["forms of METER; brackets mark optional parts:", *rows, "", *_PORTS])


def _usage_lines(name: str, driver: Driver) -> list[str]:
    """Usage of a meter, wrapped only between its options."""
    address, *options = driver.usage_parts
    lines = [f"  {name}{address}"]
    for option in options:
        if len(lines[-1]) + len(option) <= _HELP_WIDTH:
            lines[-1] += option
        else:
            lines.append(f"      {option}")
    return lines


def _add_duration(action: argparse.ArgumentParser, default_s: float) -> None:
    action.add_argument(
        "--duration",
        type=seconds,
        default=default_s,
        metavar="TIME",
        help=f"length of the recording (default: {default_s:g}s)",
    )


def _add_output(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--output",
        metavar="DIR",
        help="directory of the recording (default: a new directory in the store)",
    )
    add_store(action)


def run(options: argparse.Namespace) -> ExitCode:
    """Run the action; exit code 3 when a recording cannot be trusted."""
    actions = {"info": _info, "selftest": _selftest, "record": _record, "import": _import}
    return actions.get(options.action, _list)(options)


def _list(options: argparse.Namespace) -> ExitCode:
    from edgebench.host.power.session import look_at_meters
    from edgebench.host.show import meters as show

    show.print_list(look_at_meters(), as_json=options.json)
    return ExitCode.DONE


def _info(options: argparse.Namespace) -> ExitCode:
    from edgebench.host.power.session import open_meter
    from edgebench.host.show import meters as show

    meter, header = open_meter(options.meter)
    meter.close()
    show.print_info(header, as_json=options.json)
    return ExitCode.DONE


def _selftest(options: argparse.Namespace) -> ExitCode:
    import tempfile
    from pathlib import Path

    from edgebench.host.show import meters as show

    with tempfile.TemporaryDirectory(prefix="edgebench-selftest-") as folder:
        session = _session(options, Path(folder) / "session")
        show.print_checks(session, as_json=options.json)
    if session.interrupted_s is not None:
        return _interrupted(session, options, "nothing kept")
    if session.is_trusted is False:
        return ExitCode.INVALID
    echo(f"next: edgebench meters record {shlex.quote(options.meter)}")
    return ExitCode.DONE


def _record(options: argparse.Namespace) -> ExitCode:
    session = _session(options, _directory(options))
    code = _print(session, options)
    if session.interrupted_s is not None:
        return _interrupted(session, options, f"kept in {session.directory}")
    if code is ExitCode.DONE:
        echo(f"next: edgebench bench MODEL --meter {shlex.quote(options.meter)}")
    return code


def _import(options: argparse.Namespace) -> ExitCode:
    from pathlib import Path

    from edgebench.host.power.imports.importer import import_file
    from edgebench.host.result.facts import InstrumentErrors
    from edgebench.host.result.verdict import State
    from edgebench.meters.uncertainty import Unit

    value, unit = options.offset or (None, Unit.WATT)
    errors = InstrumentErrors(gain_ratio=options.gain, offset=value, offset_unit=Unit(unit))
    path, directory = Path(options.file), _directory(options)
    session = import_file(path, directory, stated_columns(options), errors)
    code = _print(session, options)
    is_refused = options.strict and session.verdict.state is not State.VALID
    return ExitCode.INVALID if is_refused else code


def _session(options: argparse.Namespace, directory: Path) -> StoredSession:
    from edgebench.host.power.session import open_meter, record

    duration_s = options.duration
    if duration_s <= 0:
        raise UsageError(f"--duration must be > 0 s, got {duration_s:g}")
    meter, _ = open_meter(options.meter)
    is_shown = sys.stderr.isatty()

    def tick(passed_s: float) -> None:
        if is_shown:
            print(f"\rrecording: {passed_s:.1f} of {duration_s:g} s ", end="", file=sys.stderr)

    try:
        return record(meter, directory, duration_s, tick)
    finally:
        meter.close()
        if is_shown:
            print("\r" + " " * 60 + "\r", end="", file=sys.stderr)


def _directory(options: argparse.Namespace) -> Path:
    from pathlib import Path

    from edgebench.host.bench.run import new_run_id
    from edgebench.host.store.layout import Store
    from edgebench.host.store.sessions import SESSIONS

    if options.output:
        return Path(options.output)
    return Store(options.store).root / SESSIONS / new_run_id()


def _print(session: StoredSession, options: argparse.Namespace) -> ExitCode:
    from edgebench.host.show import meters as show

    show.print_session(session, as_json=options.json)
    names = ", ".join(sorted(path.name for path in session.directory.iterdir()))
    echo(f"session: {session.directory} ({names})")
    return ExitCode.INVALID if session.is_trusted is False else ExitCode.DONE


def _interrupted(session: StoredSession, options: argparse.Namespace, kept: str) -> ExitCode:
    passed = f"{session.interrupted_s:.1f} s of {options.duration:g} s"
    echo(f"interrupted after {passed}; {kept}")
    return ExitCode.INTERRUPTED
