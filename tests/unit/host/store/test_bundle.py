"""Bundles: the content is restored exactly, and nothing else is."""

from __future__ import annotations

import json
import os
import shutil
import stat
import struct
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.records import RUN_ID, store_run

from edgebench.host.bench.verify import verify
from edgebench.host.store import bundle as bundle_module
from edgebench.host.store import bundle_file
from edgebench.host.store.address import (
    Address,
    find_in_store,
    find_run,
    find_runs,
    list_named,
    names_set,
)
from edgebench.host.store.annotations import Annotations, annotate
from edgebench.host.store.bundle import default_name, write_bundle
from edgebench.host.store.bundle_file import MANIFEST_FILE, Bundle, BundleStore, open_bundle
from edgebench.host.store.index import DAMAGED, list_runs
from edgebench.host.store.layout import Store
from edgebench.host.store.merge import merge_store
from edgebench.protocol.errors import (
    BundleNotUnpacked,
    BundleRefused,
    EdgebenchError,
    NoSuchRun,
    RunDamaged,
    RunNewer,
    StoreError,
    UsageError,
)

RUNS = Path(__file__).parents[3] / "fixtures" / "runs" / "v7"
METERED = "20261123-031049-420b03bc"
SECOND = "20260103-000000-ffffffff"
DIGEST = "0" * 64


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A store with two runs, one of them with a tag."""
    made = Store(tmp_path / "store")
    for run_id in (RUN_ID, SECOND):
        store_run(made, run_id)
    annotate(made, RUN_ID, lambda _: Annotations(("night",), "fan off"))
    return made


def bundled(store: Store, path: Path, *names: str) -> Path:
    """A bundle of these runs, by default of all."""
    runs = [run for name in names or store.run_ids() for run in find_runs(store, name)]
    write_bundle(path, runs)
    return path


def content(directory: Path) -> dict[str, bytes]:
    """Every file below a directory, by its name."""
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


def test_runs_of_every_kind_come_out_as_they_went_in(tmp_path: Path) -> None:
    """Otherwise a failed run, a run of a board, or a metered run could not be passed on."""
    there = Store(tmp_path / "there")
    shutil.copytree(RUNS, there.runs)
    path = bundled(there, tmp_path / "all.zip")
    opened = open_bundle(path)
    assert opened.run_ids() == there.run_ids()
    for run_id in there.run_ids():
        assert opened.run(run_id) == there.run(run_id)
        assert content(opened.directory(run_id)) == content(there.directory(run_id))
    here = Store(tmp_path / "here")
    assert merge_store(here, opened).added == tuple(there.run_ids())
    assert content(here.runs) == content(there.runs)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "unpacked")
    assert Store(tmp_path / "unpacked").run_ids() == there.run_ids()


def test_metered_run_verifies_out_of_a_bundle(tmp_path: Path) -> None:
    """Otherwise the receiver would have to trust the numbers."""
    there = Store(tmp_path / "there")
    shutil.copytree(RUNS / METERED, there.runs / METERED)
    found = find_run(Store(tmp_path / "none"), str(bundled(there, tmp_path / "one.zip")))
    assert verify(found.store, found.run_id) == []
    assert found.place == f"{tmp_path / 'one.zip'}#{METERED}"


def test_same_runs_make_the_same_bytes(store: Store, tmp_path: Path) -> None:
    """Otherwise two bundles could not be compared by content, nor cited by a digest."""
    first = bundled(store, tmp_path / "a.zip", RUN_ID, SECOND, RUN_ID)
    moved = Store(tmp_path / "moved")
    merge_store(moved, store)
    os.utime(moved.directory(RUN_ID) / "run.json", (0, 0))
    assert first.read_bytes() == bundled(moved, tmp_path / "b.zip", SECOND, RUN_ID).read_bytes()
    again = bundled(open_bundle(first), tmp_path / "c.zip")
    assert again.read_bytes() == first.read_bytes()


def test_annotations_are_included_by_default(store: Store, tmp_path: Path) -> None:
    """Otherwise a private remark would be passed on, or a tag would be lost."""
    here = Store(tmp_path / "none")
    path = bundled(store, tmp_path / "a.zip")
    [row] = list_named(here, [f"{path}#night"])
    assert (row.run_id, row.tags, row.note) == (RUN_ID, ("night",), "fan off")
    write_bundle(tmp_path / "b.zip", find_runs(store, RUN_ID), is_annotated=False)
    [row] = list_named(here, [str(tmp_path / "b.zip")])
    assert (row.tags, row.note) == ((), None)


def test_names_of_runs_in_a_bundle(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a received run would have to be copied into the store to be inspected."""
    bundled(store, tmp_path / "a#b.zip")
    monkeypatch.chdir(tmp_path)
    here = Store(tmp_path / "none")
    assert [run.run_id for run in find_runs(here, "a#b.zip")] == [RUN_ID, SECOND]
    for name in ("a#b.zip#night", "./a#b.zip#20260102", f"{tmp_path}/a#b.zip#{RUN_ID}"):
        assert find_run(here, name).run_id == RUN_ID
    assert find_run(here, "a#b.zip#last").run_id == SECOND
    with pytest.raises(NoSuchRun, match=r"no run matches 'x' among 2 in .*a#b\.zip"):
        find_run(here, "a#b.zip#x")
    with pytest.raises(NoSuchRun, match="no run matches '/etc'"):
        find_run(here, "a#b.zip#/etc")
    with pytest.raises(NoSuchRun, match=r"'a#b\.zip' names 2 runs"):
        find_run(here, "a#b.zip")
    with pytest.raises(UsageError, match="not a run of the store"):
        find_in_store(here, ["a#b.zip#last"])
    with pytest.raises(UsageError, match="a bundle is read-only"):
        open_bundle(Path("a#b.zip")).check_writable()


def test_bundle_of_one_set_stands_for_the_set(tmp_path: Path) -> None:
    """Otherwise five runs of one set would be listed as unrelated."""
    store = Store(tmp_path / "store")
    shutil.copytree(RUNS, store.runs)
    [set_id] = {row.set_id for row in list_named(store, store.run_ids()) if row.set_id}
    runs = find_runs(store, set_id)
    assert len(runs) > 1
    assert default_name(runs) == f"{set_id}.zip"
    path = bundled(store, tmp_path / default_name(runs), set_id)
    assert names_set(store, str(path))
    assert names_set(store, f"{path}#{set_id}")
    assert names_set(store, f"{path}#last"), "the last command made only this set"
    assert not names_set(store, str(bundled(store, tmp_path / "all.zip")))
    assert default_name(runs[:1]) == f"{runs[0].run_id}.zip"


def test_list_unpacks_documents_and_a_run_one_run(store: Store, tmp_path: Path) -> None:
    """Otherwise looking at one run of a large bundle would take minutes, and the disk."""
    found = find_run(Store(tmp_path / "none"), f"{bundled(store, tmp_path / 'a.zip')}#{SECOND}")
    assert isinstance(found.store, BundleStore)
    list_named(found.store, [RUN_ID, SECOND])
    root = found.store.root
    assert set(content(root / "runs")) == {
        *(f"{RUN_ID}/run.json", f"{RUN_ID}/annotations.json", f"{SECOND}/run.json"),
    }
    assert (found.directory / "queries.parquet").exists()
    assert not (root / "runs" / RUN_ID / "queries.parquet").exists()
    assert stat.S_IMODE(root.stat().st_mode) == 0o700


def test_file_that_is_there_stays(store: Store, tmp_path: Path) -> None:
    """Otherwise a default name would overwrite the user's results."""
    (tmp_path / "a.zip").write_text("mine")
    with pytest.raises(UsageError, match="file exists"):
        bundled(store, tmp_path / "a.zip")
    assert (tmp_path / "a.zip").read_text() == "mine"


def test_other_suffix_is_refused(store: Store, tmp_path: Path) -> None:
    """Otherwise the receiver would get a .tar.gz that tar cannot open."""
    with pytest.raises(UsageError, match=r"a bundle is a \.zip file, got"):
        bundled(store, tmp_path / "sent.tar.gz")
    assert bundled(store, tmp_path / "SENT.ZIP").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_interrupted_bundle_leaves_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """Otherwise half a bundle would be sent, or would fill the disk."""

    def fail(*_: object) -> str:
        raise error

    monkeypatch.setattr(bundle_module, "_entry", fail)
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises((KeyboardInterrupt, StoreError)) as caught:
        bundled(store, folder / "a.zip")
    assert list(folder.iterdir()) == []
    if isinstance(caught.value, StoreError):
        assert str(caught.value) == f"bundle not written: No space left on device: {folder}/a.zip"


def test_links_do_not_bring_files_of_others_along(store: Store, tmp_path: Path) -> None:
    """Otherwise an untrusted run would bring a copy of our keys into a file that is passed on."""
    (store.directory(RUN_ID) / "raw" / "key").symlink_to("/etc/passwd")
    opened = open_bundle(bundled(store, tmp_path / "a.zip"))
    assert "raw/key" not in opened.bundle.files[RUN_ID]


def test_full_disk_is_reported_before_anything_is_unpacked(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise looking at a file would fill the disk of the whole machine."""
    opened = open_bundle(bundled(store, tmp_path / "a.zip"))
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(BundleNotUnpacked, match=r"takes .* [KM]iB, disk has 10 B free"):
        opened.directory(RUN_ID)
    assert content(opened.root) == {}


def archive_of(
    path: Path, files: Iterable[tuple[str, bytes]], change: Callable[[zipfile.ZipInfo], None]
) -> Path:
    """A well-formed archive of these files, whose manifest lists them all."""
    listed = list(files)
    digests = dict.fromkeys((name for name, _ in listed), DIGEST)
    manifest = json.dumps({"bundle_version": 1, "files": digests})
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in [*listed, (MANIFEST_FILE, manifest.encode())]:
            info = zipfile.ZipInfo("x")
            info.filename = name
            change(info)
            archive.writestr(info, data)
    return path


def set_mode(mode: int) -> Callable[[zipfile.ZipInfo], None]:
    """Change the file type of every entry."""

    def change(info: zipfile.ZipInfo) -> None:
        info.external_attr = mode << 16

    return change


def compress(info: zipfile.ZipInfo) -> None:
    """Have a file deflated."""
    info.compress_type = zipfile.ZIP_DEFLATED


def nothing(_: zipfile.ZipInfo) -> None:
    """Leave a file as it is."""


GOOD = f"runs/{RUN_ID}/run.json"
HOSTILE: dict[str, tuple[list[str], Callable[[zipfile.ZipInfo], None], str]] = {
    "parent": ([GOOD, f"runs/{RUN_ID}/../../x"], nothing, "not the name of a run's file"),
    "absolute": ([GOOD, "/etc/cron.d/x"], nothing, "not the name of a run's file"),
    "elsewhere": ([GOOD, ".bashrc"], nothing, "not the name of a run's file"),
    "backslash": ([GOOD, f"runs/{RUN_ID}/..\\x"], nothing, "not the name of a run's file"),
    "drive": ([GOOD, f"runs/{RUN_ID}/C:x"], nothing, "not the name of a run's file"),
    "folder": ([GOOD, f"runs/{RUN_ID}/x/"], nothing, "not the name of a run's file"),
    "line": ([GOOD, f"runs/{RUN_ID}/x\ny"], nothing, "not the name of a run's file"),
    "escape": ([GOOD, f"runs/{RUN_ID}/\x1b[2J"], nothing, "not the name of a run's file"),
    "long": ([GOOD, f"runs/{RUN_ID}/{'x' * 256}"], nothing, "not the name of a run's file"),
    "case": ([GOOD, f"runs/{RUN_ID}/Run.JSON"], nothing, "equal on some file systems"),
    "twice": ([GOOD, GOOD], nothing, "two files have the same name"),
    "inside": ([GOOD, f"{GOOD}/x"], nothing, "equal on some file systems"),
    "link": ([GOOD], set_mode(stat.S_IFLNK | 0o777), "is not a regular file"),
    "device": ([GOOD], set_mode(stat.S_IFCHR | 0o666), "is not a regular file"),
    "bomb": ([GOOD], compress, "is compressed"),
    "no document": ([f"runs/{RUN_ID}/x"], nothing, f"run {RUN_ID} has no run.json"),
    "no run": ([f"runs/{'x' * 65}/run.json"], nothing, "not the name of a run's file"),
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_hostile_archive_is_refused_before_it_is_unpacked(kind: str, tmp_path: Path) -> None:
    """Otherwise a received file would write anywhere, or fill the disk."""
    names, change, reason = HOSTILE[kind]
    path = archive_of(tmp_path / "a.zip", [(name, b"0" * 999) for name in names], change)
    with pytest.raises(BundleRefused, match=reason) as caught:
        Bundle(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_digest_that_differs_keeps_a_file_from_being_used(tmp_path: Path) -> None:
    """Otherwise a bit that flipped in transit would change a number."""
    path = archive_of(tmp_path / "a.zip", [(GOOD, b"{}")], nothing)
    opened = open_bundle(path)
    assert [row.verdict for row in list_runs(opened)] == [DAMAGED]
    with pytest.raises(RunDamaged, match=f"wrong SHA-256 of {GOOD}"):
        opened.document(RUN_ID)


def test_file_beside_the_manifest_is_refused(store: Store, tmp_path: Path) -> None:
    """Otherwise files without a digest would be unpacked with the rest."""
    path = bundled(store, tmp_path / "a.zip")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(f"runs/{RUN_ID}/extra", "x")
    with pytest.raises(BundleRefused, match=f"'runs/{RUN_ID}/extra' is in only one of"):
        open_bundle(path)


@pytest.mark.parametrize(
    "manifest",
    [
        *("[]", "5", "{}", "[" * 100_000, "\xff", "", '{"bundle_version": "1", "files": {}}'),
        *('{"bundle_version": 1, "files": []}', '{"bundle_version": 1, "files": {"a": "b"}}'),
    ],
)
def test_manifest_that_makes_no_sense_is_refused(manifest: str, tmp_path: Path) -> None:
    """Otherwise it would end in a traceback."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(MANIFEST_FILE, manifest.encode("latin-1"))
    with pytest.raises(BundleRefused, match="not an edgebench bundle"):
        Bundle(tmp_path / "a.zip")


def test_bundle_of_a_later_version_says_so(tmp_path: Path) -> None:
    """Otherwise it would be reported as damaged, and sent again and again."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(MANIFEST_FILE, '{"bundle_version": 2, "files": {}}')
    with pytest.raises(RunNewer, match="bundle has version 2, this edgebench supports 1"):
        Bundle(tmp_path / "a.zip")


def test_archive_with_a_vast_directory_is_not_read(store: Store, tmp_path: Path) -> None:
    """Otherwise a file of 1 GB would take 10 GB of memory before any check."""
    path = bundled(store, tmp_path / "a.zip")
    data = bytearray(path.read_bytes())
    data[-10:-6] = struct.pack("<L", bundle_file.MAX_DIRECTORY_BYTES + 1)
    path.write_bytes(data)
    with pytest.raises(BundleRefused, match="directory has 16450001 bytes, at most 16450000"):
        Bundle(path)


def test_large_archive_is_read(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a recording of more than four gigabytes could not be passed on."""
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 1000)
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 3)
    path = bundled(store, tmp_path / "a.zip")
    assert path.read_bytes()[-42:-38] == b"PK\x06\x07"
    assert open_bundle(path).run(RUN_ID) == store.run(RUN_ID)
    data = bytearray(path.read_bytes())
    data[-98:-94] = b"PK\0\0"
    path.write_bytes(data)
    with pytest.raises(BundleRefused, match="directory without end record"):
        open_bundle(path)


def test_too_many_files_are_refused_when_they_are_written(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a bundle would be written that cannot be opened."""
    monkeypatch.setattr(bundle_file, "MAX_FILES", 3)
    with pytest.raises(UsageError, match=r"do not fit into a bundle: \d+ files, at most 3"):
        bundled(store, tmp_path / "a.zip")


def test_one_id_with_two_runs_is_refused(store: Store, tmp_path: Path) -> None:
    """Otherwise one of them would silently stand for both."""
    other = Store(tmp_path / "other")
    shutil.copytree(store.runs, other.runs)
    document = other.document(RUN_ID)
    document["created_utc"] = "2020-01-01T00:00:00+00:00"
    other.document_path(RUN_ID).write_text(json.dumps(document))
    with pytest.raises(UsageError, match=f"run {RUN_ID} is named twice with different content"):
        write_bundle(tmp_path / "a.zip", [Address(store, RUN_ID), Address(other, RUN_ID)])


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with a run in a store, and a bundle of it."""
    folder = tmp_path_factory.mktemp("sound")
    store = Store(folder / "store")
    store_run(store, RUN_ID)
    bundled(store, folder / "a.zip")
    return folder


@given(
    cut=st.floats(0, 1),
    changes=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=4),
    is_cut=st.booleans(),
    is_late=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_damaged_bundle_gives_the_run_as_it_was_or_an_error(
    sound: Path,
    cut: float,
    changes: list[tuple[float, int]],
    is_cut: bool,
    is_late: bool,
) -> None:
    """Otherwise damage would change a number, or end in a traceback."""
    data = (sound / "a.zip").read_bytes()
    changed = bytearray(data[: int(cut * len(data))] if is_cut else data)
    begin = data.rindex(b"PK\x01\x02") if is_late else 0
    for place, by in changes:
        at = begin + int(place * (len(data) - begin))
        if at < len(changed):
            changed[at] ^= by
    path = sound / "damaged.zip"
    path.write_bytes(changed)
    with suppress(EdgebenchError):
        # No other error, and no other bytes.
        opened = BundleStore(path)
        found = content(opened.directory(RUN_ID))
        assert found == content(Store(sound / "store").directory(RUN_ID))
