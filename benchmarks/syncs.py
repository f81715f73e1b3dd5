"""Number and time of the host's syncs (fsync) for a run and for a tag.

    python benchmarks/syncs.py [--rounds 15] [--short]

Files are synced before their result is announced (docs/decisions/0060-power-cuts.md). A sync takes
some milliseconds on an SSD, and tens of milliseconds on an SD card. Each round makes a short run on
this machine through `Lab.bench`, and tags the run. The calls of os.fsync in this process are
counted and timed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

from common import claim, claims_table, machine, parse, report, spread

from edgebench.host.lab import Lab
from edgebench.host.store.annotations import Annotations, annotate

MODEL, RUNTIME = "digits_int8.tflite", "litert"


@dataclass(frozen=True, slots=True)
class SyncCost:
    """Number and time of the syncs (fsync) of one action."""

    count: int
    sync_s: float
    total_s: float


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    options = parse(parser, smoke={"rounds": 1}, rounds=5)
    began = machine()
    runs: list[SyncCost] = []
    tags: list[SyncCost] = []
    with tempfile.TemporaryDirectory(prefix="edgebench-", dir=Path.cwd()) as folder:  # a disk
        lab = Lab(Path(folder) / "store")
        for number in range(options.rounds + 1):
            cost = measured(lambda: bench(lab))
            newest = lab.store.run_ids()[-1]
            tag = measured(partial(annotate, lab.store, newest, tagged))
            if number:  # the first round creates the directories of the store
                runs.append(cost)
                tags.append(tag)
    rows = [row for name, costs in (("run", runs), ("tag", tags)) for row in rows_of(name, costs)]
    report("Syncs of the host", [claims_table(rows)], began)


def bench(lab: Lab) -> None:
    """Make a short run."""
    lab.bench(MODEL, runs=1, runtime=RUNTIME, duration_s=0.2, min_query_count=64, is_checked=False)


def tagged(before: Annotations) -> Annotations:
    """The annotations of a run, with a tag."""
    return replace(before, tags=("a",))


def measured(action: Callable[[], object]) -> SyncCost:
    """Run an action, and count and time its syncs."""
    real, times_s = os.fsync, list[float]()

    def timed(descriptor: int) -> None:
        began_s = time.perf_counter()
        real(descriptor)
        times_s.append(time.perf_counter() - began_s)

    began_s = time.perf_counter()
    with patch("os.fsync", timed):
        action()
    return SyncCost(len(times_s), sum(times_s), time.perf_counter() - began_s)


def rows_of(name: str, costs: list[SyncCost]) -> list[list[str]]:
    """Rows of the table of claims for an action."""
    return [
        claim(f"syncs of a {name}", spread([cost.count for cost in costs]).text(0)),
        claim(
            f"time in syncs of a {name}, ms", spread([cost.sync_s * 1e3 for cost in costs]).text()
        ),
        claim(
            f"time in syncs / time of a {name}",
            spread([cost.sync_s / cost.total_s for cost in costs]).text(4),
        ),
    ]


if __name__ == "__main__":
    main()
