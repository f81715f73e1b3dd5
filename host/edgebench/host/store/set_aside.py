"""Fetched runs that cannot be analysed, whose files are set aside as evidence.

    <store>/set-aside/<run-id>/     the directory from incoming/, with fault.json

Theory of operation. An analysis that has failed would fail again, and if the run stayed on its
device, each command would fetch it again. So the run's directory is moved out of incoming/ by a
single rename, together with the error. The device may then delete the run, because all of its files
are in the store. If a later version of edgebench can analyse the run, a copy of the directory
becomes a stored run.

At most `MAX_RUNS` runs are set aside. Further runs stay on their devices; otherwise, a device could
fill the disk with runs that cannot be analysed. No older run is removed to make room.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from edgebench.host.result.document import created_utc
from edgebench.host.store.finite_json import read_finite
from edgebench.host.store.incomplete import ExpectedRun, read_expectation
from edgebench.host.store.layout import Store, names_in
from edgebench.protocol.errors import EdgebenchError, RunDamaged, RunSetAside, StoreError
from edgebench.protocol.plain import from_outside, to_plain
from edgebench.protocol.record import RUN_ID
from edgebench.system.whole_files import make_directory, sync_directory, sync_tree, write_whole

FAULT_FILE = "fault.json"
MAX_RUNS = 100
"""Maximum number of runs that are set aside in a store."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a run was set aside."""

    error: str
    """Error of the analysis, a single line."""
    software: str
    """Name and version of the edgebench that failed to analyse the run."""
    set_aside_utc: str


@dataclass(frozen=True, slots=True)
class SetAsideRun:
    """A run that was set aside."""

    run_id: str
    directory: Path
    fault: Fault | None
    """Why the run was set aside; None if fault.json is not readable."""
    expectation: ExpectedRun | None
    """Device and model of the run; None if another host started the run."""
    files: tuple[str, ...]
    """Files of the run, as paths relative to the directory."""
    size_bytes: int

    @property
    def made_utc(self) -> str | None:
        """Time in the run id, or else `set_aside_utc` of the fault; None if both are unknown."""
        return created_utc(self.run_id) or (self.fault.set_aside_utc if self.fault else None)


def set_aside(store: Store, run_id: str, error: EdgebenchError, software: str) -> RunSetAside:
    """Set aside a run that is under incoming/.

    Args:
        store: The store.
        run_id: The run.
        error: Error of the analysis.
        software: Name and version of this edgebench.

    Returns:
        The error to raise, with the run, the reason and the directory of its files.

    Raises:
        RunDamaged: `MAX_RUNS` runs are set aside already; this run stays under incoming/.
        OSError: the store cannot be written.
    """
    target = directory_of(store, run_id)
    if len(_names(store)) >= MAX_RUNS:
        raise RunDamaged(
            f"analysis of run {run_id} failed: {error}; {MAX_RUNS} runs are set aside already, so "
            f"this run stays on the device: {target.parent}"
        )
    source = store.unfinished / run_id
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    fault = Fault(str(error), software, now)
    write_whole(source / FAULT_FILE, json.dumps(to_plain(fault)) + "\n")
    sync_tree(source)
    make_directory(target.parent)
    source.rename(target)
    sync_directory(target.parent)
    sync_directory(store.unfinished)
    return set_aside_error(store, run_id, str(error))


def known_error(store: Store, run_id: str) -> RunSetAside | None:
    """Error with which a run was set aside; None if the run is not set aside."""
    directory = directory_of(store, run_id)
    if not directory.is_dir():
        return None
    return set_aside_error(store, run_id, reason_of(_read_fault(directory)))


def reason_of(fault: Fault | None) -> str:
    """Why a run cannot be analysed, as the end of a sentence."""
    return "for an unknown reason" if fault is None else fault.error


def set_aside_error(store: Store, run_id: str, why: str) -> RunSetAside:
    """Error about a run that is set aside, with the reason and the directory of its files."""
    directory = directory_of(store, run_id)
    return RunSetAside(
        f"run {run_id} cannot be analysed: {why}; its files are set aside: {directory}"
    )


def runs_set_aside(store: Store) -> list[SetAsideRun]:
    """Runs that are set aside, oldest first.

    Raises:
        StoreError: the store cannot be read.
    """
    return [_read(store, run_id) for run_id in _names(store)]


def directory_of(store: Store, run_id: str) -> Path:
    """Directory of a run that is set aside, or would be set aside."""
    return store.set_aside / run_id


def copy_back(run: SetAsideRun, directory: Path) -> None:
    """Copy the files of a run that is set aside, for another analysis.

    Raises:
        OSError: a file cannot be read or written.
    """
    for name in run.files:
        if name != FAULT_FILE:
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(run.directory / name, target)


def remove_set_aside(store: Store, run_ids: Sequence[str]) -> None:
    """Remove runs that are set aside.

    Raises:
        StoreError: a run cannot be removed; the runs before it in `run_ids` have been removed.
    """
    for run_id in run_ids:
        directory = directory_of(store, run_id)
        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            continue  # another command was faster
        except OSError as exc:
            raise StoreError(f"run not removed: {exc.strerror}: {directory}") from exc


def _names(store: Store) -> list[str]:
    names = names_in(store.set_aside, (FileNotFoundError, NotADirectoryError))
    return [name for name in names if RUN_ID.fullmatch(name)]


def _read(store: Store, run_id: str) -> SetAsideRun:
    directory = directory_of(store, run_id)
    files, size_bytes = [], 0
    for folder, _, names in os.walk(directory):
        for name in names:
            path = Path(folder, name)
            with suppress(OSError):
                size_bytes += path.lstat().st_size
                files.append(str(path.relative_to(directory)))
    return SetAsideRun(
        run_id,
        directory,
        _read_fault(directory),
        read_expectation(directory),
        tuple(sorted(files)),
        size_bytes,
    )


def _read_fault(directory: Path) -> Fault | None:
    with suppress(OSError, ValueError, RecursionError, EdgebenchError):
        return from_outside(read_finite(directory / FAULT_FILE), Fault)
    return None
