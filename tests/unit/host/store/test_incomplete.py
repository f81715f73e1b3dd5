"""Runs that were started and are not stored."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from edgebench.host.show.incomplete import incomplete_line
from edgebench.host.store.incomplete import (
    ExpectedRun,
    IncompleteState,
    Whereabouts,
    follow_agent,
    incomplete_runs,
    mark_lost,
    remove_lost,
    write_expectation,
)
from edgebench.host.store.layout import EXPECTED_FILE, RAW_DIRECTORY, Store, locked_run

RUN_IDS = ("20261122-100000-000aaaaa", "20261122-100001-000bbbbb", "20261122-100002-000ccccc")
BOARD = ExpectedRun("device-1", "board", "tls", "m.tflite")
HERE = Whereabouts("device-1", "tls", "pin-1", "machine")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store in which three runs are expected; of the first one, a file was fetched."""
    made = Store(tmp_path / "store")
    for run_id in RUN_IDS:
        with made.expecting(run_id) as directory:
            write_expectation(directory, BOARD)
            (directory / RAW_DIRECTORY / "host.json").write_text("{}")
    (made.unfinished / RUN_IDS[0] / RAW_DIRECTORY / "queries.bin").write_bytes(b"1")
    return made


def states(store: Store) -> dict[str, IncompleteState]:
    """State of each run that is not stored."""
    return {run.run_id: run.state for run in incomplete_runs(store)}


def test_run_is_lost_only_where_its_device_says_so(store: Store) -> None:
    """Otherwise a run that waits on another device or transport would be given up."""
    first, second, third = RUN_IDS
    expected = dict.fromkeys(RUN_IDS, IncompleteState.NOT_FETCHED)
    assert states(store) == expected
    for device_id, via in (("device-2", "tls"), ("device-1", "local")):
        assert mark_lost(store, Whereabouts(device_id, via), on_device=()) == []
    assert mark_lost(store, HERE, on_device=RUN_IDS) == []
    assert states(store) == expected
    lost = mark_lost(store, HERE, on_device={third})
    assert [(run.run_id, run.is_empty) for run in lost] == [(first, False), (second, True)]
    assert incomplete_line(lost[0]) == (
        f"run {first} of m.tflite on board is no longer on the device: it may have been stored "
        "elsewhere (another --store), removed, or lost with its agent; kept here: queries.bin"
    )
    assert incomplete_line(lost[1]).endswith("kept here: nothing")
    assert states(store) == {first: IncompleteState.LOST, third: IncompleteState.NOT_FETCHED}
    assert mark_lost(store, HERE, on_device={third}) == [], "told once"


def test_devices_that_share_an_id_are_told_apart(store: Store) -> None:
    """Otherwise each of two copies of one SD card would report the runs of the other as lost."""
    theirs, _, mine = RUN_IDS
    for run_id, agent in ((theirs, "pin-2"), (mine, "pin-1")):
        expected = replace(BOARD, agent=agent, seat="machine")
        write_expectation(store.unfinished / run_id, expected)
    lost = mark_lost(store, HERE, on_device=RUN_IDS[1:2])
    assert [run.run_id for run in lost] == [mine]
    assert mark_lost(store, replace(HERE, agent="pin-2", seat="nucleo"), on_device=()) != []
    assert states(store)[theirs] is IncompleteState.NOT_FETCHED
    follow_agent(store, "pin-2", "pin-1")  # The device was set up anew.
    assert [run.run_id for run in mark_lost(store, HERE, on_device=())] == [theirs]


def test_directory_of_a_run_that_never_started_goes(store: Store) -> None:
    """Otherwise a host killed before its run starts would leave a run that is never fetched."""
    unstarted, claimed_one, with_file = (f"20261122-11000{n}-000ddddd" for n in range(3))
    for run_id in (unstarted, claimed_one, with_file):
        with store.expecting(run_id):
            pass
    (store.unfinished / with_file / RAW_DIRECTORY / "queries.bin").write_bytes(b"1")
    made = {unstarted, claimed_one, with_file}

    def left() -> set[str]:
        lost = mark_lost(store, HERE, on_device=RUN_IDS)
        assert lost == []
        return made & set(states(store))

    assert left() == made, "they were made just now"
    for run_id in made:
        os.utime(store.unfinished / run_id, (0, 0))
    with locked_run(store.unfinished / claimed_one):
        assert left() == {claimed_one, with_file}
    assert left() == {with_file}


def test_what_is_not_lost_or_is_being_written_is_not_removed(store: Store) -> None:
    """Otherwise a run would be removed while its command measures, or its device still has it."""
    first, _, third = RUN_IDS
    with locked_run(store.unfinished / first):
        assert states(store)[first] is IncompleteState.IN_PROGRESS
        assert mark_lost(store, HERE, on_device=RUN_IDS[1:]) == []
    mark_lost(store, HERE, on_device={third})
    with locked_run(store.unfinished / first):
        assert remove_lost(store) == []
    assert [run.run_id for run in remove_lost(store)] == [first]
    assert list(states(store)) == [third]


def test_claim_ends_with_its_process(store: Store) -> None:
    """Otherwise a command that was killed would keep a run in progress for ever."""
    code = (
        "import os, sys; from pathlib import Path\n"
        "from edgebench.host.store.layout import locked_run\n"
        "with locked_run(Path(sys.argv[1])): os.write(1, b'.'); sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(store.unfinished / RUN_IDS[0])],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == b"."
    assert states(store)[RUN_IDS[0]] is IncompleteState.IN_PROGRESS
    process.kill()
    process.communicate()
    assert states(store)[RUN_IDS[0]] is IncompleteState.NOT_FETCHED


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"device_id": 1}'])
def test_damaged_expectation_is_shown_and_stays(store: Store, damage: str) -> None:
    """Otherwise one damaged file would hide all others, or a run still on a device be removed."""
    (store.unfinished / RUN_IDS[0] / EXPECTED_FILE).write_text(damage)
    (store.unfinished / "no run").mkdir()
    assert len(mark_lost(store, HERE, on_device=())) == 2
    [left] = incomplete_runs(store)
    assert (left.run_id, left.state) == (RUN_IDS[0], IncompleteState.NOT_FETCHED)
    assert incomplete_line(left).startswith(f"run {RUN_IDS[0]} is not fetched; ")


def test_store_without_runs_has_none_that_are_incomplete(tmp_path: Path) -> None:
    """Otherwise the first `edgebench runs` would end in a traceback."""
    assert incomplete_runs(Store(tmp_path / "nothing")) == []
    assert remove_lost(Store(tmp_path / "nothing")) == []
