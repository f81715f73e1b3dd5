"""The forms in which a run may be named."""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import RUN_ID, store_run

from edgebench.host.bench.verify import verify
from edgebench.host.result.document import to_document
from edgebench.host.result.facts import BASELINE, CANDIDATE, Pair, SetMember, side_id
from edgebench.host.store import address
from edgebench.host.store.address import find_each, find_run, find_runs, short_ids
from edgebench.host.store.annotations import (
    UNREADABLE,
    Annotations,
    annotate,
    read_annotations,
)
from edgebench.host.store.bundle import write_bundle
from edgebench.host.store.index import list_runs, stored_summary
from edgebench.host.store.layout import ANNOTATIONS_FILE, Store
from edgebench.protocol.errors import NoSuchRun, RunDamaged, UsageError

OTHER_ID = "20260103-000000-ffffffff"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with two runs."""
    made = Store(tmp_path / "store")
    for run_id in (OTHER_ID, RUN_ID):
        store_run(made, run_id)
    return made


def test_id_is_found_without_a_list(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a comparison of a thousand runs would list the store a thousand times."""
    monkeypatch.setattr(Store, "run_ids", None)
    monkeypatch.setattr(address, "list_runs", None)
    assert find_run(store, RUN_ID).run_id == RUN_ID


@pytest.mark.parametrize(
    ("name", "found"),
    [("20260102", RUN_ID), ("ffff", OTHER_ID), ("last", OTHER_ID), ("night", RUN_ID)],
)
def test_run_is_found_by_part_and_tag(store: Store, name: str, found: str) -> None:
    """Otherwise a user would have to type 24 characters."""
    annotate(store, RUN_ID, lambda _: Annotations(("night",)))
    assert find_run(store, name).run_id == found


def test_beginning_of_an_id_comes_before_its_middle(store: Store) -> None:
    """A date selects the run of that day, although another id contains the same digits."""
    store_run(store, "20260104-000000-20260102")
    assert find_run(store, "20260102").run_id == RUN_ID


def pair_up(store: Store, comparison_id: str = "pairs-1f2e3d4c") -> None:
    """Make the two runs of the store a pair."""
    for run_id, side in ((RUN_ID, "baseline"), (OTHER_ID, "candidate")):
        path = store.document_path(run_id)
        document = json.loads(path.read_text())
        document["pair"] = {"comparison_id": comparison_id, "number": 0, "side": side}
        path.write_text(json.dumps(document))


def test_comparison_and_its_sides_are_names(store: Store) -> None:
    """Otherwise the runs of a comparison would have to be found individually, or not at all."""
    pair_up(store)
    assert [run.run_id for run in find_runs(store, "pairs-1f2e3d4c")] == [RUN_ID, OTHER_ID]
    assert [run.run_id for run in find_runs(store, "pairs-1f2e3d4c-candidate")] == [OTHER_ID]
    with pytest.raises(NoSuchRun, match="not the name of a single run"):
        find_run(store, "pairs-1f2e3d4c")
    with pytest.raises(NoSuchRun, match="no comparison 'pairs-1f2e3d4d'") as caught:
        find_runs(store, "pairs-1f2e3d4d")
    assert caught.value.meant == "pairs-1f2e3d4c"


def test_comparison_of_an_older_edgebench_has_a_name_too(store: Store) -> None:
    """An id of an older edgebench has no prefix, but stands in the list of runs all the same."""
    pair_up(store, "1f2e3d4c")
    assert [run.run_id for run in find_runs(store, "1f2e3d4c")] == [RUN_ID, OTHER_ID]


@pytest.mark.parametrize(
    ("name", "meant"),
    [("lsat", "last"), ("nihgt", "night"), (f"{RUN_ID[:-1]}x", RUN_ID), ("digits.tflite", None)],
)
def test_misspelt_name_has_a_suggestion(store: Store, name: str, meant: str | None) -> None:
    """Otherwise a wrong letter would produce the list of a thousand runs."""
    annotate(store, RUN_ID, lambda _: Annotations(("night",)))
    with pytest.raises(NoSuchRun) as caught:
        find_runs(store, name)
    assert caught.value.meant == meant


def test_other_id_is_no_suggestion(store: Store) -> None:
    """Ids are alike in half of their characters; otherwise the wrong run would be removed."""
    with pytest.raises(NoSuchRun) as caught:
        find_runs(store, "20260109-999999-deadbeef")
    assert caught.value.meant is None


def test_run_in_the_store_and_in_a_bundle_is_one(store: Store, tmp_path: Path) -> None:
    """Otherwise an interval over five runs and their copies would count ten runs."""
    path = tmp_path / "sent.zip"
    write_bundle(path, find_runs(store, RUN_ID))
    names = [RUN_ID, str(path), OTHER_ID]
    assert [one.run_id for one in find_each(store, names)] == [RUN_ID, OTHER_ID]


def test_tag_of_several_runs_means_all_of_them_or_none(store: Store) -> None:
    """Otherwise one of a tag's runs would be shown as if it were the only one."""
    for run_id in (RUN_ID, OTHER_ID):
        annotate(store, run_id, lambda _: Annotations(("night",)))
    assert [run.run_id for run in find_runs(store, "night")] == [RUN_ID, OTHER_ID]
    with pytest.raises(NoSuchRun, match="'night' names 2 runs"):
        find_run(store, "night")
    with pytest.raises(NoSuchRun, match="no run matches 'day'"):
        find_run(store, "day")


def test_bundle_that_is_not_there_is_called_a_bundle(store: Store) -> None:
    """Otherwise a mistyped path would be answered with the number of runs in an unrelated store."""
    for name in ("nothere.zip", "nothere.zip#last"):
        with pytest.raises(NoSuchRun, match=r"^no such bundle or run: nothere\.zip$"):
            find_runs(store, name)


def test_directory_of_a_run_is_its_name_wherever_it_is(store: Store, tmp_path: Path) -> None:
    """Otherwise a received run would have to be copied into the store to be inspected."""
    shutil.copytree(store.directory(RUN_ID), tmp_path / "sent by Ada")
    found = find_run(store, str(tmp_path / "sent by Ada"))
    assert (found.run_id, found.run().run_id) == (RUN_ID, RUN_ID)
    assert found.document() == store.document(RUN_ID)
    assert verify(found.store, found.run_id) == []
    (tmp_path / "sent by Ada" / "run.json").write_text('{"schema_version": 7, "run_id": 5}')
    with pytest.raises(RunDamaged, match="run_id is 5"):
        find_run(store, str(tmp_path / "sent by Ada"))


def test_annotations_are_no_part_of_the_run(store: Store) -> None:
    """Otherwise a tag would make an unchanged run fail its verification."""
    annotate(store, RUN_ID, lambda _: Annotations(("b", "a"), "fan off"))
    assert read_annotations(store.directory(RUN_ID)) == Annotations(("a", "b"), "fan off")
    assert verify(store, RUN_ID) == []
    with pytest.raises(UsageError, match="33 tags, limit 32"):
        annotate(store, RUN_ID, lambda _: Annotations(tuple(map(str, range(33)))))


@pytest.mark.parametrize("left", [b"", b"[", b"{}", b"\0" * 60, b'{"tags": ["a b"], "note": 5}'])
def test_unreadable_annotations_cost_the_tags_alone(
    store: Store, tmp_path: Path, left: bytes
) -> None:
    """Otherwise a power cut after a tag would make the run damaged, and hide all its numbers."""
    before = stored_summary(store, RUN_ID)
    path = store.directory(RUN_ID) / ANNOTATIONS_FILE
    path.write_bytes(left)
    assert find_run(store, RUN_ID).annotations() == Annotations(
        fault=f"{UNREADABLE}: not JSON with tags and note: {path}"
    )
    assert list_runs(store)[0] == replace(before, note=UNREADABLE)
    assert verify(store, RUN_ID) == []
    write_bundle(tmp_path / "sent.zip", [find_run(store, RUN_ID)])
    sent = find_run(store, str(tmp_path / "sent.zip"))
    assert (sent.annotations().tags, verify(sent.store, RUN_ID)) == ((), [])
    assert annotate(store, RUN_ID, lambda now: replace(now, tags=("a",))) == Annotations(("a",))
    assert list_runs(store)[0] == replace(before, tags=("a",))


def test_damaged_run_has_its_id_in_the_error(store: Store, tmp_path: Path) -> None:
    """Otherwise the hint could not name the run to remove; a copy elsewhere is not removed."""
    copied = tmp_path / "copy" / "run"
    shutil.copytree(store.directory(RUN_ID), copied)
    for directory, damaged_id in ((store.directory(RUN_ID), RUN_ID), (copied, None)):
        document = json.loads((directory / "run.json").read_text())
        (directory / "run.json").write_text(json.dumps({**document, "device": 7}))
        name = RUN_ID if damaged_id else str(copied)
        with pytest.raises(RunDamaged) as caught:
            find_run(store, name).run()
        assert caught.value.damaged_id == damaged_id


def test_short_names_are_accepted(store: Store) -> None:
    """Each short name of `edgebench runs` names the run, set or side that it stands for."""
    members = {
        "20260104-000000-00000001": "set-1f2e3d4c",
        "20260104-000000-00000002": "set-1f2e0000",
    }
    for run_id, set_id in members.items():
        _store_changed(store, run_id, member=SetMember(set_id, 0, 1))
    sides = {"20260105-000000-00000003": BASELINE, "20260105-000000-00000004": CANDIDATE}
    for run_id, side in sides.items():
        _store_changed(store, run_id, pair=Pair("pairs-0a1b2c3d", 0, side))
    short = short_ids(store.run_ids(), [*members.values(), "pairs-0a1b2c3d"])
    assert short["set-1f2e3d4c"] == "set-1f2e3"
    assert short["pairs-0a1b2c3d"] == "pairs-0a1b"
    named = {short[run_id]: run_id for run_id in store.run_ids()}
    named |= {short[set_id]: run_id for run_id, set_id in members.items()}
    named |= {side_id(short["pairs-0a1b2c3d"], side): run_id for run_id, side in sides.items()}
    assert {name: [run.run_id for run in find_runs(store, name)] for name in named} == {
        name: [run_id] for name, run_id in named.items()
    }


def test_thousands_of_short_names_are_made_at_once() -> None:
    """Otherwise the list of a store of a year would take time that grows with its square."""
    names = [f"set-{number:08x}" for number in range(5_000)]
    began_s = time.process_time()
    short = short_ids([], names)
    assert time.process_time() - began_s < 2, "0.03 s; with a scan for each name, over a minute"
    assert len(set(short.values())) == len(names)


def _store_changed(store: Store, run_id: str, **changes: Any) -> None:
    """Store a run with other facts."""
    store_run(store, run_id)
    path = store.document_path(run_id)
    path.write_text(json.dumps(to_document(replace(store.run(run_id), **changes))))


@given(
    st.lists(
        st.from_regex(r"2026010[1-9]-0304[0-5][0-9]-[0-9a-f]{8}", fullmatch=True),
        max_size=30,
        unique=True,
    )
)
def test_short_names_are_in_no_other_id(run_ids: list[str]) -> None:
    """Otherwise a command would refuse a name that the list shows, or take another run."""
    short = short_ids(run_ids, [])
    for run_id, name in short.items():
        assert [other for other in run_ids if name in other] == [run_id]
