"""False alarms of the comparison, and its power to detect a change of 3 %.

    python benchmarks/ab_calibration.py [--gates 200] [--real-pairs 100] [--pool FILE] [--short]
    python benchmarks/ab_calibration.py --occasions [--gates 400]

A gate compares ten runs of a baseline with ten runs of a candidate, at alpha 5 %. A gate has an
alarm if its outcome is better or worse; this is determined without a margin, so that the test
itself is calibrated. A gate detects a change if its outcome is worse with the default margin. Four
designs are compared:

    pairs         both sides run once per pair, in random order; signed ranks
    random order  the twenty runs in random order; rank sums
    alternating   baseline, candidate, baseline, candidate…; rank sums
    blocks        ten runs of the baseline, then ten of the candidate; rank sums

Synthetic campaigns have 1 % of noise between runs. With drift, the device slows down by 3 % from
the first run to the last, as it heats up. Without a difference between the sides (A/A), 4 to 16 of
200 gates may have an alarm: the binomial 95 % range around 5 %.

With `--real-pairs`, short runs of a built-in model are made through `Lab.bench`, two per pair, each
in its own process. Both sides are the same model, so any of the runs can be used as the
candidate's. In the first row of the table of real runs, each gate compares the next ten pairs in
the order of measurement, and each run is used once. In the other rows, a gate compares ten
contiguous pairs from a random place in the pool of all runs, and the design determines which of
these runs are the candidate's. The other rows show the designs under the drift and the outliers of
a real machine; for the design `pairs`, the random order within each pair ensures the rate of alarms
that the test promises. A change of 3 % is planted by scaling the candidate's medians. `--pool`
stores the medians, and reuses them in the next call.

With `--occasions`, sets of eight runs are simulated on machines whose state lasts longer than a set
(tests/support/occasion_simulation.py). The sets are compared in blocks: a change is also tested
against the spread between earlier occasions. The sides are measured hours apart, or in direct
succession. A false alarm is the outcome "worse" for a candidate that equals the baseline.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from common import add_patience, machine, parse, report, table, wait_until_quiet
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.occasion_simulation import RECORDED, STATES, BlockTrial, State, next_is_within

from edgebench.host.analysis.compare.comparison import ComparisonOutcome, Design, Rules, compare
from edgebench.host.analysis.compare.runs import DEFAULT_MARGIN_RATIO
from edgebench.host.lab import Lab
from edgebench.host.result.metrics import METRICS

Floats = NDArray[np.float64]
Gate = tuple[Floats, Floats]
Order = Callable[[np.random.Generator, int], Floats]

PAIRS = 10
"""Number of pairs of runs in a gate (a comparison of baseline and candidate)."""
CHANGE, SMALL_CHANGE = 1.03, 1.01
LARGE_CHANGE = 0.05
"""Planted change of the candidate in the comparisons over several occasions (sets of runs)."""
DRIFT = 0.03
NOISE = 0.01
"""Standard deviation between runs, of the logarithm of the latency."""
ALARMS = (4, 16)
"""Lowest and highest allowed number of alarms in 200 gates (comparisons): the binomial 95 % range
around 5 %."""
FOUND_PERCENT = 90.0
MODEL, RUNTIME, DURATION_S = "digits_fp32.tflite", "litert", 0.2
CHANGED = (ComparisonOutcome.BETTER, ComparisonOutcome.WORSE)


@dataclass(frozen=True, slots=True)
class GateDesign:
    """Order in which the sides run, and the test that compares them."""

    name: str
    order: Order
    """Function that draws the order of the runs in time: 1 is the candidate, 0 is the baseline;
    shape (2 · pairs,)."""
    test: Design

    def gate(self, runs: Floats, draw: np.random.Generator, change: float = 1.0) -> Gate:
        """Split runs, which are in order of time, into two sides; `change` scales the candidate."""
        is_candidate = self.order(draw, runs.size // 2).astype(bool)
        return runs[~is_candidate], runs[is_candidate] * change


def drawn_pairs(draw: np.random.Generator, pairs: int) -> Floats:
    first = draw.permutation(np.arange(pairs) % 2)  # each side is first in half of them
    return np.column_stack([first, 1 - first]).ravel().astype(float)


DESIGNS = (
    GateDesign("pairs", drawn_pairs, Design.PAIRED),
    GateDesign(
        "random order",
        lambda draw, pairs: draw.permutation(np.repeat([0.0, 1.0], pairs)),
        Design.INDEPENDENT,
    ),
    GateDesign("alternating", lambda _, pairs: np.tile([0.0, 1.0], pairs), Design.INDEPENDENT),
    GateDesign("blocks", lambda _, pairs: np.repeat([0.0, 1.0], pairs), Design.INDEPENDENT),
)


def main() -> None:
    """Simulate, measure if requested, and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--gates", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--real-pairs", type=int, default=0, metavar="N", help="pairs to measure")
    parser.add_argument("--pool", type=Path, metavar="FILE", help="store and reuse their medians")
    parser.add_argument("--occasions", action="store_true", help="only sets on several occasions")
    add_patience(parser)
    options = parse(parser, smoke={"gates": 4}, gates=200, real_pairs=0)
    began = machine()
    draw = np.random.default_rng(options.seed)
    if options.occasions:
        lines = [occasions_table(options.gates, options.seed)]
        report("Calibration of comparisons in blocks", lines, began)
        return
    lines = ["Synthetic runs:\n", synthetic_table(options.gates, draw), ""]
    pool = real_runs(options.real_pairs, options.pool, options.patience)
    if pool.size >= 2 * PAIRS:
        lines += [f"{pool.size} real runs, {MODEL} on {RUNTIME}, {DURATION_S} s each:\n"]
        lines += [real_table(pool, options.gates, draw)]
    report("Calibration of the comparison", lines, began)


def synthetic_table(gates: int, draw: np.random.Generator) -> str:
    """Alarms and detections of every design on simulated campaigns."""
    rows = []
    for design in DESIGNS:
        still = count([design.gate(campaign(draw, 0.0), draw) for _ in range(gates)], design)
        drifting = count([design.gate(campaign(draw, DRIFT), draw) for _ in range(gates)], design)
        cells = alarm_cells(still, drifting, gates)
        for change in (CHANGE, SMALL_CHANGE):
            changed = [design.gate(campaign(draw, DRIFT), draw, change) for _ in range(gates)]
            cells.append(found_cell(changed, design, change))
        rows.append([design.name, *cells])
    return table(
        [
            "design",
            f"A/A alarms of {gates}",
            f"… under +{DRIFT:.0%} drift",
            *(f"+{change - 1:.0%} detected, under drift" for change in (CHANGE, SMALL_CHANGE)),
        ],
        rows,
    )


def campaign(draw: np.random.Generator, drift: float) -> Floats:
    """Medians of runs of one model, nanoseconds, in order of time, shape (2 · PAIRS,)."""
    slower = 1 + drift * np.linspace(0, 1, 2 * PAIRS)
    runs: Floats = 1e5 * slower * np.exp(NOISE * draw.standard_normal(2 * PAIRS))
    return runs


def occasions_table(gates: int, seed: int) -> str:
    """Shares of false alarms, detections, and next sets in the predicted range; a row per state."""
    runs_only = BlockTrial(occasions=1, is_within_occasion=True, knows_occasions=False)
    recorded = BlockTrial(occasions=5, compared=5, is_recorded=True)
    trials = {
        "worse by the runs alone, at once": runs_only,
        "hours apart": replace(runs_only, occasions=2, is_within_occasion=False),
        "worse after 3 occasions, hours apart": BlockTrial(occasions=3),
        "after 5": BlockTrial(occasions=5),
        "after 5, at once": BlockTrial(occasions=5, is_within_occasion=True),
        f"+{LARGE_CHANGE:.0%} found, 1 and 1 of 5": BlockTrial(occasions=5, change=LARGE_CHANGE),
        "5 and 5": BlockTrial(occasions=5, compared=5, change=LARGE_CHANGE),
        "5 and 5, neighbour recorded": replace(recorded, change=LARGE_CHANGE),
        "worse, 5 and 5, neighbour recorded": recorded,
    }

    def share(trial: BlockTrial, name: str, state: State) -> str:
        if trial.is_recorded and name not in RECORDED:
            return "–"
        draw = np.random.default_rng(seed)
        worse = [trial.outcome(state, draw) is ComparisonOutcome.WORSE for _ in range(gates)]
        return f"{sum(worse) / gates:.1%}"

    rows = []
    for name, state in STATES.items():
        draw = np.random.default_rng(seed)
        within = [sum(next_is_within(state, draw, k) for _ in range(10 * gates)) for k in (3, 5)]
        cells = [share(trial, name, state) for trial in trials.values()]
        rows.append([name, *cells, *(f"{count / 10 / gates:.1%}" for count in within)])
    return table(["state", *trials, "next set within, after 3", "after 5"], rows)


def real_table(pool: Floats, gates: int, draw: np.random.Generator) -> str:
    """Alarms and detections of every design on recorded runs."""
    design = DESIGNS[0]
    once = [design.gate(runs, draw) for runs in split(pool)]
    rows = [["pairs, each run used once", f"{count(once, design)} of {len(once)}", ""]]
    for design in DESIGNS:
        same = [design.gate(window(pool, draw), draw) for _ in range(gates)]
        changed = [design.gate(window(pool, draw), draw, CHANGE) for _ in range(gates)]
        alarms = f"{count(same, design)} of {gates}"
        rows.append(
            [f"{design.name}, drawn from the pool", alarms, found_cell(changed, design, CHANGE)]
        )
    neighbours = np.log(pool[1::2] / pool[::2])
    notes = (
        f"\nSpread of the medians {np.std(np.log(pool), ddof=1):.2%}, "
        f"of the ratio within a pair {np.std(neighbours, ddof=1):.2%}; "
        f"last tenth over first tenth {tenth(pool, -1) / tenth(pool, 0):.4f}."
    )
    return table(["design", "A/A alarms", f"+{CHANGE - 1:.0%} detected"], rows) + "\n" + notes


def split(pool: Floats) -> Iterable[Floats]:
    """Split runs into groups of ten consecutive pairs; a gate compares the pairs of a group."""
    whole = pool.size // (2 * PAIRS) * 2 * PAIRS
    return list(pool[:whole].reshape(-1, 2 * PAIRS))


def window(pool: Floats, draw: np.random.Generator) -> Floats:
    """Ten contiguous pairs from a random place."""
    start = 2 * int(draw.integers(0, pool.size // 2 - PAIRS + 1))
    return pool[start : start + 2 * PAIRS]


def tenth(pool: Floats, which: int) -> float:
    """The median of a tenth of the pool: the first tenth (0) or the last tenth (-1)."""
    return float(np.median(np.array_split(pool, 10)[which]))


def count(gates: list[Gate], design: GateDesign) -> int:
    """Number of gates in which the outcome is better or worse."""
    rules = Rules(design.test)
    return sum(compare(a, b, rules).outcome in CHANGED for a, b in gates)


def alarm_cells(still: int, drifting: int, gates: int) -> list[str]:
    """Table cells with two counts of alarms; for 200 gates, also whether they are in range."""

    def mark(alarms: int) -> str:
        if gates != 200:
            return str(alarms)
        return f"{alarms} ({'in' if ALARMS[0] <= alarms <= ALARMS[1] else 'out of'} range)"

    return [mark(still), mark(drifting)]


def found_cell(gates: list[Gate], design: GateDesign, change: float) -> str:
    """Share of gates that find the candidate worse; for `CHANGE`, also whether the bar is met."""
    rules = Rules(design.test, margin_ratio=DEFAULT_MARGIN_RATIO)
    found = [compare(a, b, rules).outcome is ComparisonOutcome.WORSE for a, b in gates]
    percent = 100 * sum(found) / len(found)
    if change != CHANGE:
        return f"{percent:.1f} %"
    return f"{percent:.1f} % ({'met' if percent >= FOUND_PERCENT else 'missed'})"


def real_runs(pairs: int, pool: Path | None, patience_s: float) -> Floats:
    """Medians of real runs in order of time: the medians in the pool's file, and new pairs."""
    medians: list[float] = json.loads(pool.read_text()) if pool and pool.exists() else []
    with tempfile.TemporaryDirectory(prefix="edgebench-") as name:
        measure = lab_run(Path(name))
        if pairs:
            measure()  # starts the agent, warms files and caches
        for number in range(pairs):
            wait_until_quiet(patience_s)
            medians += [measure(), measure()]
            if pool:
                pool.write_text(json.dumps(medians))
            print(f"\rpair {number + 1} of {pairs}", end="", file=sys.stderr, flush=True)
    return np.array(medians, np.float64)


def lab_run(folder: Path) -> Callable[[], float]:
    """A function that makes one run of the model and returns its median latency, nanoseconds."""
    lab = Lab(folder / "store")

    def measure() -> float:
        (run,) = lab.bench(
            MODEL, runs=1, runtime=RUNTIME, preset="quick", duration_s=DURATION_S, is_checked=False
        )
        return float(METRICS["latency_ns.p50"].value(run.result) or 0)

    return measure


if __name__ == "__main__":
    main()
