"""How often do the printed intervals of p50, p90 and p99 contain the true value?

The first printed table is about quick sets, with the additional runs that replace disturbed runs.
The sets pass through the whole analysis, from latencies to the verdict
(tests/support/simulated_sets.py). The table has the share of valid sets, and the share of intervals
that contain the true median, which is computed from many runs of the same kind. If few sets are
valid, the latter share is uncertain, so its confidence interval is printed.

The second table is about simulated series of latencies with known percentiles: independent,
autoregressive, heavy-tailed, and alternating between two levels. For each kind and length of
series, it has the share of intervals that contain the true percentile and, in brackets, the share
of series that have an interval at all. The nominal share is 95 %.

The third table is about sets of launches (a launch is a run of a set). The launches differ from
each other, or are short compared with the time for which the latency stays on a level. The true
value of a set is the median of many such launches.

    python benchmarks/coverage.py [--trials 2000] [--set-trials 100] [--sets NAME | --short]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np
from common import parse, report, table
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.signal import lfilter
from scipy.stats import binomtest, norm

from edgebench.host.analysis.latency.summary import summarize
from edgebench.host.analysis.median import median_interval
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.verdict import State

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.simulated_sets import KINDS, holds, simulated_set, true_median_ns

Floats = NDArray[np.float64]
COUNTS = (300, 1000, 3000, 10_000)
PERCENTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}
NOISE = 0.03
RATIO = 2.0


@dataclass(frozen=True)
class Process:
    """A kind of series; values are logarithms of latencies."""

    name: str
    draw: Callable[[np.random.Generator, int], Floats]
    quantile: Callable[[float], float]


def autoregressive(phi: float) -> Process:
    """Normal values, each with the correlation `phi` to the previous value."""

    def draw(random: np.random.Generator, count: int) -> Floats:
        noise = random.standard_normal(count) * (1 - phi**2) ** 0.5
        noise[0] /= (1 - phi**2) ** 0.5
        series: Floats = 0.1 * lfilter([1.0], [1.0, -phi], noise)
        return series

    return Process(f"AR {phi:g}", draw, lambda p: 0.1 * float(norm.ppf(p)))


def levels(share: float, dwell: int) -> Process:
    """Two levels; the slow one has twice the latency, and the rarer one lasts `dwell` queries.

    Args:
        share: Share of the queries on the slow level.
        dwell: Mean length of the rarer level, queries.
    """
    stay = {True: dwell, False: dwell * (1 - share) / share}
    if share > 0.5:
        stay = {True: dwell * share / (1 - share), False: dwell}

    def draw(random: np.random.Generator, count: int) -> Floats:
        is_slow, done = np.empty(count, np.bool_), 0
        state = bool(random.random() < share)
        while done < count:
            length = int(random.geometric(1 / stay[state]))
            is_slow[done : done + length] = state
            done, state = done + length, not state
        noise: Floats = NOISE * random.standard_normal(count)
        noise += np.where(is_slow, np.log(RATIO), 0.0)
        return noise

    def quantile(p: float) -> float:
        def below(x: float) -> float:
            slow = norm.cdf((x - np.log(RATIO)) / NOISE)
            return float((1 - share) * norm.cdf(x / NOISE) + share * slow - p)

        return float(brentq(below, -1, 2, xtol=1e-12))

    return Process(f"{share:.0%} slow, stays {dwell}", draw, quantile)


PROCESSES = (
    Process("independent", lambda r, n: 0.1 * r.standard_normal(n), lambda p: 0.1 * norm.ppf(p)),
    Process("tail α 1.5", lambda r, n: r.exponential(size=n) / 1.5, lambda p: -np.log(1 - p) / 1.5),
    autoregressive(0.5),
    autoregressive(0.9),
    autoregressive(0.99),
    levels(0.2, 30),
    levels(0.2, 300),
    levels(0.5, 30),
    levels(0.5, 100),
    levels(0.5, 300),
)


@dataclass(frozen=True)
class Launches:
    """A kind of launches; values are logarithms of their medians."""

    name: str
    draw: Callable[[np.random.Generator, tuple[int, int]], Floats]
    """Function that draws the launches of many sets, shape (sets, runs)."""


def medians_of(process: Process, count: int) -> Launches:
    """Launches of `count` queries each, which differ only because their queries are random."""

    def draw(random: np.random.Generator, size: tuple[int, int]) -> Floats:
        medians = [np.median(process.draw(random, count)) for _ in range(size[0] * size[1])]
        return np.array(medians).reshape(size)

    return Launches(f"{process.name}, {count} queries each", draw)


LAUNCHES = (
    Launches("normal, 3 %", lambda r, size: 0.03 * r.standard_normal(size)),
    Launches("heavy tail", lambda r, size: 0.03 * r.standard_t(2, size)),
    Launches(
        "two layouts, 10 % apart",
        lambda r, size: 0.005 * r.standard_normal(size) + 0.1 * (r.random(size) < 0.3),
    ),
    Launches(
        "1 of 10 beside a neighbour",
        lambda r, size: (
            0.01 * r.standard_normal(size) + (r.random(size) < 0.1) * r.exponential(0.3, size)
        ),
    ),
    medians_of(autoregressive(0.99), 300),
    medians_of(levels(0.2, 300), 1000),
    medians_of(levels(0.5, 300), 1000),
)
RUN_COUNTS = (5, 6, 8, 10, 20, 50)
TRUTH_LAUNCHES = 20_000


def set_cells(launches: Launches, trials: int) -> list[str]:
    """Coverage of the interval of a set, for each number of runs."""
    random = np.random.default_rng([*launches.name.encode()])
    truth = float(np.median(launches.draw(random, (1, TRUTH_LAUNCHES))))
    found = []
    for count in RUN_COUNTS:
        bounds = filter(None, map(median_interval, launches.draw(random, (trials, count))))
        found.append(f"{np.mean([low <= truth <= high for low, high in bounds]):.1%}")
    return found


def cells(process: Process, count: int, trials: int) -> list[str]:
    """For each percentile, the coverage and, in brackets, the share of series with an interval."""
    random = np.random.default_rng([count, *process.name.encode()])
    truth = {name: 1e6 * np.exp(process.quantile(p)) for name, p in PERCENTILES.items()}
    held, printed = dict.fromkeys(PERCENTILES, 0), dict.fromkeys(PERCENTILES, 0)
    for _ in range(trials):
        found = summarize((1e6 * np.exp(process.draw(random, count))).astype(np.int64))
        for name, value in truth.items():
            interval = getattr(found, f"{name}_ci95")
            if interval is not None:
                printed[name] += 1
                # The latencies are truncated to whole nanoseconds.
                held[name] += interval[0] - 1 <= value <= interval[1] + 1
    return [
        f"{held[name] / printed[name]:.1%} ({printed[name] / trials:.0%})" if printed[name] else "–"
        for name in PERCENTILES
    ]


def quick_set_cells(name: str, trials: int) -> list[str]:
    """Cells of the table of quick sets, in the order of its columns, for a kind of sets."""
    truth_ns = true_median_ns(name)
    sets = [simulated_set(name, seed) for seed in range(trials)]
    held = [holds(run_set, truth_ns) for run_set in sets]
    valid = [is_held for is_held, run_set in zip(held, sets, strict=True) if _is_valid(run_set)]
    widths = [run_set.metrics["latency_ns.p50"].half_width_ratio or 0.0 for run_set in sets]
    return [
        f"{len(valid) / trials:.0%}",
        f"{np.mean(held):.0%}",
        _share_of(sum(valid), len(valid)) if valid else "–",
        f"{(len(valid) - sum(valid)) / trials:.1%}",
        f"±{np.median(widths):.1%}",
        f"{sum(len(run_set.replaced_run_ids) for run_set in sets) / trials:.1f}",
    ]


def _share_of(count: int, total: int) -> str:
    """A share with its exact 95 % interval; source: Clopper & Pearson, Biometrika 26 (1934)."""
    bounds = binomtest(count, total).proportion_ci(method="exact")
    return f"{count / total:.0%} ({bounds.low:.0%}..{bounds.high:.0%}) of {total}"


def _is_valid(run_set: RunSet) -> bool:
    return run_set.verdict.state is State.VALID


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--set-trials", type=int, default=100)
    parser.add_argument("--sets", metavar="NAME", help="only quick sets with this in their name")
    options = parse(parser, smoke={"trials": 1, "set_trials": 1}, trials=50, set_trials=4)
    began = datetime.now(timezone.utc).isoformat(timespec="seconds")
    names = [name for name in KINDS if options.sets is None or options.sets in name]
    quick = [
        (name, *quick_set_cells(name, options.set_trials))
        for name in names[: 1 if options.smoke else None]
    ]
    header = (
        "quick sets",
        "valid",
        "holds: all",
        "holds: valid ones",
        "valid, wrong",
        "half-width",
        "replaced",
    )
    quick_title = f"Coverage of quick sets, {options.set_trials} trials"
    report(quick_title, [table(header, quick)], began)
    if options.sets is not None:
        return
    rows = [
        (process.name, str(count), *cells(process, count, options.trials))
        for process in (PROCESSES[:1] if options.smoke else PROCESSES)
        for count in COUNTS
    ]
    sets = [
        (launch.name, *set_cells(launch, options.trials))
        for launch in LAUNCHES[: 1 if options.smoke else None]
    ]
    lines = [
        table(("series", "queries", *PERCENTILES), rows),
        table(("launches", *(f"{count} runs" for count in RUN_COUNTS)), sets),
    ]
    report(f"Coverage of 95 % intervals, {options.trials} trials", lines, began)


if __name__ == "__main__":
    main()
