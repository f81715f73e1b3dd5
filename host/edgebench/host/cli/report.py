"""`edgebench report`."""

from __future__ import annotations

import argparse
import json
from contextlib import suppress
from pathlib import Path

from edgebench.host.cli.options import add_json, add_store, new_parser
from edgebench.host.cli.starting import end_starting
from edgebench.protocol.text import one_line
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench report`."""
    about = "Write runs, or a campaign, as an HTML file that needs no network."
    made = new_parser("report", about)
    names = "run (id, unique part of an id, tag, directory), set (id) or campaign (id, name); "
    names += "several runs are shown side by side, and the first is the baseline"
    made.add_argument("names", nargs="+", metavar="RUN", help=names)
    output = "file to write (default: edgebench-RUN.html in the current directory); an existing "
    output += "report is replaced, any other file is not"
    made.add_argument("-o", "--output", type=Path, metavar="FILE", help=output)
    made.add_argument("--open", action="store_true", help="open the file in the browser")
    anonymous = (
        "leave out names of devices, hosts and users, serial numbers, tags, notes, paths and "
    )
    made.add_argument("--anonymous", action="store_true", help=f"{anonymous}network addresses")
    allow = (
        "compare runs even if they differ in this key, such as device or runtime_version; "
        "repeatable"
    )
    made.add_argument("--allow", action="append", metavar="KEY", help=allow)
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Write the file and print its path; the exit code does not depend on the verdicts."""
    from edgebench.host.cli.failed_runs import warn_of_failed
    from edgebench.host.lab import Lab
    from edgebench.host.store.address import find_runs
    from edgebench.protocol.errors import NoSuchRun

    lab = Lab(options.store)
    path = lab.report(
        *options.names,
        output=options.output,
        allowed=options.allow or (),
        is_anonymous=options.anonymous,
    )
    end_starting()
    with suppress(NoSuchRun):  # the name is a campaign's
        warn_of_failed(address for name in options.names for address in find_runs(lab.store, name))
    if options.json:
        print(json.dumps({"file": str(path), "size_bytes": path.stat().st_size}, indent=1))
    else:
        print(path)
    if options.open:
        open_in_browser(path)
    return ExitCode.DONE


def open_in_browser(path: Path) -> None:
    """Open a report; without a browser, a warning names the file."""
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        echo(f"warning: no browser found to open the report: {one_line(path)}")
