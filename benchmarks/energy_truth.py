"""Printed energies per inference, compared with true energies, with and without a sync line.

    python benchmarks/energy_truth.py [--trials 100] [--first-seed 1] [--short]

A trial is a run of a real model on an agent of this machine, metered by an emulated PPK2. Each
trial has its own seed. The current of the emulated unit follows the CPU activity of the model's
process; the clock of the unit is 37 ppm fast and 1.8 s late. The recording is aligned with the run
once by the load code, and once by the sync line. For each method, two claims have to hold in 95 of
100 trials: the value is within 1 % of the true energy, and the printed interval contains the true
energy. The printed interval allows for a gain error of 10 %, which the emulated unit does not have.
So the interval without gain error, and the printed error of the clocks, are compared with the truth
too.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from common import machine, parse, report, spread, table

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.energy_trial import Found, bench

from edgebench.host.result.energy import SyncMethod

METHODS = (SyncMethod.CODED_LOAD, SyncMethod.EDGE)
NEAR_RATIO, BAR_RATIO = 0.01, 0.95


def main() -> None:
    """Run the trials, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--first-seed", type=int, default=1)
    options = parse(parser, smoke={"trials": 1}, trials=5)
    began = machine()
    methods = METHODS[:1] if options.smoke else METHODS
    found: dict[str, list[Found]] = {method.value: [] for method in methods}
    with tempfile.TemporaryDirectory() as folder, bench(Path(folder)) as made:
        for seed in range(options.first_seed, options.first_seed + options.trials):
            for one in made.trial(seed, methods):
                found[one.method].append(one)
                print(line_of(seed, one), file=sys.stderr, flush=True)
    rows = [row_of(name, trials) for name, trials in found.items()]
    heads = (
        *("method", "within 1 %", "in interval", "in interval without gain", "clocks within error"),
        *("refused", "error of the energy, 1e-3", "printed clock error, ms", "clock error, ms"),
    )
    report("Energy per inference against the truth", [table(heads, rows)], began)


def line_of(seed: int, found: Found) -> str:
    """Line of text about a trial, for the progress on stderr."""
    result = found.refused or f"{found.ratio - 1:+.5f}"
    return f"seed {seed}: {found.method}: {result}"


def row_of(method: str, trials: Sequence[Found]) -> list[str]:
    """Row of the table for a method; spreads are over the trials that were not refused."""
    numbers = [trial for trial in trials if trial.value_j is not None]
    near = sum(abs(trial.ratio - 1) <= NEAR_RATIO for trial in numbers)
    inside = sum(trial.is_inside for trial in numbers)
    return [
        method,
        *(bounded(count, len(trials)) for count in (near, inside)),
        f"{sum(trial.is_inside_comparative for trial in numbers)} of {len(trials)}",
        f"{sum(abs(trial.off_ns or 0) <= (trial.error_ns or 0) for trial in numbers)}",
        str(len(trials) - len(numbers)),
        _cell([trial.ratio - 1 for trial in numbers], 3, 1e3),
        _cell([trial.error_ns or 0.0 for trial in numbers], 2, 1e-6),
        _cell([trial.off_ns or 0.0 for trial in numbers], 2, 1e-6),
    ]


def _cell(values: Sequence[float], digits: int, scale: float) -> str:
    return spread(values).text(digits, scale) if values else "all refused"


def bounded(count: int, trial_count: int) -> str:
    """Text with the number of trials that fulfil a claim, and the required number."""
    needed = BAR_RATIO * trial_count
    verdict = "met" if count >= needed else "missed"
    return f"{count} of {trial_count} (bar {needed:.0f}: {verdict})"


if __name__ == "__main__":
    main()
