"""`edgebench export`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from edgebench.host.cli.options import add_json, add_store, new_parser
from edgebench.host.export.registry import FORMATS
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.export.registry import ExportFormat


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench export`."""
    made = new_parser("export", "Write stored runs in the format of another tool.")
    made.epilog = (
        "An invalid run is written without numbers, but with the reason. For formats and their "
        "file name suffixes, see docs/export.md."
    )
    ids = "runs (id, unique part of an id, directory, bundle), sets (id) or tags"
    made.add_argument("runs", nargs="+", metavar="RUN", help=ids)
    *others, last = (form.name for form in FORMATS)
    formats = f"{', '.join(others)} or {last} (default: by the suffix of FILE)"
    made.add_argument("--format", metavar="F", help=formats)
    output = "file to write, or directory for mlperf (default: standard output)"
    made.add_argument("-o", "--output", type=Path, metavar="FILE", help=output)
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Export the runs; report the file on stderr, or as JSON on stdout."""
    from edgebench.host.export.exported import find_exported
    from edgebench.host.export.files import export_runs
    from edgebench.host.store.layout import Store

    form = _format(options)
    runs = find_exported(Store(options.store), options.runs)
    if options.output is None:
        form.load()(runs, sys.stdout.buffer)
        return ExitCode.DONE
    export_runs(runs, form, options.output)
    if options.json:
        run_ids = [exported.run.run_id for exported in runs]
        document = {"format": form.name, "file": str(options.output), "run_ids": run_ids}
        print(json.dumps(document, indent=1))
    else:
        count = f"{len(runs)} run{'s' if len(runs) != 1 else ''}"
        echo(f"{count} as {form.name}: {options.output}")
    return ExitCode.DONE


def _format(options: argparse.Namespace) -> ExportFormat:
    """The format of --format, or else the format of the file name's suffix.

    Raises:
        UsageError: the format is missing or unknown, or cannot be written to the chosen file or
            terminal.
    """
    from edgebench.host.export.registry import ExportKind, format_of_file, named_format
    from edgebench.protocol.errors import UsageError

    if options.format is None and options.output is None:
        raise UsageError("no format given: pass --format F, or -o FILE with a known suffix")
    if options.format is None:
        return format_of_file(options.output.name)
    form = named_format(options.format)
    if options.output is not None:
        return form
    if options.json:
        raise UsageError("--json reports the written file, so it needs -o FILE")
    if form.kind is ExportKind.DIRECTORY:
        raise UsageError(f"{form.name} writes a directory, so it needs -o DIRECTORY")
    if form.kind is ExportKind.BYTES and sys.stdout.isatty():
        raise UsageError(f"{form.name} is a binary format, so it needs -o FILE")
    return form
