"""Kills and cuts at drawn moments, until every run is accounted for or one is not: run by hand.

    python tests/system/chaos.py [--runs 100] [--seed 1] [--only N] [--minutes M]

A run of this script is that many rounds, each with three faults, which a pure function draws from
the seed and the round's number: SIGKILL of the host's command, of the agent (which is started
again), of the worker or of the sampler; a connection that is reset; a link that is silent for up to
six seconds. Half of the rounds have a meter: a synthetic one, or an emulated PPK2. A round takes
about twenty seconds on two cores.

Prints a line for each round, and at the end the fate of the runs for each kind of victim. A
violation is printed with its seed and its moments, and the script ends with 1. The moments are
those of the plan; what the machine does between them differs between runs of the script.

tests/loopback/test_chaos.py is the short form; tests/support/chaos.py describes what is checked.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.chaos import Outcome, Report, Victim, bed, draw, tally

SHARED_MEMORY = Path("/dev/shm")


def main() -> int:
    """Play the rounds; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="Kills and cuts at drawn moments.")
    parser.add_argument("--runs", type=int, default=100, metavar="N", help="number of rounds")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, metavar="N", help="play this round alone")
    parser.add_argument("--minutes", type=float, help="begin no round after this time")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the agent is ended, too
    numbers = range(options.runs) if options.only is None else [options.only]
    limit_s = time.monotonic() + 60 * (options.minutes or 1e9)
    shared = set(os.listdir(SHARED_MEMORY))
    reports: list[Report] = []
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="chaos") as folder, bed(Path(folder)) as made:
        for number in numbers:
            if time.monotonic() > limit_s:
                break
            report = made.play(draw(options.seed, number))
            reports.append(report)
            show(report, options.seed)
    # Another program's, if one was started meanwhile: checked before it is trusted.
    left = sorted(set(os.listdir(SHARED_MEMORY)) - shared)
    print(f"new in {SHARED_MEMORY}: {', '.join(left) or 'nothing'}")
    summarise(reports)
    return 1 if left or any(report.violations for report in reports) else 0


def show(report: Report, seed: int) -> None:
    """Print one round."""
    outcomes = ", ".join(outcome.value for _, outcome in report.outcomes)
    print(f"{report.plan}: {outcomes}; {report.run_count} runs", flush=True)
    for violation in report.violations:
        print(f"VIOLATION (seed {seed}, {report.plan}): {violation}", flush=True)


def summarise(reports: Sequence[Report]) -> None:
    """Print the table of victims and outcomes, and the sums."""
    counts = tally(reports)
    print(f"{'':12}" + "".join(f"{outcome.value:>15}" for outcome in Outcome))
    for victim in Victim:
        row = "".join(f"{counts[victim, outcome]:>15}" for outcome in Outcome)
        print(f"{victim.value:12}{row}")
    hits = sum(count for (_, outcome), count in counts.items() if outcome is not Outcome.MISSED)
    runs = sum(report.run_count for report in reports)
    violations = sum(len(report.violations) for report in reports)
    metered = sum(report.plan.meter is not None for report in reports)
    print(
        f"{len(reports)} rounds, {metered} with a meter; {hits} kills and cuts, {runs} runs "
        f"accounted for, {violations} violations"
    )


if __name__ == "__main__":
    sys.exit(main())
