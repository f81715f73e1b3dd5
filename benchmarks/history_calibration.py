"""False alarms of `edgebench history`, and its power to detect a step of 5 %.

    python benchmarks/history_calibration.py [--histories 1000] [--seed 0] [--short]

A point of a history is the logarithm of the value of a metric for the runs of one command. Points
scatter around their level with a standard deviation of 1 %, independently except in the last case:

    normal       the distribution of medians of several runs
    heavy tails  Student's t with 3 degrees of freedom
    outliers     a point in twenty is slower by 30 %
    one-sided    exponential, as if the device had a fastest possible time
    correlated   normal, with a correlation of 0.3 to the previous point; the promised rate of
                 false alarms does not apply to such points, and the table shows the actual rate

A false alarm is a history in which a change is found although it contains none. A step counts as
found if a change is found at most one point away from it. The table has the share of histories in
which the steps are found, and the share of histories in which any other change is found.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from common import machine, parse, report, seconds_of, table
from numpy.typing import NDArray

from edgebench.host.analysis.history.levels import FALSE_ALARM_RATE, find_level_starts

Floats = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int], Floats]

SPREAD, STEP = 0.01, np.log(1.05)
ALARM_COUNTS = (5, 7, 8, 10, 20, 50, 200)
STEP_COUNTS = (6, 8, 10, 12, 20, 50, 200)
PASSING = 10
"""Number of points for which a temporary level lasts."""
FOUND_BAR = 0.95


def correlated(draw: np.random.Generator, count: int) -> Floats:
    values = draw.standard_normal(count)
    for number in range(1, count):
        values[number] = 0.3 * values[number - 1] + np.sqrt(1 - 0.3**2) * values[number]
    return SPREAD * values


NOISES: dict[str, Noise] = {
    "normal": lambda draw, count: SPREAD * draw.standard_normal(count),
    "heavy tails": lambda draw, count: SPREAD / np.sqrt(3) * draw.standard_t(3, count),
    "outliers": lambda draw, count: (
        SPREAD * draw.standard_normal(count) + np.log(1.3) * (draw.random(count) < 0.05)
    ),
    "one-sided": lambda draw, count: SPREAD * draw.exponential(1, count),
    "correlated": correlated,
}


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parse(parser, smoke={"histories": 2}, histories=200)
    began = machine()
    draw = np.random.default_rng(options.seed)
    rows = [
        [name, *(f"{alarms(noise, count, options.histories, draw):.1%}" for count in ALARM_COUNTS)]
        for name, noise in NOISES.items()
    ]
    lines = [
        f"Histories without a change of {options.histories} that are said to have one, by the "
        f"number of points; promised: at most {FALSE_ALARM_RATE:.0%}, but for correlated ones:\n",
        table(["points", *map(str, ALARM_COUNTS)], rows),
        "",
        "Steps of 5 % that are found, and histories with another change beside, by the number of "
        f"points; bar for 200 points: {FOUND_BAR:.0%}:\n",
        table(["step", *map(str, STEP_COUNTS)], step_rows(options.histories, draw)),
        "",
        f"A history of 500 points takes {longest_s(draw):.2f} s.",
    ]
    report("Calibration of histories", lines, began)


def alarms(noise: Noise, count: int, histories: int, draw: np.random.Generator) -> float:
    """Share of histories in which a change is found although they contain none."""
    found = [find_level_starts(noise(draw, count), seed=seed) for seed in range(histories)]
    return sum(map(bool, found)) / histories


def step_rows(histories: int, draw: np.random.Generator) -> list[list[str]]:
    """Rows of a table: how often steps at several places are found."""
    places: dict[str, Callable[[int], list[int]]] = {
        "in the middle": lambda count: [count // 2],
        "before the last 5": lambda count: [count - 5],
        "before the last 3": lambda count: [count - 3],
        "before the last 2": lambda count: [count - 2],
        f"for {PASSING} points in the midst": lambda count: [count // 2, count // 2 + PASSING],
    }
    rows = []
    for name, place in places.items():
        cells = []
        for count in STEP_COUNTS:
            steps = place(count)
            if min(steps) < 2 or count - max(steps) < 2:
                cells.append("")
                continue
            found, others = found_steps(steps, count, histories, draw)
            cells.append(f"{found:.0%}, {others:.0%}")
        rows.append([name, *cells])
    return rows


def found_steps(
    steps: list[int], count: int, histories: int, draw: np.random.Generator
) -> tuple[float, float]:
    """Share of histories in which every step is found, and share with any other change."""
    found = others = 0
    for seed in range(histories):
        values = NOISES["normal"](draw, count)
        for number, step in enumerate(steps):
            values[step:] += STEP if number % 2 == 0 else -STEP
        starts = find_level_starts(values, seed=seed)
        near = [step for step in steps if any(abs(start - step) <= 1 for start in starts)]
        found += near == steps
        others += len(starts) > len(near)
    return found / histories, others / histories


def longest_s(draw: np.random.Generator) -> float:
    """Time to analyse a history of 500 points with a step and a temporary level, seconds."""
    values = NOISES["normal"](draw, 500)
    values[100:] += STEP
    values[300:320] += STEP
    return seconds_of(lambda: find_level_starts(values))


if __name__ == "__main__":
    main()
