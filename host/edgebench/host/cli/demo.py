"""`edgebench demo`."""

from __future__ import annotations

import argparse
import json
import shlex
import tempfile
from contextlib import ExitStack
from pathlib import Path

from edgebench.host.cli.options import add_json, add_store, is_quiet, new_parser
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo

BOARD = "raspberry-pi-5-bare"
MODEL = "digits_fp32.tflite"
SUSTAINED_S = 45.0
"""Duration of the run, seconds of real time. The simulated board heats up 20 times as fast as a
real board, so the run shows 15 minutes of heating. Including its start and the report, the command
takes about a minute."""


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench demo`."""
    about = (
        "Measure how a simulated Raspberry Pi 5 without a cooler throttles, and open the report. "
    )
    about += "The model is real, and so are agent and worker; the heat is simulated. Needs no "
    about += "device, no pairing and no network, takes about a minute, and leaves nothing running."
    made = new_parser("demo", about)
    output = "file of the report (default: edgebench-RUN.html in the current directory)"
    made.add_argument("-o", "--output", type=Path, metavar="FILE", help=output)
    made.add_argument("--no-open", action="store_true", help="do not open the report in a browser")
    add_store(made)
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Measure, write the report and open it; the exit code does not depend on the verdict."""
    from edgebench.host.analysis.run_set import find_sets
    from edgebench.host.bench.cancellation import Interrupted, holding_interrupts
    from edgebench.host.cli.progress import ProgressWatcher
    from edgebench.host.cli.report import open_in_browser
    from edgebench.host.lab import Lab
    from edgebench.host.show.headline import headlines
    from edgebench.host.transports.local import simulated_agent

    with tempfile.TemporaryDirectory(prefix="edgebench-") as folder:
        # The board is the machine of a lab that exists for this command only.
        config, state = Path(folder) / "config", Path(folder) / "agent"
        lab = Lab(options.store, config=config, agent_state=state)
        with ProgressWatcher(is_quiet=is_quiet(options)) as watcher, ExitStack() as stack:
            with holding_interrupts() as is_pressed:  # else Ctrl-C could leave the agent running
                stack.enter_context(simulated_agent(state, BOARD))
            try:
                if is_pressed.is_set():
                    raise Interrupted(None)
                runs = lab.bench(
                    MODEL, sustained_s=SUSTAINED_S, cooldown_timeout_s=0.0, watcher=watcher.notify
                )
            except Interrupted:
                echo("interrupted: nothing was measured")
                return ExitCode.INTERRUPTED
    if watcher.failures:
        raise watcher.failures[0].error
    found = headlines(find_sets([run.result for run in runs]))
    path = lab.report(*(run.id for run in runs), output=options.output)
    if options.json:
        document = {
            "run_id": runs[0].id,
            "headlines": [headline.document for headline in found],
            "file": str(path),
            "size_bytes": path.stat().st_size,
        }
        print(json.dumps(document, indent=1))
    else:
        for headline in found:
            echo(headline.line)
        print(path)
        store = ["--store", str(options.store)] if options.store else []
        echo(f"next: edgebench {shlex.join(['show', runs[0].id, *store])}")
    if not options.no_open:
        open_in_browser(path)
    return ExitCode.DONE
