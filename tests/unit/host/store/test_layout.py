"""The store's directories: a run is present whole, or not at all."""

from __future__ import annotations

import errno
import json
import os
import resource
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from edgebench.host.result.run import SCHEMA_VERSION
from edgebench.host.store.address import Address
from edgebench.host.store.annotations import read_annotations
from edgebench.host.store.bundle import write_bundle
from edgebench.host.store.index import DAMAGED, list_runs
from edgebench.host.store.layout import (
    ANNOTATIONS_FILE,
    EXPECTED_FILE,
    QUERIES_FILE,
    RAW_DIRECTORY,
    RUN_FILE,
    Store,
)
from edgebench.host.store.names import default_root
from edgebench.protocol.errors import NoSuchRun, RunDamaged, StoreError, UsageError

IDS = ("20260101-000000-aaaaaaaa", "20260102-000000-aabbbbbb", "20260103-000000-cccccccc")


DOCUMENT = {"schema_version": SCHEMA_VERSION}


def put(store: Store, run_id: str, text: str = json.dumps(DOCUMENT)) -> None:
    """Store a run that consists only of a document."""
    with store.incoming(run_id) as directory:
        (directory / RUN_FILE).write_text(text)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with three runs."""
    made = Store(tmp_path / "store")
    for run_id in reversed(IDS):
        put(made, run_id)
    return made


def test_store_is_where_the_user_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Otherwise results would land elsewhere than the option, the variable or the rules state."""
    monkeypatch.setenv("XDG_DATA_HOME", "/srv/data")
    monkeypatch.delenv("EDGEBENCH_STORE", raising=False)
    assert default_root() == Path("/srv/data/edgebench")
    monkeypatch.setenv("EDGEBENCH_STORE", str(tmp_path / "variable"))
    assert Store().root == tmp_path / "variable"
    assert Store(tmp_path / "given").root == tmp_path / "given"


def test_relative_store_stays_where_it_was_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Otherwise a change of directory would move the store."""
    monkeypatch.chdir(tmp_path)
    store = Store(Path("results"))
    monkeypatch.chdir("/")
    assert store.root == tmp_path / "results"


def test_store_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    """Otherwise a first `edgebench runs` would fail, or create directories."""
    store = Store(tmp_path / "none")
    assert store.run_ids() == []
    assert not store.root.exists()
    with pytest.raises(UsageError, match="no run matches 'last' among 0"):
        store.resolve("last")


def test_runs_are_listed_oldest_first_and_only_whole_ones(store: Store) -> None:
    """Otherwise a directory that is not a run would be shown as a run."""
    (store.runs / "not-a-run").mkdir()
    (store.runs / "stray.txt").write_text("")
    assert store.run_ids() == list(IDS)


@pytest.mark.parametrize(
    ("name", "expected"),
    [(IDS[0], IDS[0]), ("cccc", IDS[2]), ("20260102", IDS[1]), ("aab", IDS[1]), ("last", IDS[2])],
)
def test_unique_part_names_a_run(store: Store, name: str, expected: str) -> None:
    """Otherwise a user would have to type 24 characters."""
    assert store.resolve(name) == expected


@pytest.mark.parametrize(
    ("name", "said"),
    [("aa", "2 runs match"), ("", "3 runs match"), ("zz", "no run"), ("../x", "no run")],
)
def test_part_that_names_no_run_or_several_is_an_error(store: Store, name: str, said: str) -> None:
    """Otherwise the wrong run would be shown, verified or removed."""
    with pytest.raises(UsageError, match=said):
        store.resolve(name)


def test_whole_id_wins_over_longer_ones_that_hold_it(store: Store) -> None:
    """Otherwise a run could not be named where another id contains its id."""
    put(store, IDS[0] + "-again")
    assert store.resolve(IDS[0]) == IDS[0]


def test_run_appears_only_when_it_is_whole(store: Store) -> None:
    """Otherwise half a run would be listed, judged and compared."""
    with store.incoming("new") as directory:
        (directory / RUN_FILE).write_text("{}")
        assert "new" not in store.run_ids()
    assert "new" in store.run_ids()
    assert list((store.root / "incoming").iterdir()) == []


@pytest.mark.parametrize("error", [RuntimeError("bug"), KeyboardInterrupt(), StoreError("full")])
def test_error_leaves_nothing_visible_and_keeps_what_was_fetched(
    store: Store, error: BaseException
) -> None:
    """Otherwise a failed fetch would leave half a run in the list, or restart at the first byte."""

    def fail() -> None:
        with store.incoming("new") as directory:
            (directory / RUN_FILE).write_text("{}")
            (directory / "raw" / "queries.bin").write_bytes(b"fetched")
            raise error

    with pytest.raises(type(error)):
        fail()
    assert "new" not in store.run_ids()
    with store.incoming("new") as directory:
        assert (directory / "raw" / "queries.bin").read_bytes() == b"fetched"
        (directory / RUN_FILE).write_text("{}")
    assert "new" in store.run_ids()


def test_expectation_goes_only_when_the_run_is_on_the_disk(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power cut in between would cost the run its first clock probes."""
    run_id, had_expectation = "20260104-000000-dddddddd", dict[str, bool]()
    expected = store.unfinished / run_id / EXPECTED_FILE

    def note(descriptor: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        had_expectation[name] = expected.exists()

    store.unfinished.mkdir(exist_ok=True)
    monkeypatch.setattr(os, "fsync", note)
    with store.incoming(run_id) as directory:
        (directory / RUN_FILE).write_text("{}")
        expected.write_text("{}")
    assert had_expectation == {
        RUN_FILE: True,
        EXPECTED_FILE: True,
        RAW_DIRECTORY: True,
        run_id: False,
        "runs": False,
    }


def test_run_that_is_stored_already_is_not_replaced(store: Store) -> None:
    """Otherwise a second fetch would overwrite a run that was stored, but not acknowledged."""
    put(store, IDS[0], '{"second": true}')
    assert store.document(IDS[0]) == DOCUMENT
    assert list((store.root / "incoming").iterdir()) == []


def test_run_without_a_document_goes_without_a_trace(store: Store) -> None:
    """Otherwise runs that measured nothing would pile up."""
    with store.incoming("failed") as directory:
        (directory / "raw" / "worker.log").write_text("crashed")
    assert "failed" not in store.run_ids()
    assert list((store.root / "incoming").iterdir()) == []


def test_error_of_the_disk_is_named_with_its_place(tmp_path: Path) -> None:
    """Otherwise a full or missing disk would end in a traceback after an hour of measuring."""
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "store")
    with pytest.raises(StoreError, match=r"store not writable: Not a directory: .*/file/store"):
        store.check_writable()
    with pytest.raises(StoreError, match="not writable"):
        put(store, "new")
    with pytest.raises(StoreError, match="not readable"):
        store.run_ids()


def test_writable_store_is_not_changed_by_the_question(store: Store) -> None:
    """Otherwise the check would leave files behind."""
    before = sorted(store.root.rglob("*"))
    store.check_writable()
    assert sorted(store.root.rglob("*")) == before


def test_check_that_fails_leaves_nothing_behind(store: Store) -> None:
    """Otherwise a full or limited disk would collect the files of failed checks."""
    before = sorted(store.root.rglob("*"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(StoreError, match="store not writable: File too large: "):
            store.check_writable()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(store.root.rglob("*")) == before


def test_full_disk_is_named_with_what_it_has(store: Store) -> None:
    """Otherwise a quota that is reached on a disk with room would look like a full disk."""
    full = OSError(errno.ENOSPC, "No space left on device")
    with (
        pytest.raises(StoreError, match=r"No space left on device, [\d.]+ [KMG]?i?B free: /"),
        store.incoming("new"),
    ):
        raise full


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "5", "\xff"])
def test_damaged_document_is_named(store: Store, text: str) -> None:
    """Otherwise a torn file would end in a traceback."""
    path = store.directory(IDS[0]) / RUN_FILE
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(StoreError, match=f"run not readable: .*{RUN_FILE}"):
        store.document(IDS[0])
    path.unlink()
    with pytest.raises(StoreError, match="No such file"):
        store.document(IDS[0])


def bind_socket(path: Path) -> None:
    """Put a socket in place of a file."""
    with socket.socket(socket.AF_UNIX) as made, tempfile.TemporaryDirectory() as short:
        made.bind(f"{short}/socket")  # A socket's path has at most 107 bytes.
        os.rename(f"{short}/socket", path)


@pytest.mark.parametrize("name", [RUN_FILE, QUERIES_FILE, ANNOTATIONS_FILE, "raw/record.json"])
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "a pipe in place of a file"),
        (Path.mkdir, "a directory in place of a file"),
        (bind_socket, "a socket in place of a file"),
        (lambda path: path.symlink_to("/dev/null"), "a device in place of a file"),
    ],
)
def test_what_is_no_file_damages_the_run(
    store: Store, tmp_path: Path, name: str, make: Callable[[Path], object], said: str
) -> None:
    """Otherwise a command would block on a pipe, or read a device until the memory is full."""
    path = store.directory(IDS[0]) / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    make(path)
    with pytest.raises(RunDamaged, match=f"^run is damaged: {said}: .*{name}$"):
        store.document(IDS[0])
    with pytest.raises(RunDamaged, match=said):
        write_bundle(tmp_path / "sent.zip", [Address(store, IDS[0])])
    assert list_runs(store)[0].verdict == DAMAGED
    if name == ANNOTATIONS_FILE:
        with pytest.raises(RunDamaged, match=said):
            read_annotations(store.directory(IDS[0]))


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
def test_number_that_is_not_finite_damages_the_document(store: Store, number: str) -> None:
    """Otherwise a median that is not finite would be shown, compared and exported."""
    path = store.document_path(IDS[0])
    path.write_text(f'{{"metrics": {{"latency_ns": {{"p50": {number}}}}}}}')
    with pytest.raises(RunDamaged, match=f"^run is damaged: {number} is not a finite number: "):
        store.document(IDS[0])


def test_missing_directory_of_the_variable_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a misspelt EDGEBENCH_STORE would look like a store that has no runs yet."""
    monkeypatch.setenv("EDGEBENCH_STORE", str(tmp_path / "resutls"))
    with pytest.raises(NoSuchRun, match=r"resutls, a missing directory \(\$EDGEBENCH_STORE\)$"):
        Store().resolve("last")
    assert Store(tmp_path / "other").place == f"{tmp_path / 'other'}, a missing directory"
    monkeypatch.delenv("EDGEBENCH_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert Store().place == str(tmp_path / "edgebench")
    monkeypatch.setenv("EDGEBENCH_STORE", str(tmp_path / "resutls"))
    (tmp_path / "resutls").mkdir()
    assert Store().place == str(tmp_path / "resutls")
