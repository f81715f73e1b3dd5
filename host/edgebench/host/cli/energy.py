"""`edgebench energy`."""

from __future__ import annotations

import argparse
import json
import shlex

from edgebench.host.cli.options import (
    add_columns,
    add_instrument_errors,
    add_json,
    add_store,
    given_command,
    new_parser,
    stated_columns,
)
from edgebench.host.options.values import capacity, column_or_volts
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.bench.energy import TraceOptions
    from edgebench.host.result.run import Run

_EXAMPLE = """\
The run must have played the load code, and the instrument must have recorded all of it:

  edgebench bench model.tflite --sync coded_load
  edgebench energy last --trace otii.csv --voltage 3.3 --gain 0.1% --samples means

For a file of an unknown format, name the columns:

  edgebench energy last --trace log.csv --time t:s --power P:mW --gain 1%
"""


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench energy`."""
    made = new_parser(
        "energy", "Compute the energy of a stored run from a file recorded by any instrument."
    )
    made.epilog, made.formatter_class = _EXAMPLE, argparse.RawDescriptionHelpFormatter
    names = (
        "run or set (id, unique part of an id, last); give several if the file covers several runs"
    )
    made.add_argument("runs", nargs="+", metavar="RUN", help=names)
    made.add_argument("--trace", required=True, metavar="FILE", help="file of the instrument")
    sync = "how to align the file with the run: by the load code that the run played (default)"
    made.add_argument("--sync", choices=("coded_load",), default="coded_load", help=sync)
    add_store(made)
    add_json(made)
    columns = made.add_argument_group("columns of the file").add_argument
    add_columns(columns)
    voltage = "column of the voltage, or the voltage in volts, such as 3.3"
    columns("--voltage", type=column_or_volts, metavar="COLUMN|V", help=voltage)
    errors = made.add_argument_group("errors of the instrument").add_argument
    add_instrument_errors(errors)
    name = (
        "name of the instrument; energies from two files can be compared only if this name is the "
        "same for both files, because errors of the same instrument cancel"
    )
    errors("--instrument", metavar="NAME", help=name)
    charge = "capacity of a battery, such as 18.5Wh or 5000mAh@3.85V, to estimate its life"
    made.add_argument("--battery", type=capacity, metavar="CAPACITY", help=charge)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Compute and store the energies; exit code 3 if the energy of any run is refused."""
    from pathlib import Path

    from edgebench.host.bench.energy import add_energy
    from edgebench.host.cli.failure import report_failure
    from edgebench.host.show.hints import hint_for
    from edgebench.host.store.address import find_in_store
    from edgebench.host.store.layout import Store
    from edgebench.protocol.errors import EdgebenchError, TraceRefused

    store = Store(options.store)
    stated = _trace_options(options)
    run_ids = find_in_store(store, options.runs)
    runs: list[Run] = []
    refused: EdgebenchError | None = None
    for run_id in run_ids:
        try:
            runs.append(add_energy(store, run_id, Path(options.trace), stated))
        except EdgebenchError as exc:
            if len(run_ids) == 1 and not isinstance(exc, TraceRefused):
                raise
            refused = exc
            if len(run_ids) > 1:
                echo(f"error: run {run_id}: {exc}")
    if refused is not None and not runs:
        as_json = options.json
        hint = hint_for(refused, given_command("energy", options))
        return report_failure(str(refused), hint, ExitCode.INVALID, as_json=as_json)
    _print(runs, options)
    return ExitCode.INVALID if refused is not None else ExitCode.DONE


def _trace_options(options: argparse.Namespace) -> TraceOptions:
    """Properties of the file and its instrument, from the options."""
    from edgebench.host.bench.energy import TraceOptions
    from edgebench.meters.uncertainty import Unit

    zero = (options.offset[0], Unit(options.offset[1])) if options.offset else None
    return TraceOptions(
        columns=stated_columns(options),
        gain_ratio=options.gain,
        offset=zero,
        instrument=options.instrument,
        battery_capacity_j=options.battery,
    )


def _print(runs: list[Run], options: argparse.Namespace) -> None:
    from edgebench.host.result.document import to_document
    from edgebench.host.show.energy import energy_lines

    if options.json:
        print(json.dumps({"runs": [to_document(run) for run in runs]}, indent=1))
        return
    for run in runs:
        print(f"run {run.run_id}: {run.marks.label}")
        for name, text in energy_lines(run.metrics.energy):
            print(f"  {name:<13} {text}")
    store = f" --store {shlex.quote(str(options.store))}" if options.store else ""
    # A single name covers all runs: it names a run or a set.
    name = options.runs[0] if len(options.runs) == 1 else runs[-1].run_id
    echo(f"next: edgebench show {shlex.quote(name)}{store}")
