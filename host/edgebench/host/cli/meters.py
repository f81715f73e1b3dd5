"""`edgebench meters`."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import textwrap
from typing import TYPE_CHECKING

from edgebench.host.cli.options import add_json, add_store, new_parser, seconds, volts
from edgebench.protocol.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from edgebench.host.power.stored import Session

DONE, INVALID, INTERRUPTED = 0, 3, 130
SELFTEST_S = 3.0
"""Long enough for the meter's clock to be held against the host's, within a thousand ppm."""
RECORD_S = 10.0
_HELP_WIDTH = 78
_PORTS = (
    "PORT is a serial port as /dev/ttyACM0; without one, the only such meter that is connected.",
    "May it not be opened: sudo usermod -aG dialout $USER, and log in again.",
    "Meters of a device's agent are not tested here: edgebench bench MODEL --meter agent:METER",
    "More: docs/meters.md",
)


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("meters", "Energy-meter sessions on their own.")
    made.epilog, made.formatter_class = _meters_help(), argparse.RawDescriptionHelpFormatter
    actions = made.add_subparsers(dest="action", metavar="ACTION")
    listed = actions.add_parser("list", help="the drivers, and what is there of each (default)")
    add_json(listed)
    for name, text in (
        ("info", "what a meter is and can do"),
        ("selftest", "record for a while and check the recording"),
        ("record", "record, and print the energy"),
    ):
        action = actions.add_parser(
            name,
            help=text,
            epilog=_meters_help(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        action.add_argument("meter", metavar="METER", help="as in: ppk2:/dev/ttyACM0,supply=3.3")
        add_json(action)
        if name == "selftest":
            _add_duration(action, SELFTEST_S)
        if name == "record":
            _add_duration(action, RECORD_S)
            _add_output(action)
    _add_import(actions.add_parser("import", help="a file as a recording, and print its energy"))
    made.set_defaults(json=False)
    return made


def _meters_help() -> str:
    """The address and the options of each meter, from the registry."""
    from edgebench.meters.registry import DRIVERS

    rows = [
        line
        for name, driver in DRIVERS.items()
        for line in (*_usage_lines(f"{name}{driver.usage}"), f"      {driver.summary}")
    ]
    return "\n".join(["METER, with what may be left out in brackets:", *rows, "", *_PORTS])


def _usage_lines(usage: str) -> list[str]:
    """Broken between two options, and nowhere else."""
    lines = textwrap.wrap(
        usage.replace("[,", " [,"),
        _HELP_WIDTH,
        initial_indent="  ",
        subsequent_indent="      ",
        break_on_hyphens=False,
    )
    return [re.sub(r"(?<=\S) \[,", "[,", line) for line in lines]


def _add_duration(action: argparse.ArgumentParser, default_s: float) -> None:
    action.add_argument(
        "--duration",
        type=seconds,
        default=default_s,
        metavar="TIME",
        help=f"how long (default: {default_s:g}s)",
    )


def _add_import(action: argparse.ArgumentParser) -> None:
    action.description = (
        "Reads a .ppk2 of Nordic's Power Profiler, a .jls of a Joulescope, a log of PTDaemon "
        "or of a PowerShield, Parquet (also power.parquet of another run), or a CSV with a header "
        "line. Columns name their unit: t_s or time_ms, with power_W, or current_mA and "
        "voltage_V, and flags."
    )
    action.add_argument("file", metavar="FILE", help="as in: trace.csv")
    action.add_argument(
        "--supply", type=volts, metavar="V", help="voltage, of a file that has only current"
    )
    add_json(action)
    _add_output(action)


def _add_output(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--output", metavar="DIR", help="where to (default: a new directory in the store)"
    )
    add_store(action)


def run(options: argparse.Namespace) -> int:
    """Do it; exit code 3 when a recording cannot be trusted."""
    if options.action == "info":
        return _info(options)
    if options.action == "selftest":
        return _selftest(options)
    if options.action == "record":
        return _record(options)
    if options.action == "import":
        return _import(options)
    return _list(options)


def _list(options: argparse.Namespace) -> int:
    from edgebench.host.power.session import look_at_meters
    from edgebench.host.show import meters as show

    show.print_list(look_at_meters(), as_json=options.json)
    return 0


def _info(options: argparse.Namespace) -> int:
    from edgebench.host.power.session import open_meter
    from edgebench.host.show import meters as show

    meter, header = open_meter(options.meter)
    meter.close()
    show.print_info(header, as_json=options.json)
    return 0


def _selftest(options: argparse.Namespace) -> int:
    import tempfile
    from pathlib import Path

    from edgebench.host.show import meters as show

    with tempfile.TemporaryDirectory(prefix="edgebench-selftest-") as folder:
        session = _session(options, Path(folder) / "session")
        show.print_checks(session, as_json=options.json)
    if session.interrupted_s is not None:
        return _interrupted(session, options, "nothing kept")
    if session.is_trusted is False:
        return INVALID
    print(f"next: edgebench meters record {shlex.quote(options.meter)}", file=sys.stderr)
    return DONE


def _record(options: argparse.Namespace) -> int:
    session = _session(options, _directory(options))
    code = _print(session, options)
    if session.interrupted_s is not None:
        return _interrupted(session, options, f"kept in {session.directory}")
    if code == DONE:
        print(f"next: edgebench bench MODEL --meter {shlex.quote(options.meter)}", file=sys.stderr)
    return code


def _interrupted(session: Session, options: argparse.Namespace, kept: str) -> int:
    passed = f"{session.interrupted_s:.1f} s of {options.duration:g} s"
    print(f"interrupted after {passed}; {kept}", file=sys.stderr)
    return INTERRUPTED


def _import(options: argparse.Namespace) -> int:
    from pathlib import Path

    from edgebench.host.power.imports.importer import import_file

    return _print(import_file(Path(options.file), _directory(options), options.supply), options)


def _directory(options: argparse.Namespace) -> Path:
    from pathlib import Path

    from edgebench.host.bench.run import new_run_id
    from edgebench.host.power.stored import SESSIONS
    from edgebench.host.store.layout import Store

    if options.output:
        return Path(options.output)
    return Store(options.store).root / SESSIONS / new_run_id()


def _print(session: Session, options: argparse.Namespace) -> int:
    from edgebench.host.show import meters as show

    show.print_session(session, as_json=options.json)
    names = ", ".join(sorted(path.name for path in session.directory.iterdir()))
    print(f"session: {session.directory} ({names})", file=sys.stderr)
    return INVALID if session.is_trusted is False else DONE


def _session(options: argparse.Namespace, directory: Path) -> Session:
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
