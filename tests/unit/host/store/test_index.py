"""The index: a cache that may be lost, damaged or locked without any effect for the user."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from support import storing
from support.disks import read_only
from support.metered import store_metered_run
from support.records import CREATED_UTC, RUN_ID, store_run
from support.tools import need_root

from edgebench.host.analysis.history.conditions import conditions_of, digest, settings_of
from edgebench.host.devices.files import HostFiles
from edgebench.host.result.document import from_document
from edgebench.host.store import index as index_module
from edgebench.host.store.annotations import Annotations, annotate
from edgebench.host.store.index import (
    DAMAGED,
    RunFilter,
    RunSummary,
    kept_open,
    list_runs,
    note_run,
    summary_of,
)
from edgebench.host.store.layout import RUN_FILE, Store
from edgebench.host.store.names import INDEX_FILE

OTHER_ID = "20260103-000000-ffffffff"
METERED_ID = "20260104-000000-eeeeeeee"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with two runs."""
    made = Store(tmp_path / "store")
    for run_id in (OTHER_ID, RUN_ID):
        store_run(made, run_id)
    return made


def ids(store: Store) -> list[str]:
    """The runs in the list."""
    return [row.run_id for row in list_runs(store)]


def test_row_holds_what_the_document_says(store: Store) -> None:
    """Otherwise the list would show another number than the run."""
    row = list_runs(store)[0]
    metrics = store.document(RUN_ID)["metrics"]
    latency, query = metrics["latency_ns"], metrics["end_to_end_ns"]
    assert row == RunSummary(
        run_id=RUN_ID,
        created_utc=CREATED_UTC,
        device="board",
        model="digits.tflite",
        precision="int8",
        runtime="tflite",
        threads=1,
        scenario="single_stream",
        kind="measurement",
        latency_ns_p50=latency["p50"],
        latency_ns_p90=latency["p90"],
        latency_ns_p99=latency["p99"],
        end_to_end_ns_p50=query["p50"],
        end_to_end_ns_p90=query["p90"],
        end_to_end_ns_p99=query["p99"],
        throughput_per_s=metrics["throughput_per_s"],
        instructions_per_inference=None,
        peak_rss_bytes=40 * 2**20,
        energy_j_per_inference=None,
        energy_u95_absolute_j=None,
        energy_boundary=None,
        energy_refused=None,
        set_id=None,
        verdict="valid",
        unwatched="heat",
        settings_digest=digest(settings_of(store.run(RUN_ID))),
        conditions_digest=digest(conditions_of(store.run(RUN_ID))),
    )


def test_row_of_a_metered_run_has_its_energy(store: Store) -> None:
    """Otherwise the energy of the runs could be found only by opening each of them."""
    store_metered_run(store, METERED_ID)
    energy = store.document(METERED_ID)["metrics"]["energy"]
    row = list_runs(store)[-1]
    assert row.run_id == METERED_ID
    assert row.energy_j_per_inference == energy["gross_j_per_inference"] > 0
    assert row.energy_u95_absolute_j == energy["u95_absolute_j"]
    assert (row.energy_boundary, row.energy_refused) == ("synthetic", None)


def test_row_of_a_refused_energy_has_the_reason(store: Store) -> None:
    """Otherwise a run whose meter was unplugged would be missing, or look unmetered."""
    store_metered_run(store, METERED_ID, trouble="the meter says:\x1b Overcurrent")
    row = list_runs(store)[-1]
    assert (row.energy_j_per_inference, row.energy_u95_absolute_j) == (None, None)
    assert row.energy_refused == "complete: the meter says:? Overcurrent"
    assert (row.verdict, row.suspect) == ("valid", "energy"), "the latencies are as good as ever"


def test_row_of_an_invalid_run_has_no_numbers(store: Store) -> None:
    """Otherwise a script would read a number that the table refuses to show."""
    document = store.document(RUN_ID)
    document["verdict"]["state"] = "invalid"
    row = summary_of(from_document(document))
    assert row.verdict == "invalid"
    assert row.headline_ns == [None, None, None]
    assert (row.latency_ns_p50, row.throughput_per_s, row.peak_rss_bytes) == (None, None, None)


def test_percentile_of_the_tail_without_an_interval_is_not_listed(store: Store) -> None:
    """Otherwise `runs` would print a p99 that `bench` and `show` replace by a dash."""
    document = store.document(RUN_ID)
    latency = document["metrics"]["latency_ns"]
    latency |= {"p50": 1, "p90": 2, "p99": 3}
    latency |= {"p50_ci95": None, "p90_ci95": [1, 3], "p99_ci95": None}
    row = summary_of(from_document(document))
    assert row.headline_ns == [1, 2, None]


def test_headline_is_what_the_scenario_is_about(store: Store) -> None:
    """Otherwise the latency of an invocation would be shown for a query that waited in a queue."""
    document = store.document(RUN_ID)
    document["metrics"]["end_to_end_ns"] |= {"p50": 11, "p90": 12, "p99": 13}
    document["metrics"]["latency_ns"] |= {"p50": 1, "p90": 2, "p99": 3}
    assert summary_of(from_document(document)).headline_ns == [1, 2, 3]
    document["spec"] |= {"scenario": "server", "target_qps": 10.0}
    assert summary_of(from_document(document)).headline_ns == [11, 12, 13]


def test_list_follows_the_directories(store: Store) -> None:
    """Otherwise a run added by hand would be missing, or a removed run would stay listed."""
    assert ids(store) == [RUN_ID, OTHER_ID]
    shutil.rmtree(store.directory(RUN_ID))
    assert ids(store) == [OTHER_ID]
    store_run(store, RUN_ID)
    assert ids(store) == [RUN_ID, OTHER_ID]


def test_second_look_reads_the_index_and_not_the_runs(store: Store) -> None:
    """Otherwise each listing of thousands of runs would read thousands of files."""
    rows = list_runs(store)
    path = store.directory(RUN_ID) / RUN_FILE
    found = path.stat()
    path.write_bytes(b"?" * found.st_size)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert list_runs(store) == rows


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metrics", "latency_ns", "p50"), "7150"),
        (("metrics", "latency_ns", "p50"), 10**400),
        (("metrics", "latency_ns", "p90"), [5]),
        (("metrics", "throughput_per_s"), True),
        (("device", "name"), 5),
        (("spec", "threads"), None),
    ],
)
def test_run_with_a_value_of_another_kind_is_listed_as_damaged(
    store: Store, path: tuple[str, ...], value: Any
) -> None:
    """Otherwise one damaged run would keep all others from being listed."""
    document = store.document(RUN_ID)
    inner = document
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    (store.directory(RUN_ID) / RUN_FILE).write_text(json.dumps(document))
    assert [row.verdict for row in list_runs(store)] == [DAMAGED, "valid"]


def test_name_that_no_terminal_takes_is_listed_without_it(store: Store) -> None:
    """Otherwise a run of a device with such a name would look damaged, or clear the screen."""
    document = store.document(RUN_ID)
    document["model"]["name"] = "a\ud800b\x1b[2J"
    (store.directory(RUN_ID) / RUN_FILE).write_text(json.dumps(document))
    assert list_runs(store)[0].model == "a?b?[2J"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"metrics": 5}', "null", "[" * 100_000])
def test_run_that_was_damaged_is_listed_as_damaged(store: Store, text: str) -> None:
    """Otherwise a destroyed run would look healthy in the list, or be missing from it."""
    list_runs(store)
    (store.directory(RUN_ID) / RUN_FILE).write_text(text)
    damaged, other = list_runs(store)
    assert (damaged.run_id, damaged.verdict) == (RUN_ID, DAMAGED)
    assert damaged.created_utc == CREATED_UTC
    assert (damaged.latency_ns_p50, other.verdict) == (None, "valid")


def test_deleted_index_is_made_again(store: Store) -> None:
    """Otherwise the cache would be the only source."""
    rows = list_runs(store)
    (store.root / INDEX_FILE).unlink()
    assert list_runs(store) == rows
    assert (store.root / INDEX_FILE).exists()


@pytest.mark.parametrize("damage", ["junk", "empty", "half", "middle", "schema"])
def test_damaged_index_does_not_matter(store: Store, damage: str) -> None:
    """Otherwise a torn cache file would hide the results."""
    rows = list_runs(store)
    path = store.root / INDEX_FILE
    data = bytearray(path.read_bytes())
    if damage == "junk":
        path.write_bytes(b"this is no database" * 100)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "half":
        path.write_bytes(data[: len(data) // 2])
    elif damage == "middle":
        data[100:] = b"\xa5" * (len(data) - 100)
        path.write_bytes(data)
    else:
        with closing(sqlite3.connect(path)) as index:
            index.execute("DROP TABLE runs")
            index.execute("CREATE TABLE runs (something_else)")
            index.commit()
    assert list_runs(store) == rows


def test_index_that_is_no_database_is_replaced(store: Store) -> None:
    """Otherwise each later list would be made in memory, and slowly."""
    path = store.root / INDEX_FILE
    path.write_bytes(b"this is no database" * 100)
    rows = list_runs(store)
    with closing(sqlite3.connect(path)) as index:
        assert index.execute("SELECT count(*) FROM runs").fetchone() == (len(rows),)


def test_value_that_was_changed_in_the_index_is_not_shown(store: Store) -> None:
    """Otherwise a number that no run has would be listed, while `verify` finds the run in order."""
    rows = list_runs(store)
    with closing(sqlite3.connect(store.root / INDEX_FILE)) as index:
        index.execute("UPDATE runs SET latency_ns_p50 = 1, verdict = 'valid'")
        index.commit()
    assert list_runs(store) == rows


def test_index_of_another_version_is_made_again(store: Store) -> None:
    """Otherwise an older cache would be read with the new columns."""
    rows = list_runs(store)
    with closing(sqlite3.connect(store.root / INDEX_FILE)) as index:
        index.execute("PRAGMA user_version = 99")
        index.execute("UPDATE runs SET model = 'stale'")
        index.commit()
    assert list_runs(store) == rows


def test_index_with_other_columns_is_made_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the stored table would lack a column, and each list be made slowly in memory."""
    with monkeypatch.context() as older, closing(sqlite3.connect(store.root / INDEX_FILE)) as index:
        older.setattr(index_module, "_COLUMNS", "run_id, model")
        index_module._prepare(index)
    rows = list_runs(store)
    with closing(sqlite3.connect(store.root / INDEX_FILE)) as index:
        kept = index.execute("SELECT verdict FROM runs ORDER BY run_id").fetchall()
    assert kept == [(row.verdict,) for row in rows]


def test_directory_in_place_of_the_index_does_not_matter(store: Store) -> None:
    """Otherwise a file that cannot be opened would hide the results."""
    (store.root / INDEX_FILE).mkdir()
    assert ids(store) == [RUN_ID, OTHER_ID]


def test_locked_index_does_not_matter(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a second edgebench that lists at the same time would block this one."""
    list_runs(store)
    shutil.rmtree(store.directory(OTHER_ID))
    monkeypatch.setattr(index_module, "BUSY_S", 0.0)
    with closing(sqlite3.connect(store.root / INDEX_FILE)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert ids(store) == [RUN_ID]
        other.rollback()


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_locked_index_is_read_all_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Otherwise ten thousand documents would be read while another process lists or stores."""
    rows = list_runs(store)
    monkeypatch.setattr(index_module, "BUSY_S", 0.0)
    monkeypatch.setattr(index_module, "_row", None)  # Reading a document fails.
    with closing(sqlite3.connect(store.root / INDEX_FILE)) as other:
        other.execute(f"PRAGMA journal_mode = {mode}")  # older versions have no log
        other.execute("BEGIN EXCLUSIVE")
        assert list_runs(store) == rows
        other.rollback()


def test_threads_and_processes_that_store_and_pair_lose_nothing(tmp_path: Path) -> None:
    """Otherwise two lanes that end at once would lose a run from the list, or a paired device."""
    words = [sys.executable, "-m", "support.storing", str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(Path(storing.__file__).parents[1])}
    processes = [
        subprocess.Popen([*words, f"process{number}"], env=environment) for number in range(2)
    ]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: storing.pair_and_store(tmp_path, f"thread{number}"), range(8)))
    assert [process.wait(60) for process in processes] == [0, 0]
    store = Store(tmp_path / "store")
    with closing(sqlite3.connect(store.root / INDEX_FILE)) as index:
        (count,) = index.execute("SELECT count(*) FROM runs").fetchone()
    assert count == len(store.run_ids()) == 10 * storing.EACH
    assert ids(store) == store.run_ids()
    paired = [device.name for device in HostFiles(tmp_path / "config").devices()]
    assert sorted(paired) == store.run_ids()


def test_stored_run_is_in_the_index_before_anybody_lists(store: Store) -> None:
    """Otherwise the first list after a night would read every run of it."""
    note_run(store, RUN_ID)
    with closing(sqlite3.connect(store.root / INDEX_FILE)) as index:
        assert index.execute("SELECT run_id FROM runs").fetchall() == [(RUN_ID,)]
    shutil.rmtree(store.directory(RUN_ID))
    note_run(store, RUN_ID)
    with closing(sqlite3.connect(store.root / INDEX_FILE)) as index:
        assert index.execute("SELECT run_id FROM runs").fetchall() == []


def test_rows_are_chosen_by_what_is_wanted(store: Store) -> None:
    """Otherwise the runs of one device would have to be found in a list of thousands."""
    annotate(store, RUN_ID, lambda _: Annotations(("nightly",), "fan off"))
    first, second = list_runs(store)
    assert (first.tags, first.note) == (("nightly",), "fan off")
    later = datetime(2026, 1, 3, tzinfo=timezone.utc)
    for wanted, found in (
        (RunFilter(), [first, second]),
        (RunFilter(model="digits*", device="board"), [first, second]),
        (RunFilter(model="digits"), []),
        (RunFilter(device="b?"), []),
        (RunFilter(tag="nightly"), [first]),
        (RunFilter(since=later), [second]),
        (RunFilter(last=1), [second]),
        (RunFilter(last=5, tag="nightly"), [first]),
    ):
        assert list_runs(store, wanted) == found, wanted


@pytest.mark.parametrize("is_indexed", [True, False], ids=["indexed", "not indexed"])
def test_read_only_store_can_be_listed(store: Store, is_indexed: bool) -> None:
    """Otherwise results on a read-only disk or in another user's directory could not be seen."""
    need_root()
    if is_indexed:
        list_runs(store)
        shutil.rmtree(store.directory(RUN_ID))
        store_run(store, "20260104-000000-eeeeeeee")
    expected = sorted(store.run_ids())
    with read_only(store.root):
        assert ids(store) == expected


@pytest.mark.parametrize("text", ["", "{}", '{"run_id": 5, "metrics": []}', "[]"])
def test_damaged_run_does_not_hide_the_others(store: Store, text: str) -> None:
    """Otherwise one torn document would hide all results."""
    (store.directory(RUN_ID) / RUN_FILE).write_text(text)
    assert ids(store) == [RUN_ID, OTHER_ID]


def test_document_with_a_wrong_type_does_not_hide_the_others(store: Store) -> None:
    """Otherwise a value that the database does not accept would end in a traceback."""
    path = store.directory(RUN_ID) / RUN_FILE
    document = json.loads(path.read_text())
    document["device"]["name"] = ["a", "list"]
    path.write_text(json.dumps(document))
    assert OTHER_ID in ids(store)


def test_index_that_is_kept_open_is_whole_afterwards(store: Store) -> None:
    """Otherwise a night's rows would remain in a log that the next user cannot read."""
    wal = store.root / f"{INDEX_FILE}-wal"
    with kept_open(store):
        note_run(store, RUN_ID)
        assert wal.exists()
        assert ids(store) == store.run_ids()
    assert not wal.exists()
    assert ids(store) == store.run_ids()
    new = Store(store.root / "new")
    with kept_open(new):
        assert (new.root / INDEX_FILE).exists(), "each run would open it anew"
