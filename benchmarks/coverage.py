"""How often do the printed intervals of p50, p90 and p99 hold the true value?

Series of latencies whose percentiles are known: independent, autoregressive, heavy-tailed, and
alternating between two levels. For each kind and length: the share of intervals that hold the true
percentile, and in brackets the share of runs that have an interval at all. Nominal is 95 %.

    python benchmarks/coverage.py [--trials 2000 | --short]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone

import numpy as np
from common import parse, report, table
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.signal import lfilter
from scipy.stats import norm

from edgebench.host.analysis.latency.summary import summarize

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
    """Normal values, each with this correlation to the one before."""

    def draw(random: np.random.Generator, count: int) -> Floats:
        noise = random.standard_normal(count) * (1 - phi**2) ** 0.5
        noise[0] /= (1 - phi**2) ** 0.5
        series: Floats = 0.1 * lfilter([1.0], [1.0, -phi], noise)
        return series

    return Process(f"AR {phi:g}", draw, lambda p: 0.1 * float(norm.ppf(p)))


def levels(share: float, dwell: int) -> Process:
    """Two levels, one twice the other; the rarer one lasts `dwell` queries on average."""
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


def cells(process: Process, count: int, trials: int) -> list[str]:
    """Coverage, and in brackets how many have an interval, for each percentile."""
    random = np.random.default_rng([count, *process.name.encode()])
    truth = {name: 1e6 * np.exp(process.quantile(p)) for name, p in PERCENTILES.items()}
    held, printed = dict.fromkeys(PERCENTILES, 0), dict.fromkeys(PERCENTILES, 0)
    for _ in range(trials):
        found = summarize((1e6 * np.exp(process.draw(random, count))).astype(np.int64))
        for name, value in truth.items():
            interval = getattr(found, f"{name}_ci95")
            if interval is not None:
                printed[name] += 1
                # The latencies are cut to whole nanoseconds.
                held[name] += interval[0] - 1 <= value <= interval[1] + 1
    return [
        f"{held[name] / printed[name]:.1%} ({printed[name] / trials:.0%})" if printed[name] else "–"
        for name in PERCENTILES
    ]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=2000)
    options = parse(parser, trials=50)
    began = datetime.now(timezone.utc).isoformat(timespec="seconds")
    rows = [
        (process.name, str(count), *cells(process, count, options.trials))
        for process in PROCESSES
        for count in COUNTS
    ]
    lines = [table(("series", "queries", *PERCENTILES), rows)]
    report(f"Coverage of 95 % intervals, {options.trials} trials", lines, began)


if __name__ == "__main__":
    main()
