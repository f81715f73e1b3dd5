"""Damage every number of every record at every extreme, and 10,000 traces, over all kinds of runs.

    python tests/system/damaged_runs.py [--traces 10000] [--seed 1] [--share 1.0] [--processes 2]

The short form, of a minute, is tests/loopback/test_damaged_runs.py.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.damage import EXTREMES, KINDS, Place, Tally, Trial, numbers_in, record_of

Job = tuple[str, Sequence[tuple[Place, int]], Sequence[tuple[Place, int]], Sequence[int], bool]
"""Kind of run, numbers of its record and of its document with their extremes, seeds of traces, and
whether these are damaged in the store."""


def main() -> int:
    """Play all jobs; 1 if one ended in a way that is not allowed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0, help="of the numbers, drawn")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kind", action="append", choices=KINDS)
    options = parser.parse_args()
    kinds = options.kind or KINDS
    chance = random.Random(options.seed)
    jobs: list[Job] = []
    for kind in kinds:
        with tempfile.TemporaryDirectory(prefix="edgebench-damage-") as folder:
            document = Trial(kind, Path(folder)).document()
        for is_stored, plain in ((False, record_of(kind)), (True, document)):
            pairs = [
                (place, number) for place in numbers_in(plain) for number in range(len(EXTREMES))
            ]
            chance.shuffle(pairs)
            pairs = pairs[: round(options.share * len(pairs))]
            for i in range(0, len(pairs), 50):
                part = pairs[i : i + 50]
                jobs.append((kind, () if is_stored else part, part if is_stored else (), (), False))
        count = options.traces // len(kinds)
        seeds = range(options.seed * 10**6, options.seed * 10**6 + count)
        # One in four as if stored without the analysis.
        jobs += [(kind, (), (), seeds[i : i + 50], i // 50 % 4 == 3) for i in range(0, count, 50)]
    chance.shuffle(jobs)
    total = Tally()
    with ProcessPoolExecutor(options.processes) as pool:
        for done, tally in enumerate(pool.map(play, jobs), 1):
            total.stored += tally.stored
            total.refused += tally.refused
            total.faults += tally.faults
            total.slowest_s = max(total.slowest_s, tally.slowest_s)
            for fault in tally.faults:
                print(fault, flush=True)
            if done % 20 == 0:
                print(f"{done} of {len(jobs)} jobs: {summary(total)}", flush=True)
    print(summary(total))
    return 1 if total.faults else 0


def play(job: Job) -> Tally:
    """One job, in a process of the pool."""
    kind, of_record, of_document, seeds, is_stored = job
    with tempfile.TemporaryDirectory(prefix="edgebench-damage-") as folder:
        trial = Trial(kind, Path(folder))
        for place, number in of_record:
            trial.of_record(place, EXTREMES[number])
        for place, number in of_document:
            trial.of_document(place, EXTREMES[number])
        for seed in seeds:
            trial.of_stored_traces(seed) if is_stored else trial.of_traces(seed)
    return trial.tally


def summary(tally: Tally) -> str:
    """All results in one line."""
    return (
        f"{tally.stored + tally.refused} damaged runs: {tally.stored} stored and read, "
        f"{tally.refused} refused, {len(tally.faults)} faults, slowest {tally.slowest_s:.1f} s"
    )


if __name__ == "__main__":
    sys.exit(main())
