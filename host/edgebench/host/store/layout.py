"""Layout of a store, and atomic storing of runs.

    <store>/runs/<run-id>/        run.json and the traces; created by a single rename
    <store>/incoming/<run-id>/    facts of a run that was started, then its files while they are
                                  fetched; may be left by a killed host or agent (`incomplete`)
    <store>/set-aside/<run-id>/   a run that was fetched and cannot be analysed (`set_aside`)
    <store>/campaigns/<id>/       plan and journal of a campaign (`campaign.journal`)
    <store>/lab/                  runs and models in transit through a lab (`campaign.cluster`)
    <store>/live/                 live status of commands that measure (`live`)
    <store>/index.sqlite          a cache over the directories

The agent's record of a run is kept under raw/ in the run's directory, so that every number can be
recomputed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgebench.host.result.document import Document, from_document, version_of
from edgebench.host.result.run import Run
from edgebench.host.store.finite_json import NotFinite, read_finite
from edgebench.host.store.names import STORE_VARIABLE, default_root
from edgebench.protocol.errors import NoSuchRun, RunDamaged, RunNewer, StoreError
from edgebench.protocol.record import RUN_ID
from edgebench.protocol.sizes import format_bytes
from edgebench.system.file_kinds import fault_of_file
from edgebench.system.paths import refuse_long
from edgebench.system.whole_files import is_unfinished, make_directory, sync_directory, sync_tree

RUN_FILE = "run.json"
QUERIES_FILE = "queries.parquet"
HOST_FACTS_FILE = "host.json"
"""File under raw/ with the facts about a run that the host recorded."""
LABELS_FILE = "labels.npz"
"""File under raw/ with the labels of the data set, and its samples if the metric needs them."""
TELEMETRY_FILE = "telemetry.parquet"
POWER_FILE = "power.parquet"
POWER_OUTLINE_FILE = "power-outline.parquet"
"""File with summaries of blocks of samples of a long recording, for charts; see `power`."""
CLOCK_FILE = "clock.parquet"
EVENTS_FILE = "events.jsonl"
RAW_DIRECTORY = "raw"
EXPECTED_FILE = "expected.json"
"""File under incoming/ that names the device on which a run was started; see `incomplete`."""
ANNOTATIONS_FILE = "annotations.json"
"""File next to run.json with the annotations of users; see `annotations`."""
CAMPAIGNS_DIRECTORY = "campaigns"
LIVE_DIRECTORY = "live"
PLAN_FILE = "plan.json"
JOURNAL_FILE = "journal.jsonl"
HOST_FILES = frozenset({HOST_FACTS_FILE, LABELS_FILE})
"""Files under raw/ that the host writes before a run starts."""
PROBE_BYTES = 4096
"""Size of the file that tests whether a store is writable; the block size of most file systems."""
_FULL = {errno.ENOSPC, errno.EDQUOT}


def names_in(
    directory: Path, absent: tuple[type[OSError], ...] = (FileNotFoundError,)
) -> list[str]:
    """Sorted names in a directory of a store; empty if listing raises one of the errors `absent`.

    Raises:
        StoreError: the directory cannot be read.
    """
    try:
        return sorted(os.listdir(directory))
    except absent:
        return []
    except OSError as exc:
        raise StoreError(f"store not readable: {exc.strerror}: {directory}") from exc


@contextmanager
def locked_run(directory: Path) -> Iterator[None]:
    """Lock the directory of a run against other processes; the lock ends with the process."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            # Observers hold the lock for microseconds, `changed_run` holds it while it copies.
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class Store:
    """Directory with the stored runs of a user or a project."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = (root or default_root()).absolute()
        refuse_long(self.root)

    @property
    def place(self) -> str:
        """Path of the store for messages, with a remark if the user named a missing directory."""
        named = os.environ.get(STORE_VARIABLE)
        is_default = self.root == default_root().absolute()
        if self.root.is_dir() or (is_default and not named):
            return str(self.root)
        variable = f" (${STORE_VARIABLE})" if is_default else ""
        return f"{self.root}, a missing directory{variable}"

    @property
    def runs(self) -> Path:
        """Directory of complete runs."""
        return self.root / "runs"

    @property
    def unfinished(self) -> Path:
        """Directory of runs that are not complete yet."""
        return self.root / "incoming"

    @property
    def set_aside(self) -> Path:
        """Directory of runs that cannot be analysed."""
        return self.root / "set-aside"

    def run_ids(self) -> list[str]:
        """Ids of all runs, sorted; as an id begins with the time, the oldest run is first."""
        return [name for name in names_in(self.runs) if self.has(name)]

    def has(self, name: str) -> bool:
        """Whether a name is the id of a stored run; the directory is not listed for this."""
        return bool(RUN_ID.fullmatch(name)) and os.path.exists(f"{self.runs}/{name}/{RUN_FILE}")

    def resolve(self, name: str) -> str:
        """Id of the only run that a name matches; see `matching`.

        Raises:
            NoSuchRun: no run matches, or several runs match.
        """
        run_ids = self.matching(name)
        if len(run_ids) == 1:
            return run_ids[0]
        if run_ids:
            raise NoSuchRun(f"{len(run_ids)} runs match {name!r}: {', '.join(run_ids[:4])} …")
        count = len(self.run_ids())
        raise NoSuchRun(
            f"no run matches {name!r} among {count} in {self.place}", is_store_empty=count == 0
        )

    def matching(self, name: str) -> list[str]:
        """Ids that match a name; the name is an id, a part of an id, or `last`.

        The first rule that applies determines the result:

        1. An id equals the name: this id.
        2. The name is `last`: the newest id.
        3. A single id starts with the name: this id.
        4. In all other cases: all ids that contain the name.
        """
        if self.has(name):
            return [name]
        ids = self.run_ids()
        if name == "last" and ids:
            return ids[-1:]
        beginning = [run_id for run_id in ids if run_id.startswith(name)]
        return beginning if len(beginning) == 1 else [run_id for run_id in ids if name in run_id]

    def directory(self, run_id: str) -> Path:
        """Directory of a complete run.

        Raises:
            StoreError: the run id is malformed.
        """
        return self.runs / _checked(run_id)

    def document_path(self, run_id: str) -> Path:
        """Path of a run's run.json, in the same directory as its annotations.

        Raises:
            StoreError: the run id is malformed.
        """
        return self.directory(run_id) / RUN_FILE

    def run(self, run_id: str) -> Run:
        """Read a stored run.

        Raises:
            StoreError: the run is not readable, or has a newer schema than this edgebench supports.
        """
        document = self.document(run_id)
        try:
            return from_document(document)
        except RunDamaged as exc:
            raise RunDamaged(f"{exc}: {self.document_path(run_id)}") from exc

    def document(self, run_id: str) -> Document:
        """Content of a run's run.json as stored; all readers of the file use this method.

        Raises:
            RunDamaged: the document is not readable, or a file of the run is not a regular file.
            RunNewer: the schema is newer than this edgebench, so keys may have another meaning.
        """
        path = self.document_path(run_id)
        require_files(path.parent)
        try:
            document = read_finite(path)
        except OSError as exc:
            raise RunDamaged(f"run not readable: {exc.strerror}: {path}") from exc
        except NotFinite as exc:
            raise RunDamaged(f"run is damaged: {exc}: {path}") from exc
        except (ValueError, RecursionError) as exc:
            raise RunDamaged(f"run not readable: not JSON: {path}") from exc
        if not isinstance(document, dict):
            raise RunDamaged(f"run not readable: not a JSON object: {path}")
        try:
            version_of(document)
        except (RunDamaged, RunNewer) as exc:
            raise type(exc)(f"{exc}: {path}") from exc
        return document

    def copy_run(self, run_id: str, directory: Path) -> None:
        """Copy the files of a run into another directory.

        Raises:
            OSError: a file cannot be read or written.
        """
        source = self.directory(run_id)
        for path in regular_files(source):
            target = directory / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)

    @contextmanager
    def expecting(self, run_id: str) -> Iterator[Path]:
        """Directory of a run that is about to start, for facts known before the start.

        Raises:
            StoreError: the store cannot be written.
        """
        with self._writing():
            path = self._incoming(run_id)
            yield path
            sync_tree(path)
            sync_directory(path.parent)

    def forget_expected(self, run_id: str) -> None:
        """Remove the directory of a run that never started."""
        shutil.rmtree(self.unfinished / _checked(run_id), ignore_errors=True)

    def _incoming(self, run_id: str) -> Path:
        path = self.unfinished / _checked(run_id)
        make_directory(self.unfinished)
        (path / RAW_DIRECTORY).mkdir(parents=True, exist_ok=True)  # synced when it has content
        return path

    @contextmanager
    def incoming(self, run_id: str) -> Iterator[Path]:
        """Directory for the files of a run; it becomes a complete run if the block succeeds.

        After an error the directory stays, so that fetched files need not be fetched again. If the
        block writes no run.json, the run measured nothing, and the directory is removed.

        Raises:
            StoreError: the store cannot be written.
        """
        with self._writing():
            path = self._incoming(run_id)
            make_directory(self.runs)
            yield path
            # Until the run is on disk, the expectation is the only copy of the first clock probes.
            sync_tree(path)
            (path / EXPECTED_FILE).unlink(missing_ok=True)
            sync_directory(path)
            # A host that was killed before it confirmed the run may have stored it already.
            if self.directory(run_id).exists() or not (path / RUN_FILE).exists():
                shutil.rmtree(path)
            else:
                path.rename(self.directory(run_id))
            sync_directory(self.runs)

    def settle(self) -> None:
        """Sync the directory of runs to disk.

        A process that was killed right after it renamed the directory of a run into place has not
        synced the rename.

        Raises:
            StoreError: the directory cannot be synced.
        """
        with self._writing():
            sync_directory(self.runs)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Raise an OSError of the block as a StoreError, with the free space if the disk is full.

        Raises:
            StoreError: the block raised an OSError.
        """
        try:
            yield
        except OSError as exc:
            reason = exc.strerror or str(exc)
            if exc.errno in _FULL:
                with suppress(OSError):
                    reason += f", {format_bytes(shutil.disk_usage(self.root).free)} free"
            raise StoreError(f"store not writable: {reason}: {self.root}") from exc

    def check_writable(self) -> None:
        """Check before a measurement that its result can be stored.

        Raises:
            StoreError: the store cannot be written.
        """
        import tempfile  # imported here because it is slow to load

        with self._writing():
            make_directory(self.runs)
            # A file without a name, if the system supports it: a kill leaves nothing behind.
            with tempfile.TemporaryFile(dir=self.root) as probe:
                probe.write(b"\0" * PROBE_BYTES)
                probe.flush()


def require_files(directory: Path) -> None:
    """Check that all files of a run are regular files.

    Opening a pipe would block until a writer opens it, and reading a device may never end.

    Raises:
        RunDamaged: the run contains a pipe, a device or a socket, or a directory with the name of a
            file.
    """
    for folder, folders, names in os.walk(directory):
        # Each file of a run has a suffix; a directory has none.
        for name in [*names, *(folder for folder in folders if os.path.splitext(folder)[1])]:
            require_file(os.path.join(folder, name))


def require_file(path: str | Path) -> None:
    """Check that a path of a run is a regular file or does not exist.

    Raises:
        RunDamaged: the path is a pipe, a device, a socket or a directory.
    """
    if (fault := fault_of_file(path)) is not None:
        raise RunDamaged(f"run is damaged: {fault}: {path}")


def regular_files(directory: Path) -> list[Path]:
    """Completely written regular files below a directory.

    Links are skipped because they lead elsewhere, pipes because opening them blocks.
    """
    files: list[Path] = []
    for folder, _, names in os.walk(directory):
        paths = [Path(folder, name) for name in sorted(names) if not is_unfinished(name)]
        files += [path for path in paths if stat.S_ISREG(path.lstat().st_mode)]
    return files


def _checked(run_id: str) -> str:
    if not RUN_ID.fullmatch(run_id):
        raise StoreError(f"malformed run id: {run_id[:80]!r}")
    return run_id
