"""Merging of two stores: nothing is lost or duplicated, and our runs stay unchanged."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from support.records import store_run

from edgebench.host.store.annotations import Annotations, annotate, read_annotations
from edgebench.host.store.index import list_runs
from edgebench.host.store.layout import RUN_FILE, Store
from edgebench.host.store.merge import merge_store
from edgebench.protocol.errors import StoreError, UsageError

FIRST, SECOND = "20261123-050607-000000001", "20261123-050608-000000002"


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Store, Store]:
    """A store with one run, and another store with this run and a second run."""
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    store_run(here, FIRST)
    for run_id in (FIRST, SECOND):
        store_run(there, run_id)
    return here, there


def test_runs_that_are_missing_come_and_no_other_changes(stores: tuple[Store, Store]) -> None:
    """Otherwise a run would be lost on the way from the laptop, or overwritten on arrival."""
    here, there = stores
    before = (here.directory(FIRST) / RUN_FILE).stat()
    report = merge_store(here, there)
    assert (report.added, report.same_count, report.differing) == ((SECOND,), 1, ())
    assert [row.run_id for row in list_runs(here)] == [FIRST, SECOND]
    assert (here.directory(FIRST) / RUN_FILE).stat().st_mtime_ns == before.st_mtime_ns
    assert here.document(SECOND) == there.document(SECOND)
    assert os.listdir(here.unfinished) == []
    assert merge_store(here, there).added == ()


def test_full_disk_leaves_no_part_of_a_copy(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a part of a run would look like a run that is still on a device."""
    here, there = stores

    def copy_a_part(store: Store, run_id: str, directory: Path) -> None:
        del store, run_id
        (directory / "queries.parquet").write_text("a part")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Store, "copy_run", copy_a_part)
    with pytest.raises(StoreError, match="No space left on device"):
        merge_store(here, there)
    assert os.listdir(here.unfinished) == []
    expected = here.unfinished / SECOND
    expected.mkdir()
    (expected / "expected.json").write_text("{}")
    with pytest.raises(StoreError):
        merge_store(here, there)
    assert (expected / "expected.json").exists(), "it is a run of a device, not yet fetched"
    monkeypatch.undo()
    assert merge_store(here, there).added == (SECOND,)


def test_run_that_differs_is_named_and_ours_stays(stores: tuple[Store, Store]) -> None:
    """Otherwise a changed number would replace the measured one."""
    here, there = stores
    path = there.directory(FIRST) / RUN_FILE
    path.write_text(path.read_text().replace("}", " }", 1))
    ours = here.document(FIRST)
    assert merge_store(here, there).differing == (FIRST,)
    assert here.document(FIRST) == ours


def test_tags_of_both_are_kept(stores: tuple[Store, Store]) -> None:
    """Otherwise a baseline would no longer be found by its tag."""
    here, there = stores
    annotate(here, FIRST, lambda _: Annotations(("a",), None))
    annotate(there, FIRST, lambda _: Annotations(("b",), "theirs"))
    merge_store(here, there)
    assert read_annotations(here.directory(FIRST)) == Annotations(("a", "b"), "theirs")


def test_links_and_pipes_in_the_other_store_are_not_followed(stores: tuple[Store, Store]) -> None:
    """Otherwise an untrusted store would bring a copy of our keys into shared results."""
    here, there = stores
    directory = there.directory(SECOND)
    (directory / "key").symlink_to("/etc/passwd")
    os.mkfifo(directory / "pipe")
    merge_store(here, there)
    assert not {"key", "pipe"} & set(os.listdir(here.directory(SECOND)))


def test_campaigns_come_along(stores: tuple[Store, Store]) -> None:
    """Otherwise a campaign shared by two hosts could not be resumed, or would repeat its runs."""
    here, there = stores
    lines = [json.dumps({"event": "intent", "run_id": str(number)}) for number in range(3)]
    for store, own in ((here, lines[:2]), (there, lines[1:])):
        folder = store.root / "campaigns" / "c012345"
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text("{}")
        (folder / "journal.jsonl").write_text("\n".join(own))
    assert merge_store(here, there).campaigns == ("c012345",)
    merged = (here.root / "campaigns" / "c012345" / "journal.jsonl").read_text().split("\n")
    assert sorted(filter(None, merged)) == lines
    assert merge_store(here, there).campaigns == ()


def test_what_is_no_other_store_is_refused(stores: tuple[Store, Store], tmp_path: Path) -> None:
    """Otherwise a typing error would report a complete merge."""
    with pytest.raises(UsageError, match="not an edgebench store"):
        merge_store(stores[0], Store(tmp_path / "none"))
    with pytest.raises(UsageError, match="cannot be merged with itself"):
        merge_store(stores[0], Store(tmp_path / "there" / ".." / "here"))
