"""Format and reader of bundles, which are possibly untrusted files with any number of runs.

    edgebench-bundle.json       version, and the SHA-256 of every other file
    runs/<run-id>/…             directories of runs, as in a store

Theory of operation. A bundle is a ZIP archive without compression. So the same runs give the same
bytes everywhere, files have the same size inside and outside, and an archive never unpacks to more
than its own size. The files that any ZIP program unpacks from a bundle form a store.

A bundle may come from any source. So the archive's directory is checked as a whole before the first
file is read. These conditions must hold:

    the number of files is within a limit,
    all files are regular files within the archive,
    the names of the files stay inside the directory and are distinct on every file system,
    the manifest lists exactly these files.

A file is used only if its digest matches the manifest. The digests detect damage, but are not a
signature: a manifest can be rewritten together with a run.

Files are unpacked on demand into a temporary directory of this process. A list of runs needs only
the documents. The traces of a run need all files of this run. The directory is removed when the
process ends.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import struct
import unicodedata
import weakref
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from typing import NoReturn

from edgebench.host.store.layout import ANNOTATIONS_FILE, RUN_FILE, Store
from edgebench.protocol.errors import (
    BundleDamaged,
    BundleNotUnpacked,
    BundleRefused,
    RunDamaged,
    RunNewer,
    UsageError,
    os_error_as,
)
from edgebench.protocol.record import RUN_ID
from edgebench.protocol.sizes import format_distinct_sizes

MANIFEST_FILE = "edgebench-bundle.json"
BUNDLE_VERSION = 1
RUNS = "runs"
"""Folder with the runs, as in a store."""
SUFFIX = ".zip"
MARK = "#"
"""Separator between the path of a bundle and the name of a run in it, as in `sent.zip#20261123`."""
MAX_FILES = 50_000
"""Maximum number of files in a bundle; about 4,000 runs have this number of files."""
MAX_NAME_BYTES = 255
"""Maximum length of a file's name with its folders, bytes; all file systems accept this length."""
MAX_MANIFEST_BYTES = 1 << 24
MAX_DIRECTORY_BYTES = MAX_FILES * (46 + MAX_NAME_BYTES + 28)
"""Maximum size of the archive's directory, which has a header, a name and 64-bit sizes for each
file. Source: APPNOTE.TXT 6.3.10 of PKWARE, 4.3.12 and 4.5.3."""
_END = struct.Struct("<4s4H2LH")
"""Record at the end of the archive's directory; source: APPNOTE.TXT, 4.3.16."""
_END_64 = struct.Struct("<4sQ2H2L4Q")
"""Record at the end of a large archive's directory (ZIP64), before its locator; source:
APPNOTE.TXT, 4.3.14."""
_LOCATOR_BYTES = 20
_IN_END_64 = 0xFFFFFFFF
"""Value of a size field if the ZIP64 record contains the real size."""
_IS_ENCRYPTED = 0x1
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BLOCK_BYTES = 1 << 20


def is_bundle(name: str) -> bool:
    """Whether a name is the path of an existing file; such a file is treated as a bundle."""
    return (name.lower().endswith(SUFFIX) or os.sep in name) and os.path.isfile(name)


def split_name(name: str) -> tuple[Path, str] | None:
    """Split a name into the path of a bundle and the name of a run in the bundle.

    The second part is empty if the name refers to the whole bundle. The result is None if the name
    does not refer to a bundle.
    """
    if is_bundle(name):
        return Path(name), ""
    path, mark, run = name.rpartition(MARK)
    return (Path(path), run) if mark and is_bundle(path) else None


def open_store(path: Path | None) -> Store:
    """The store in a directory or a bundle; without a path, the default store of this user.

    Raises:
        BundleRefused: the path is a file, but not a bundle.
        RunNewer: the bundle has a later version.
    """
    return Store(path) if path is None or not os.path.isfile(path) else open_bundle(path)


def refuse_bundle(store: Store) -> None:
    """Raise an error if a store is a bundle, before any device is contacted.

    Raises:
        UsageError: the store is a bundle, which is read-only.
    """
    if isinstance(store, BundleStore):
        store.check_writable()


def open_bundle(path: Path) -> BundleStore:
    """Open a bundle as a store; returns the same object while the file is unchanged.

    Raises:
        BundleRefused: the file is not a bundle, is damaged, or exceeds a limit.
        RunNewer: the bundle has a later version.
    """
    with os_error_as(BundleRefused, "bundle not readable", path):
        facts = path.stat()
    return _cached_store(path.absolute(), (facts.st_ino, facts.st_size, facts.st_mtime_ns))


@cache
def _cached_store(path: Path, stamp: tuple[int, int, int]) -> BundleStore:
    del stamp  # part of the cache key: the stamp changes with the file
    return BundleStore(path)


def fault_of_names(names: Iterable[str]) -> str | None:
    """Reason why a bundle cannot contain files with these names; None if it can."""
    listed = list(names)
    if len(listed) > MAX_FILES:
        return f"{len(listed)} files, at most {MAX_FILES}"
    for name in listed:
        if not _is_name(name):
            return f"not the name of a run's file: {name[:80]!r}"
    plain = [unicodedata.normalize("NFC", name).casefold() for name in listed]
    folders = {str(parent) for name in plain for parent in PurePosixPath(name).parents}
    if len(set(plain)) < len(plain) or folders.intersection(plain):
        return "two names that are equal on some file systems"
    return None


def _is_name(name: str) -> bool:
    """Whether this is a name inside a run's directory that every file system accepts."""
    parts = name.split("/")
    return (
        len(parts) > 2
        and parts[0] == RUNS
        and RUN_ID.fullmatch(parts[1]) is not None
        and name.isprintable()
        and not any(mark in name for mark in '\\:*?"<>|')
        and not any(part in ("", ".", "..") for part in parts)
        and len(name.encode(errors="surrogatepass")) <= MAX_NAME_BYTES
    )


class Bundle:
    """An open bundle, whose files are found by run and name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        size_bytes = _check_directory(path)
        with self._refusing():
            self._archive = zipfile.ZipFile(path)
            infos = self._archive.infolist()
        if fault := _fault_of_entries(infos, size_bytes):
            self._refuse(fault)
        self._digests = self._read_manifest({info.filename: info for info in infos})
        self.files: dict[str, list[str]] = {}
        """Names of the files of each run, by run id."""
        for name in sorted(self._digests):
            _, run_id, inside = name.split("/", 2)
            self.files.setdefault(run_id, []).append(inside)
        for run_id, names in self.files.items():
            if RUN_FILE not in names:
                self._refuse(f"run {run_id} has no {RUN_FILE}")

    def unpack(self, run_id: str, name: str, directory: Path) -> None:
        """Unpack a file of a run into the run's directory.

        Raises:
            BundleDamaged: the file's digest differs from the manifest.
            BundleNotUnpacked: the file cannot be written.
        """
        inside = f"{RUNS}/{run_id}/{name}"
        target = directory / name
        digest = hashlib.sha256()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as out:
                for block in self._blocks(inside):
                    digest.update(block)
                    out.write(block)
            if digest.hexdigest() != self._digests[inside]:
                raise BundleDamaged(f"bundle is damaged: wrong SHA-256 of {inside}: {self.path}")
        except OSError as exc:
            reason = exc.strerror or str(exc)
            raise BundleNotUnpacked(f"bundle not unpacked: {reason}: {directory}") from exc
        except RunDamaged:
            target.unlink()
            raise

    def size_bytes(self, run_id: str, names: Iterable[str]) -> int:
        """Total size of these files of a run."""
        inside = (f"{RUNS}/{run_id}/{name}" for name in names)
        return sum(self._archive.getinfo(name).file_size for name in inside)

    def _blocks(self, name: str) -> Iterator[bytes]:
        """Content of a file of the archive, in blocks."""
        try:
            with self._archive.open(name) as file:
                while block := file.read(_BLOCK_BYTES):
                    yield block
        except Exception as exc:  # zipfile raises a dozen types, and the file may be removed
            raise BundleDamaged(f"bundle is damaged: {name}: {exc}: {self.path}") from exc

    def _read_manifest(self, infos: Mapping[str, zipfile.ZipInfo]) -> dict[str, str]:
        """Map the name of each file to its SHA-256; the names must match the archive."""
        if MANIFEST_FILE not in infos:
            self._refuse(f"no {MANIFEST_FILE}")
        if (size := infos[MANIFEST_FILE].file_size) > MAX_MANIFEST_BYTES:
            self._refuse(f"manifest has {size} bytes, limit {MAX_MANIFEST_BYTES}")
        with self._refusing():
            manifest = json.loads(b"".join(self._blocks(MANIFEST_FILE)))
            version, digests = manifest["bundle_version"], manifest["files"]
            if type(version) is not int or version < 1:
                raise ValueError(f"bundle_version is {version!r}")
        if version > BUNDLE_VERSION:
            known = f"this edgebench supports {BUNDLE_VERSION}"
            raise RunNewer(f"bundle has version {version}, {known}: {self.path}")
        if not isinstance(digests, dict) or not all(
            isinstance(digest, str) and _SHA256.fullmatch(digest) for digest in digests.values()
        ):
            self._refuse("manifest has no digests")
        if fault := fault_of_names(digests):
            self._refuse(fault)
        if differing := sorted((infos.keys() - {MANIFEST_FILE}) ^ digests.keys()):
            self._refuse(f"file {differing[0][:80]!r} is in only one of archive and manifest")
        return digests

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        try:
            yield
        except Exception as exc:  # zipfile and json raise a dozen types, including MemoryError
            raise BundleRefused(f"not an edgebench bundle, or damaged: {exc}: {self.path}") from exc

    def _refuse(self, fault: str) -> NoReturn:
        raise BundleRefused(f"not an edgebench bundle: {fault}: {self.path}")


class BundleStore(Store):
    """The runs of a bundle as a read-only store."""

    def __init__(self, path: Path) -> None:
        import tempfile  # imported here because it is slow to load

        self.bundle = Bundle(path)
        self._unpacked: dict[str, set[str]] = {}
        """Maps each run to the names of its files that were unpacked so far."""
        with os_error_as(BundleNotUnpacked, "bundle not unpacked", path):
            root = Path(tempfile.mkdtemp(prefix="edgebench-bundle-"))
        weakref.finalize(self, shutil.rmtree, root, ignore_errors=True)
        super().__init__(root)

    @property
    def place(self) -> str:
        """Path of the bundle."""
        return str(self.bundle.path)

    @property
    def runs(self) -> Path:
        """Directory with the document and the annotations of every run.

        A damaged document is unpacked as an empty file, so that lists still contain the run.
        """
        for run_id in self.bundle.files:
            try:
                self.document_path(run_id)
            except RunDamaged:
                (self.root / RUNS / run_id / RUN_FILE).touch()
        return self.root / RUNS

    def run_ids(self) -> list[str]:
        """Ids of all runs, oldest first."""
        return sorted(self.bundle.files)

    def has(self, name: str) -> bool:
        """Whether this is the id of a run in the bundle."""
        return name in self.bundle.files

    def directory(self, run_id: str) -> Path:
        """Directory of a run with all of its files.

        Raises:
            StoreError: the bundle has no such run, the run is damaged, or the disk has less free
                space than the files of the run need.
        """
        names = self.bundle.files.get(run_id, ())
        size_bytes = self.bundle.size_bytes(run_id, set(names) - self._unpacked.get(run_id, set()))
        if size_bytes > (free_bytes := shutil.disk_usage(self.root).free):
            takes, has = format_distinct_sizes(size_bytes, free_bytes)
            raise BundleNotUnpacked(
                f"bundle not unpacked: run {run_id} takes {takes}, disk has {has} free: {self.root}"
            )
        return self._unpack(run_id, names)

    def document_path(self, run_id: str) -> Path:
        """Path of a run's run.json; only this file and the annotations are unpacked.

        Raises:
            StoreError: the bundle has no such run, the run is damaged, or the disk is full.
        """
        names = self.bundle.files.get(run_id, ())
        wanted = [name for name in names if name in (RUN_FILE, ANNOTATIONS_FILE)]
        return self._unpack(run_id, wanted) / RUN_FILE

    def _unpack(self, run_id: str, names: Iterable[str]) -> Path:
        if run_id not in self.bundle.files:
            raise RunDamaged(f"no run {run_id[:80]!r} in {self.place}")
        directory = self.root / RUNS / run_id
        unpacked = self._unpacked.setdefault(run_id, set())
        for name in names:
            if name not in unpacked:
                self.bundle.unpack(run_id, name, directory)
                unpacked.add(name)
        return directory

    def copy_run(self, run_id: str, directory: Path) -> None:
        """Write the files of a run into another directory.

        Raises:
            StoreError: the run is damaged, or the files cannot be written.
        """
        for name in self.bundle.files[run_id]:
            self.bundle.unpack(run_id, name, directory)

    def check_writable(self) -> None:
        """Refuse writes, because bundles are read-only.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"a bundle is read-only: {self.place}")


def _check_directory(path: Path) -> int:
    """Check the size of an archive's directory; return the size of the archive.

    Raises:
        BundleRefused: the directory is too large, or the file is not an archive as written by
            edgebench.
    """
    with os_error_as(BundleRefused, "bundle not readable", path), path.open("rb") as file:
        size_bytes = file.seek(0, os.SEEK_END)
        file.seek(max(0, size_bytes - _END_64.size - _LOCATOR_BYTES - _END.size))
        tail = file.read()
    # An archive comment is refused because it could contain another end record. A locator before
    # the end record indicates a ZIP64 record.
    if tail[-_END.size :][:4] != b"PK\x05\x06" or tail[-2:] != b"\0\0":
        raise BundleRefused(f"not an edgebench bundle, or truncated: {path}")
    directory_bytes = _END.unpack(tail[-_END.size :])[5]
    if tail[-_END.size - _LOCATOR_BYTES :][:4] == b"PK\x06\x07":
        if tail[:4] != b"PK\x06\x06":
            raise BundleRefused(f"not an edgebench bundle: directory without end record: {path}")
        short_bytes = directory_bytes if directory_bytes < _IN_END_64 else 0
        directory_bytes = max(_END_64.unpack(tail[: _END_64.size])[8], short_bytes)
    if directory_bytes > MAX_DIRECTORY_BYTES:
        raise BundleRefused(
            f"not an edgebench bundle: directory has {directory_bytes} bytes, at most "
            f"{MAX_DIRECTORY_BYTES} are allowed: {path}"
        )
    return size_bytes


def _fault_of_entries(infos: list[zipfile.ZipInfo], size_bytes: int) -> str | None:
    """Reason why these entries cannot form a bundle of this size; None if they can."""
    for info in infos:
        shown = repr(info.filename[:80])
        kind = stat.S_IFMT(info.external_attr >> 16)
        if info.flag_bits & _IS_ENCRYPTED:
            return f"{shown} is encrypted"
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            return f"{shown} is compressed"
        if kind not in (0, stat.S_IFREG) or info.orig_filename != info.filename:
            return f"{shown} is not a regular file"
    if len({info.filename for info in infos}) < len(infos):
        return "two files have the same name"
    if sum(info.file_size for info in infos) > size_bytes:
        return f"files are larger than the archive of {size_bytes} bytes"
    return None
