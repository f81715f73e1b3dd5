"""`edgebench bundle`."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path

from edgebench.host.cli.options import add_json, add_store, new_parser
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo

_ABOUT = """\
Write stored runs to a single file for sharing. Commands of edgebench accept the file in place of a
run, for example: edgebench show FILE.zip; edgebench compare last --against FILE.zip#ID

The file contains the complete directories of the runs: results, traces, the meter's bytes, tags,
notes, facts about the device including its name, and the worker's log, which may contain paths with
user names. Any program for .zip files shows the content.
"""


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench bundle`."""
    made = new_parser("bundle", _ABOUT)
    made.formatter_class = argparse.RawDescriptionHelpFormatter
    names = "runs (id, unique part of an id, last, tag, directory, bundle) or sets (id)"
    made.add_argument("runs", nargs="+", metavar="RUN", help=names)
    output = "file to write; must not exist (default: named after the runs, in this directory)"
    made.add_argument("-o", "--output", type=Path, metavar="FILE.zip", help=output)
    bare = "leave out tags and notes"
    made.add_argument("--without-annotations", action="store_true", help=bare)
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Write the bundle; print its path, size and number of runs."""
    from edgebench.host.cli.failed_runs import warn_of_failed
    from edgebench.host.store.address import find_runs
    from edgebench.host.store.bundle import default_name, write_bundle
    from edgebench.host.store.layout import Store
    from edgebench.protocol.sizes import format_bytes
    from edgebench.protocol.text import printable

    store = Store(options.store)
    runs = [address for name in options.runs for address in find_runs(store, name)]
    path = options.output or Path(default_name(runs))
    run_ids = write_bundle(path, runs, is_annotated=not options.without_annotations)
    size_bytes = path.stat().st_size
    warn_of_failed(runs)
    if options.json:
        print(json.dumps({"path": str(path), "size_bytes": size_bytes, "runs": run_ids}, indent=1))
        return ExitCode.DONE
    count = f"{len(run_ids)} run{'' if len(run_ids) == 1 else 's'}"
    print(printable(f"bundled: {count}, {format_bytes(size_bytes)}: {path}"))
    added = "" if options.without_annotations else ", tags and notes"
    echo(
        f"note: the bundle contains all raw files, the worker's log, device names{added}, but "
        "no models"
    )
    echo(f"next: edgebench runs {shlex.quote(str(path))}")
    return ExitCode.DONE
