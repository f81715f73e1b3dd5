"""Removal of stored runs, by id or by age.

The directory of a run is moved out of runs/ by a single rename, so that no reader sees a partial
run. The files of the run are deleted after the rename is synced to disk, because a power cut must
not restore a run without its files. The next removal deletes files that a killed removal has left.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress

from edgebench.host.store.index import RunSummary, note_run
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import StoreError, os_error_as
from edgebench.system.whole_files import make_directory

REMOVED = "removed"
"""Directory of a store for runs that are being deleted."""


def size_bytes(store: Store, run_ids: Sequence[str]) -> int:
    """Total size of the files of these runs."""
    total = 0
    for run_id in run_ids:
        for folder, _, names in os.walk(store.directory(run_id)):
            for name in names:
                with suppress(OSError):
                    total += os.lstat(os.path.join(folder, name)).st_size
    return total


def remove_runs(store: Store, run_ids: Sequence[str]) -> None:
    """Remove runs permanently.

    Raises:
        StoreError: a run cannot be removed; the runs before it in `run_ids` have been removed.
    """
    removed = store.root / REMOVED
    for run_id in run_ids:
        directory = store.directory(run_id)
        with os_error_as(StoreError, "run not removed", directory):
            make_directory(removed)
            away = removed / f"{run_id}.{os.getpid()}"
            with suppress(FileNotFoundError):  # another command was faster
                directory.rename(away)
        note_run(store, run_id)
    if run_ids:
        store.settle()
    shutil.rmtree(removed, ignore_errors=True)


def outdated(
    rows: Sequence[RunSummary], *, before_utc: str | None = None, keep_last: int | None = None
) -> list[str]:
    """Ids of the runs that are older than a time, or not among the newest `keep_last` runs.

    Args:
        rows: The runs, oldest first.
        before_utc: Time in the format of `created_utc`; None means no limit on the age.
        keep_last: Number of runs to keep; None means no limit on the number.
    """
    run_ids: set[str] = set()
    if before_utc is not None:
        run_ids |= {row.run_id for row in rows if row.created_utc and row.created_utc < before_utc}
    if keep_last is not None:
        run_ids |= {row.run_id for row in rows[: max(0, len(rows) - keep_last)]}
    return sorted(run_ids)
