"""If a coarse clock times a model, how often does the interval of p50 contain the true duration?

Simulated runs of models with known durations, timed by clocks with steps of 18.5 ns to 1 µs, pass
through the whole analysis. Each cell has the number of printed intervals that contain the duration,
and the number of runs that are refused because the step is too large for the model.

    python benchmarks/clocks.py [--trials 100 | --short]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path

from common import parse, report, table

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.coarse_clock import MODELS_NS, STEPS_NS, Interval, median_of

NOISE = 0.003
"""Standard deviation of a model's duration, relative to the duration. With more noise, the timed
durations would spread over more steps of the clock."""


def cell(model_ns: float, step_ns: float, trials: int) -> str:
    """Text of a cell: numbers of intervals that contain the duration, and of refused runs."""
    found = Counter(median_of(model_ns, step_ns, seed, NOISE) for seed in range(trials))
    printed = found[Interval.INSIDE] + found[Interval.OUTSIDE]
    parts = [f"{found[Interval.INSIDE]} of {printed}"] if printed else []
    parts += [
        f"{found[kind]} {kind.value}" for kind in (Interval.REFUSED, Interval.NONE) if found[kind]
    ]
    return ", ".join(parts)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=100)
    options = parse(parser, smoke={"trials": 1}, trials=10)
    began = datetime.now(timezone.utc).isoformat(timespec="seconds")
    header = ("step", *(f"{model_ns / 1000:g} µs" for model_ns in MODELS_NS))
    rows = [
        (
            f"{step_ns:.4g} ns",
            *(cell(model_ns, step_ns, options.trials) for model_ns in MODELS_NS),
        )
        for step_ns in STEPS_NS[: 1 if options.smoke else None]
    ]
    report(
        f"Intervals of p50 on coarse clocks, {options.trials} trials", [table(header, rows)], began
    )


if __name__ == "__main__":
    main()
