"""Joules an inference against the truth, in seeded trials: by a wire, and without one.

Each trial is a run of a real model on an agent of this machine, metered by a PPK2 that is made up
down to its bytes, whose current follows what the model's process really does, and whose clock is
37 ppm fast and 1.8 s late. The same recording is laid over the run in both ways. There are two
bars for each: the value is within 1 % of the truth, and the truth is within the printed interval,
in 95 of 100 trials. The printed interval has the unit's gain of 10 %, which this unit is not off
by: the interval without it, and the error that is printed for the clocks, are held against the
truth too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from common import machine, report, spread, table

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.energy_trial import Found, bench

from edgebench.host.analysis.energy.sync.alignment import SyncMethod

METHODS = (SyncMethod.CODED_LOAD, SyncMethod.EDGE)
NEAR_RATIO, BAR_RATIO = 0.01, 0.95


def main() -> None:
    """Run it and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=1)
    options = parser.parse_args()
    began = machine()
    found: dict[str, list[Found]] = {method.value: [] for method in METHODS}
    with tempfile.TemporaryDirectory() as folder, bench(Path(folder)) as made:
        for seed in range(options.first_seed, options.first_seed + options.trials):
            for one in made.trial(seed, METHODS):
                found[one.method].append(one)
                print(line_of(seed, one), file=sys.stderr, flush=True)
    rows = [row_of(name, trials) for name, trials in found.items()]
    heads = (
        *("method", "within 1 %", "in interval", "in that without gain", "clocks within error"),
        *("refused", "off (1e-3)", "clocks' error (ms)", "clocks off (ms)"),
    )
    report("Joules an inference against the truth", [table(heads, rows)], began)


def line_of(seed: int, found: Found) -> str:
    """One trial, for who waits."""
    result = found.refused or f"{found.ratio - 1:+.5f}"
    return f"seed {seed}: {found.method}: {result}"


def row_of(method: str, trials: Sequence[Found]) -> list[str]:
    """Of all trials of a method; quartiles and extremes of what was not refused."""
    numbers = [trial for trial in trials if trial.value_j is not None]
    near = sum(abs(trial.ratio - 1) <= NEAR_RATIO for trial in numbers)
    inside = sum(trial.is_inside for trial in numbers)
    needed = BAR_RATIO * len(trials)
    return [
        method,
        f"{near} of {len(trials)} (bar {needed:.0f})",
        f"{inside} of {len(trials)} (bar {needed:.0f})",
        f"{sum(trial.is_inside_comparative for trial in numbers)} of {len(trials)}",
        f"{sum(abs(trial.off_ns or 0) <= (trial.error_ns or 0) for trial in numbers)}",
        str(len(trials) - len(numbers)),
        spread([trial.ratio - 1 for trial in numbers]).text(3, 1e3),
        spread([trial.error_ns or 0.0 for trial in numbers]).text(2, 1e-6),
        spread([trial.off_ns or 0.0 for trial in numbers]).text(2, 1e-6),
    ]


if __name__ == "__main__":
    main()
