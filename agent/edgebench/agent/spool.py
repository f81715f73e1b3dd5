"""Finished runs, kept until their host acknowledges them.

work/<run-id>/     a run in progress; removed when the agent starts
spool/<run-id>/    a complete finished run, renamed from work/ after all its files were synced

The owner is stored in the record and in a separate file. A run with a damaged record therefore
still belongs to its host. The host fetches such a run and sets it aside. Other entries of the spool
are ignored.
"""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgebench.agent.files import disk_errors, make_private_directory, write_private
from edgebench.protocol.digests import sha256_of
from edgebench.protocol.errors import NoSpace, TargetError, UsageError
from edgebench.protocol.messages import RunEnded, SpooledFile
from edgebench.protocol.record import RUN_ID, Outcome
from edgebench.protocol.sizes import format_distinct_sizes
from edgebench.protocol.traces import RECORD_FILE, SPOOL_FILES
from edgebench.system.whole_files import sync_directory, sync_file

OWNER_FILE = "owner"
"""File with the identity of a run's host; not sent to the host."""
DEFAULT_QUOTA_BYTES = 4 * 2**30
LEAST_FREE_BYTES = 2 * 2**20
"""No run starts with less free space than this, the smallest amount that any run needs. The worker
checks the free space again, because it can compute how much it will write."""


class Spool:
    """The runs of an agent."""

    def __init__(self, directory: Path, quota_bytes: int = DEFAULT_QUOTA_BYTES) -> None:
        self._work = directory / "work"
        self._spool = directory / "spool"
        self.quota_bytes = quota_bytes
        for path in (self._work, self._spool):
            make_private_directory(path)

    def sweep(self) -> list[str]:
        """Remove the runs that an earlier agent left unfinished; returns their ids."""
        lost = [path.name for path in self._work.iterdir()]
        for name in lost:
            shutil.rmtree(self._work / name, ignore_errors=True)
        return lost

    def begin(self, run_id: str) -> Path:
        """Create the directory of a new run.

        Raises:
            UsageError: the id is malformed, or in use.
            NoSpace: the spool is above its quota, or the disk is full.
        """
        path = _inside(self._work, run_id)
        if path.exists() or (self._spool / run_id).exists():
            raise UsageError(f"run {run_id} already exists on this device")
        waiting = self.usage()[1]
        if waiting >= self.quota_bytes:
            holds, quota = format_distinct_sizes(waiting, self.quota_bytes)
            raise NoSpace(f"spool holds {holds} of uncollected runs, quota {quota}")
        with disk_errors("run not started", path):
            free = shutil.disk_usage(self._work).free
            if free < LEAST_FREE_BYTES:  # it would fail when its results are written
                has, needs = format_distinct_sizes(free, LEAST_FREE_BYTES)
                raise NoSpace(f"disk has {has} free, a run needs {needs}: {path}")
            path.mkdir(mode=0o700)
        return path

    def finish(self, run_id: str, owner: str) -> None:
        """Turn a run in progress into a finished run that belongs to the host `owner`."""
        path = _inside(self._work, run_id)
        with disk_errors("run not spooled", path):
            for file in path.iterdir():
                if file.name in SPOOL_FILES:
                    sync_file(file)
                else:
                    file.unlink()
            sync_directory(path)
            write_private(path / OWNER_FILE, owner)
            make_private_directory(self._spool)  # the user may have removed it
            path.rename(self._spool / run_id)
            sync_directory(self._spool)

    def discard(self, run_id: str) -> None:
        """Drop a run in progress."""
        shutil.rmtree(_inside(self._work, run_id), ignore_errors=True)

    def finished(self, owner: str) -> tuple[str, ...]:
        """Ids of the finished runs of a host, oldest first."""
        paths = sorted(self._runs(), key=lambda path: path.stat().st_mtime_ns)
        return tuple(path.name for path in paths if self._owner(path) == owner)

    def ended(self, run_id: str, owner: str) -> RunEnded:
        """Outcome and error with which a finished run ended.

        Raises:
            UsageError: this host has no such run.
            TargetError: the record of the run is damaged.
        """
        record = self._record(self._owned(run_id, owner))
        try:
            outcome = Outcome(record["outcome"])
            return RunEnded(run_id, outcome, int(record["error_code"]), record["error"])
        except (LookupError, ValueError, TypeError) as exc:
            raise TargetError(f"record of run {run_id} is damaged") from exc

    def files(self, run_id: str, owner: str) -> tuple[SpooledFile, ...]:
        """Names, sizes and digests of the files of a finished run.

        Raises:
            UsageError: this host has no such run.
        """
        path = self._owned(run_id, owner)
        return tuple(_describe(path / name) for name in SPOOL_FILES if (path / name).is_file())

    def read(self, run_id: str, owner: str, name: str, *, offset: int, size: int) -> bytes:
        """Bytes of a file; empty at its end.

        Raises:
            UsageError: this host has no such run, or the run has no such file.
        """
        if name not in SPOOL_FILES or not 0 <= offset < 2**63:  # the kernel's type for offsets
            raise UsageError(f"no file {name[:80]!r} in run {run_id} at byte {offset}")
        path = self._owned(run_id, owner) / name
        with disk_errors("file not read", path), path.open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def acknowledge(self, run_id: str, owner: str) -> None:
        """Delete a finished run; no effect if it was deleted already."""
        path = _inside(self._spool, run_id)
        if path.exists():
            self._owned(run_id, owner)
            # A single rename removes it from the spool; leftovers are deleted at the next start.
            hidden = self._work / f"acknowledged-{run_id}"
            path.rename(hidden)
            # Without the sync, a power cut may bring back a run with missing files.
            sync_directory(self._spool)
            shutil.rmtree(hidden, ignore_errors=True)

    def usage(self) -> tuple[int, int]:
        """Number of the finished runs, and their total size in bytes."""
        runs = self._runs()
        return len(runs), sum(file.stat().st_size for run in runs for file in run.iterdir())

    def _runs(self) -> list[Path]:
        """Directories of the finished runs, unsorted; empty if the spool was removed."""
        try:
            paths = list(self._spool.iterdir())
        except FileNotFoundError:
            return []
        return [path for path in paths if RUN_ID.fullmatch(path.name) and path.is_dir()]

    def _owned(self, run_id: str, owner: str) -> Path:
        path = _inside(self._spool, run_id)
        if not path.is_dir() or self._owner(path) != owner:
            raise UsageError(f"no run {run_id} of this host is on the device")
        return path

    def _owner(self, path: Path) -> str | None:
        """Identity of a run's host; None if neither the owner file nor the record names it."""
        with suppress(OSError, ValueError):  # spooled by an earlier agent, or damaged
            if text := (path / OWNER_FILE).read_text():
                return text
        owner = self._record(path).get("owner")
        return owner if isinstance(owner, str) else None

    @staticmethod
    def _record(path: Path) -> dict[str, Any]:
        try:
            record = json.loads((path / RECORD_FILE).read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return record if isinstance(record, dict) else {}


def _inside(directory: Path, run_id: str) -> Path:
    if not RUN_ID.fullmatch(run_id):
        raise UsageError(f"malformed run id: {run_id[:80]!r}")
    return directory / run_id


def _describe(path: Path) -> SpooledFile:
    with path.open("rb") as file:
        digest = sha256_of(file)
        return SpooledFile(path.name, file.tell(), digest.hexdigest())
