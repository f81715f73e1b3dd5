"""Merge the runs of another store into this store.

A run is identified by its id, and never changes once it is stored. Therefore a run that is in both
stores is normally identical in both; a run that differs is reported, and not copied. Tags of both
stores are kept. For a campaign, the plan is copied, and this store's journal gets the lines that it
lacks.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from edgebench.host.store.annotations import MAX_TAGS, Annotations, annotate, read_annotations
from edgebench.host.store.files import check_traces
from edgebench.host.store.index import note_run
from edgebench.host.store.layout import (
    ANNOTATIONS_FILE,
    CAMPAIGNS_DIRECTORY,
    EXPECTED_FILE,
    JOURNAL_FILE,
    PLAN_FILE,
    Store,
    locked_run,
)
from edgebench.protocol.errors import BundleDamaged, RunDamaged, StoreError, UsageError, os_error_as
from edgebench.system.whole_files import append_whole, make_directory, write_whole


@dataclass(frozen=True, slots=True)
class MergeReport:
    """Result of a merge."""

    added: tuple[str, ...]
    """Ids of the copied runs."""
    same_count: int
    """Number of runs that both stores have."""
    differing: tuple[str, ...]
    """Ids of runs that differ between the stores; this store's run is kept."""
    unreadable: tuple[str, ...]
    """Ids of runs whose tags and note in the other store are not readable."""
    damaged: dict[str, str]
    """Maps the id of each damaged run, which was not copied, to its fault."""
    campaigns: tuple[str, ...]
    """Ids of campaigns that were added, or whose journal got new lines."""


def merge_store(
    store: Store, other: Store, on_run: Callable[[str], None] = lambda _: None
) -> MergeReport:
    """Copy runs, tags and campaigns from another store, if this store lacks them.

    If a merge was interrupted, a second call continues it.

    Args:
        store: The store to merge into.
        other: The store to read; a bundle is allowed.
        on_run: Called with the id of each run that was added.

    Raises:
        UsageError: both are the same store, or the other path is not a store.
        StoreError: this store cannot be written, or the other store cannot be read.
    """
    if not other.runs.is_dir():
        raise UsageError(f"not an edgebench store: {other.place}")
    if store.root.resolve() == other.root.resolve():
        raise UsageError(f"a store cannot be merged with itself: {store.root}")
    store.check_writable()
    added: list[str] = []
    differing: list[str] = []
    unreadable: list[str] = []
    damaged: dict[str, str] = {}
    same_count = 0
    for run_id in other.run_ids():
        if not store.has(run_id):
            try:
                copy_whole(store, run_id, partial(other.copy_run, run_id))
            except BundleDamaged:
                raise  # the bundle as a whole is not as its sender made it
            except RunDamaged as exc:
                damaged[run_id] = str(exc)
                continue
            note_run(store, run_id)
            added.append(run_id)
            on_run(run_id)
        elif _document(store, run_id) != _document(other, run_id):
            differing.append(run_id)
        else:
            same_count += 1
            if not _merge_annotations(store, other, run_id):
                unreadable.append(run_id)
    return MergeReport(
        tuple(added),
        same_count,
        tuple(differing),
        tuple(unreadable),
        damaged,
        _merge_campaigns(store, other),
    )


def copy_whole(store: Store, run_id: str, copy_to: Callable[[Path], None]) -> None:
    """Copy a run atomically, because a partial copy would look like a run still on its device.

    Args:
        store: The store to copy into.
        run_id: The run.
        copy_to: Copies the files of the run into a directory.

    Raises:
        RunDamaged: a trace of the run is damaged.
        StoreError: the store cannot be written.
    """
    part = store.unfinished / run_id
    try:
        with store.incoming(run_id) as directory, locked_run(directory):
            copy_to(directory)
            check_traces(directory)
    except BaseException:
        if not (part / EXPECTED_FILE).exists():  # else a run that is not fetched yet
            shutil.rmtree(part, ignore_errors=True)
        raise


def _document(store: Store, run_id: str) -> bytes:
    path = store.document_path(run_id)
    with os_error_as(RunDamaged, "run not readable", path):
        return path.read_bytes()


def _merge_annotations(store: Store, other: Store, run_id: str) -> bool:
    """Add the other store's tags, and its note if this run has none; False if not readable."""
    directory = other.document_path(run_id).parent
    if not (directory / ANNOTATIONS_FILE).exists():
        return True
    try:
        theirs = read_annotations(directory)
    except RunDamaged:  # the merge continues with the next run
        return False
    if theirs.fault is not None:
        return False

    def added(ours: Annotations) -> Annotations:
        tags = sorted({*ours.tags, *theirs.tags})[:MAX_TAGS]
        return replace(ours, tags=tuple(tags), note=ours.note or theirs.note)

    annotate(store, run_id, added)
    note_run(store, run_id)
    return True


def _merge_campaigns(store: Store, other: Store) -> tuple[str, ...]:
    ours, theirs = (side.root / CAMPAIGNS_DIRECTORY for side in (store, other))
    with os_error_as(StoreError, "campaign not merged"):
        sources = sorted(theirs.iterdir()) if theirs.is_dir() else []
        whole = [source for source in sources if (source / PLAN_FILE).is_file()]
        return tuple(
            campaign.name for campaign in whole if _merge_campaign(ours / campaign.name, campaign)
        )


def _merge_campaign(target: Path, source: Path) -> bool:
    """Add the plan and the missing lines of the journal; return whether anything was added."""
    make_directory(target)
    is_new = not (target / PLAN_FILE).exists()
    if is_new:
        write_whole(target / PLAN_FILE, (source / PLAN_FILE).read_bytes())
    ours, theirs = (
        file.read_bytes().split(b"\n") if file.is_file() else []
        for file in (target / JOURNAL_FILE, source / JOURNAL_FILE)
    )
    known = set(ours)
    missing = [line for line in theirs if line and line not in known]
    if missing:
        append_whole(target / JOURNAL_FILE, b"\n" + b"\n".join(missing) + b"\n")
    return is_new or bool(missing)
