"""The latest earlier runs of a device in a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice

from edgebench.host.result.run import Run
from edgebench.host.result.verdict import State
from edgebench.host.store.index import RunSummary, list_runs
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import StoreError

EARLIER_COUNT = 40
"""Maximum number of earlier runs that are read; five sets made with `--quick` have 40 runs. Reading
a run takes about a millisecond."""


def earlier_valid_runs(store: Store, runs: Sequence[Run]) -> list[Run]:
    """The device's latest valid runs of any model before these runs, newest first.

    Damaged runs are left out.

    Raises:
        StoreError: the store cannot be read.
    """
    device, first_id = runs[0].device.name, min(run.run_id for run in runs)
    rows = [
        row
        for row in list_runs(store)
        if row.device == device and row.run_id < first_id and row.verdict == State.VALID.value
    ]
    return list(_read(store, islice(reversed(rows), EARLIER_COUNT)))


def _read(store: Store, rows: Iterator[RunSummary]) -> Iterator[Run]:
    for row in rows:
        with suppress(StoreError):
            yield store.run(row.run_id)
