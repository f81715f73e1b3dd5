"""A campaign over a farm of 12 devices, during which everything fails: by hand, as root.

    python tests/system/farm_chaos.py [--runs 200] [--kills 30] [--seed 3] [--seats 3,3,2,2,2]
                                      [--labs 2] [--keep DIR]

Agents, labs and the host are in network namespaces of their own, with simulated boards, synthetic
meters and emulated ones; without labs, the host measures itself. The faults are drawn from the
seed: SIGKILL of the host, of labs, of Dask's scheduler, of agents, of workers and of the process
that analyses; links that are cut for 1 to 30 s; disks that are full for up to 15 s; meters that are
unplugged. It takes about five minutes on two idle cores.

Prints each fault, and at the end the fate of the runs, and how often workers were started. A
violation is printed, and the script ends with 1. tests/support/farm_chaos.py describes what is
checked; tests/system/test_farm_chaos.py is the short form.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.farm import farm
from support.farm_chaos import FarmChaos, Report, draw


def main() -> int:
    """Play the campaign; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="A campaign over a farm on which all fails.")
    parser.add_argument("--runs", type=int, default=200, metavar="N", help="planned runs")
    parser.add_argument("--kills", type=int, default=30, metavar="N", help="faults")
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--seats", default="3,3,2,2,2", metavar="N,…", help="devices of each agent")
    parser.add_argument("--labs", type=int, default=2, metavar="N", help="labs, 0: none")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep what was said there")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the processes are ended, too
    seats = [int(count) for count in options.seats.split(",")]
    with (
        tempfile.TemporaryDirectory(prefix="farm") as folder,
        farm(Path(folder), seats, options.labs) as made,
    ):
        print(
            f"seed {options.seed}: {len(made.devices)} devices, "
            f"{len(seats)} agents, {options.labs} labs"
        )
        say = partial(print, flush=True)
        faults = draw(options.seed, options.kills, has_labs=options.labs > 0)
        report = FarmChaos(made, options.runs, faults, say=say).play()
        if options.keep:
            keep(made.folder, options.keep)
    show(report)
    return 1 if report.violations else 0


def keep(folder: Path, target: Path) -> None:
    """Copy the logs and journals."""
    import shutil

    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for pattern in ("*/stderr.txt", "starts/starts.jsonl", "host/data/edgebench/campaigns/*/*"):
        for path in folder.glob(pattern):
            shutil.copy(path, target / "-".join(path.relative_to(folder).parts))


def show(report: Report) -> None:
    """Print the result."""
    ends = ", ".join(f"{count} {end}" for end, count in sorted(report.states.items()))
    others = ", ".join(f"{count} {end}" for end, count in sorted(report.attempts.items()))
    for violation in report.violations:
        print(f"VIOLATION: {violation}")
    print(f"{report.run_count} planned runs: {ends}")
    print(f"attempts beside them: {others or 'none'}")
    hit = sum(len(one.devices) for one in report.hits)
    print(
        f"{report.start_count} starts for {report.run_count} runs and {len(report.hits)} faults, "
        f"which hit {hit} devices; the campaign was resumed {report.restarts} times"
    )
    print(f"{report.duration_s:.0f} s, {len(report.violations)} violations")


if __name__ == "__main__":
    sys.exit(main())
