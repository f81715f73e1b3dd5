"""`edgebench meters`."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from edgebench.host.cli.options import add_json, add_store, new_parser, seconds

if TYPE_CHECKING:
    from pathlib import Path

    from edgebench.host.session import Session

INVALID = 3
SELFTEST_S = 3.0
"""Long enough for the meter's clock to be held against the host's."""


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    made = new_parser("meters", "Energy-meter sessions on their own.")
    actions = made.add_subparsers(dest="action", metavar="ACTION")
    listed = actions.add_parser("list", help="the drivers, and what is there of each (default)")
    add_json(listed)
    for name, text in (
        ("info", "what a meter is and can do"),
        ("selftest", f"record for {SELFTEST_S:g} s and check the recording"),
        ("record", "record, and print the energy"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("meter", metavar="METER", help="as in: ppk2:/dev/ttyACM0,supply=3.3")
        add_json(action)
        if name == "record":
            _add_record(action)
    _add_import(actions.add_parser("import", help="a file as a recording, and print its energy"))
    made.set_defaults(json=False)
    return made


def _add_record(action: argparse.ArgumentParser) -> None:
    action.add_argument(
        "--duration", type=seconds, default=10.0, metavar="TIME", help="how long (default: 10s)"
    )
    _add_output(action)


def _add_import(action: argparse.ArgumentParser) -> None:
    action.description = (
        "Reads a .ppk2 of Nordic's Power Profiler, a .jls of a Joulescope, a log of PTDaemon "
        "or of a PowerShield, Parquet (also power.parquet of another run), or a CSV with a header "
        "line. Columns name their unit: t_s or time_ms, with power_W, or current_mA and "
        "voltage_V, and flags."
    )
    action.add_argument("file", metavar="FILE", help="as in: trace.csv")
    action.add_argument(
        "--supply", type=float, metavar="V", help="voltage, of a file that has only current"
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
    from edgebench.host.show import meters as show
    from edgebench.meters.registry import DRIVERS, find_meter

    found = {}
    for name in DRIVERS:
        meter = find_meter(name)
        found[name] = meter.open()
        meter.close()
    show.print_list(found, as_json=options.json)
    return 0


def _info(options: argparse.Namespace) -> int:
    from edgebench.host.session import open_meter
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
        session = _session(options.meter, Path(folder) / "session", SELFTEST_S)
        show.print_checks(session, as_json=options.json)
        return 0 if session.is_trusted else INVALID


def _record(options: argparse.Namespace) -> int:
    return _print(_session(options.meter, _directory(options), options.duration), options)


def _import(options: argparse.Namespace) -> int:
    from pathlib import Path

    from edgebench.host.imports.session import import_file

    return _print(import_file(Path(options.file), _directory(options), options.supply), options)


def _directory(options: argparse.Namespace) -> Path:
    from pathlib import Path

    from edgebench.host.measure import new_run_id
    from edgebench.host.store.layout import Store

    if options.output:
        return Path(options.output)
    return Store(options.store).root / "sessions" / new_run_id()


def _print(session: Session, options: argparse.Namespace) -> int:
    from edgebench.host.show import meters as show

    show.print_session(session, as_json=options.json)
    return 0 if session.is_trusted else INVALID


def _session(text: str, directory: Path, duration_s: float) -> Session:
    from edgebench.host.session import open_meter, record

    meter, _ = open_meter(text)
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
