"""How often does the interval of p50 hold the duration of a model on a coarse clock?

Runs of models of known duration, timed by clocks with steps of 1 µs to 18.5 ns, through the whole
analysis. Each cell: how many of the printed intervals hold the duration, and how many runs are
refused because the step is too large for the model.

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
"""Standard deviation of a model's duration. With more, durations show more of the grid."""


def cell(model_ns: float, step_ns: float, trials: int) -> str:
    """Printed intervals that hold the duration, of those printed, and runs that are refused."""
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
