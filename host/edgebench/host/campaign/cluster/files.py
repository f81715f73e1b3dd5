"""Files on their way between coordinator and lab host: models and data sets there, runs back."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from edgebench.host.campaign.cluster.messages import FileRef
from edgebench.host.store.incomplete import claimed
from edgebench.host.store.index import note_run
from edgebench.host.store.layout import ANNOTATIONS_FILE, RUN_FILE, Store
from edgebench.protocol.digests import sha256_of
from edgebench.protocol.errors import FileChanged, RunDamaged, StoreError, UsageError
from edgebench.system.whole_files import make_directory, sync_directory, sync_file

PART_BYTES = 2**20
"""Size of the parts of files. A slow link has to carry each within the time of a call, 20 s: with
420 kbit/s it does. A file for a lab host of which one arrives too late is begun anew; a run on its
way back goes on with that part."""
UNUSED_S = 30 * 86400.0
"""Time after which a lab host forgets a file that no campaign needed."""
FILES_DIRECTORY = "cluster"


def file_ref(path: Path) -> FileRef:
    """A file of this host.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            digest = sha256_of(file).hexdigest()
        return FileRef(digest, path.name, path.stat().st_size)
    except OSError as exc:
        raise UsageError(f"file not readable: {exc.strerror}: {path}") from exc


class LabFiles:
    """Files that coordinators have sent, in the store of a lab host."""

    def __init__(self, store: Store) -> None:
        self._root = store.root / FILES_DIRECTORY
        self._lock = threading.Lock()

    def path(self, file: FileRef) -> Path:
        """Where a file is, or will be; its name is kept, as results have it."""
        digest = hashlib.sha256(f"{file.sha256} {file.name}".encode()).hexdigest()
        return self._root / digest[:32] / Path(file.name).name

    def has(self, file: FileRef) -> bool:
        """Whether it is here and whole; then it is kept for another while."""
        path = self.path(file)
        with suppress(OSError):
            os.utime(path.parent)
            return path.stat().st_size == file.size_bytes
        return False

    def write(self, file: FileRef, offset: int, part: bytes) -> None:
        """Add a part; the last one makes the file whole.

        Raises:
            FileChanged: it is not what it should be.
            StoreError: it cannot be written.
        """
        path = self.path(file)
        beside = path.parent / ".part"
        with self._lock:
            if self.has(file):  # another lane was faster
                return
            try:
                make_directory(path.parent)
                with beside.open("ab" if offset else "wb") as opened:
                    opened.truncate(offset)
                    opened.write(part)
                if offset + len(part) < file.size_bytes:
                    return
                with beside.open("rb") as opened:
                    digest = sha256_of(opened).hexdigest()
                if digest != file.sha256:
                    beside.unlink()
                    raise FileChanged(f"file changed while it was sent to a lab host: {file.name}")
                sync_file(beside)  # by its size alone it is taken for whole
                beside.replace(path)
                sync_directory(path.parent)
            except OSError as exc:
                raise StoreError(f"store not writable: {exc.strerror}: {self._root}") from exc

    def remove_unused(self) -> None:
        """Remove files that were not needed for long."""
        with suppress(OSError):
            for folder in list(self._root.iterdir()):
                if time.time() - folder.stat().st_mtime > UNUSED_S:
                    shutil.rmtree(folder, ignore_errors=True)


def pack_run(store: Store, run_id: str, into: BinaryIO) -> int:
    """Write the files of a stored run as one; its size.

    Raises:
        StoreError: they cannot be read.
    """
    directory = store.directory(run_id)
    try:
        with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED, strict_timestamps=False) as packed:
            for folder, folders, names in os.walk(directory):
                folders.sort()  # packed again, it is the same file, and a host may have half of it
                for name in sorted(names):
                    path = Path(folder, name)
                    packed.write(path, str(path.relative_to(directory)))
        return into.tell()
    except OSError as exc:
        raise StoreError(f"run not readable: {exc.strerror}: {directory}") from exc


def store_packed(store: Store, run_id: str, packed: BinaryIO) -> None:
    """Store a run that a lab host has packed; it appears whole or not at all.

    Raises:
        RunDamaged: that is no run.
        StoreError: it cannot be written.
    """
    with store.incoming(run_id) as directory, claimed(directory):
        try:
            with zipfile.ZipFile(packed) as files:
                files.extractall(directory)  # no name in it leads out of the directory
        except (zipfile.BadZipFile, ValueError) as exc:
            raise RunDamaged(f"run {run_id} arrived damaged: {exc}") from exc
        (directory / ANNOTATIONS_FILE).unlink(missing_ok=True)
        if not (directory / RUN_FILE).exists():
            raise RunDamaged(f"run {run_id} arrived without its result")
    note_run(store, run_id)


class ArrivingRun:
    """The packed files of a run on their way here; what has come survives a link that is lost."""

    def __init__(self, store: Store, run_id: str) -> None:
        """Whatever of the run came earlier.

        Raises:
            StoreError: that is not the id of a run, or the store cannot be read.
        """
        self._store, self._run_id = store, run_id
        self._folder = store.root / FILES_DIRECTORY / "arriving"
        name = store.directory(run_id).name
        with _store_errors(store):
            self._path = next(self._folder.glob(f"{name}.*"), None)
            self.size_bytes = self._path.stat().st_size if self._path is not None else 0
            """What has come: the offset of the next part."""

    def add(self, sha256: str, part: bytes) -> bool:
        """Add the next part of what has this digest; False where that is not what came before.

        Then it begins anew: the lab host has packed the run again.

        Raises:
            StoreError: the store cannot be written.
        """
        digest = hashlib.sha256(sha256.encode()).hexdigest()  # whatever the lab host says
        path = self._folder / f"{self._store.directory(self._run_id).name}.{digest}"
        with _store_errors(self._store):
            if self._path is not None and self._path != path:
                self.forget()
                return False
            self._folder.mkdir(parents=True, exist_ok=True)
            with path.open("ab") as file:
                self._path = path
                file.write(part)
            self.size_bytes += len(part)
        return True

    def keep(self, sha256: str) -> None:
        """Put the run into the store, now that all of it has come.

        Raises:
            RunDamaged: that is no run, or not what was sent.
            StoreError: the store cannot be written.
        """
        assert self._path is not None, "something has come"
        try:
            with _store_errors(self._store), self._path.open("rb") as packed:
                if sha256_of(packed).hexdigest() != sha256:
                    raise RunDamaged(f"run {self._run_id} arrived damaged")
                store_packed(self._store, self._run_id, packed)
        except RunDamaged:
            self.forget()
            raise
        self.forget()

    def forget(self) -> None:
        """Nothing has come."""
        with _store_errors(self._store):
            if self._path is not None:
                self._path.unlink(missing_ok=True)
        self._path, self.size_bytes = None, 0


@contextmanager
def _store_errors(store: Store) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise StoreError(f"store not writable: {exc.strerror}: {store.root}") from exc
