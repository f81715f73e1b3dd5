"""Time to list, filter and compare the runs of a large store.

    python benchmarks/store_scale.py [--runs 10000] [--compared 1000] [--rounds 7] [--short]

The store contains copies of the document of a single run of tests/fixtures, under different ids.
The runs have no traces, because neither a list nor a comparison reads traces. The first
listing of the runs creates the index, and its time is reported separately; later listings read the
index. A comparison has
half of the --compared runs on each side, named by their ids.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path

from common import Spread, claim, claims_table, machine, parse, report, seconds_of, spread

from edgebench.host.lab import Lab
from edgebench.host.result.document import RUN_ID_TIME
from edgebench.host.store.address import find_run
from edgebench.host.store.index import RunFilter, as_created_utc, list_runs, note_run
from edgebench.host.store.layout import RUN_FILE, Store

FIXTURES = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "runs" / "v7"
LIST_BAR_S = 0.3
COMPARE_BAR_S = 2.0
"""Bars for a list of 10,000 runs, and for a comparison of 1,000 runs. Source: the issue about the
farm."""
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)


def main() -> None:
    """Make the store, and print the times of lists, filters and comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=10_000, metavar="N", help="runs in the store")
    parser.add_argument("--compared", type=int, default=1_000, metavar="N", help="runs compared")
    parser.add_argument("--rounds", type=int, default=7)
    options = parse(
        parser, smoke={"runs": 20, "compared": 4, "rounds": 1}, runs=1_000, compared=100, rounds=3
    )
    began = machine()
    with tempfile.TemporaryDirectory(prefix="edgebench-scale-") as folder:
        store = Store(Path(folder))
        ids = fill(store, int(options.runs))
        first_s = seconds_of(lambda: list_runs(store))
        middle = BEGIN + timedelta(minutes=len(ids) // 2)
        wanted = RunFilter(device="*", since=middle, last=100)
        sides = int(options.compared) // 2
        # Neighbours in turn: both sides were made at the same time.
        baseline, candidate = ids[: 2 * sides : 2], ids[1 : 2 * sides : 2]
        lab = Lab(store.root)
        listed = repeated(lambda: list_runs(store), options.rounds)
        filtered = repeated(lambda: list_runs(store, wanted), options.rounds)
        found = repeated(lambda: find_run(store, ids[0]), options.rounds)
        noted = repeated(lambda: note_run(store, ids[-1]), options.rounds)
        compared = repeated(lambda: lab.compare(baseline, candidate), options.rounds)
    rows = [
        claim(f"first list of {len(ids)} runs, which makes the index, s", f"{first_s:.1f}"),
        claim("list, s", listed.text(), f"≤ {LIST_BAR_S}", listed.median <= LIST_BAR_S),
        claim("filter, s", filtered.text(), f"≤ {LIST_BAR_S}", filtered.median <= LIST_BAR_S),
        claim("find a run by its id, ms", found.text(scale=1e3)),
        claim("write the row of a stored run, ms", noted.text(scale=1e3)),
        claim(
            f"compare {2 * sides} runs, s",
            compared.text(),
            f"≤ {COMPARE_BAR_S:g}",
            compared.median <= COMPARE_BAR_S,
        ),
    ]
    report("A large store", [claims_table(rows)], began)


def fill(store: Store, count: int) -> list[str]:
    """Add `count` runs to a store, a minute apart; returns their ids."""
    document = next(
        found
        for path in sorted(FIXTURES.glob(f"*/{RUN_FILE}"))
        if (found := json.loads(path.read_bytes()))["verdict"]["state"] != "invalid"
        and found["metrics"]["latency_ns"] is not None
    )
    document["pair"] = document["set"] = None
    ids = []
    for number in range(count):
        when = BEGIN + timedelta(minutes=number)
        run_id = f"{when.strftime(RUN_ID_TIME)}-{number:08x}"
        document |= {"run_id": run_id, "created_utc": as_created_utc(when)}
        store.directory(run_id).mkdir(parents=True)
        (store.directory(run_id) / RUN_FILE).write_text(json.dumps(document))
        ids.append(run_id)
    return ids


def repeated(act: object, rounds: int) -> Spread:
    """Times of `rounds` calls of an action, seconds; an extra first call is not counted."""
    assert callable(act)
    return spread([seconds_of(act) for _ in range(int(rounds) + 1)][1:])


if __name__ == "__main__":
    main()
