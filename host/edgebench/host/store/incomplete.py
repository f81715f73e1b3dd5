"""Runs that were started but are not stored; each is in progress, on its device, or lost.

A run's directory under incoming/ names the device on which it was started. If that device reports
that it does not have the run any more, the directory is marked as lost. A run is lost if the agent
was killed, or if another store fetched the run. The process that makes a run holds a lock on its
directory.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from edgebench.host.store.layout import EXPECTED_FILE, HOST_FILES, RAW_DIRECTORY, Store, names_in
from edgebench.protocol.clock import ClockProbe
from edgebench.protocol.errors import RemoteProtocolError, StoreError, os_error_as
from edgebench.protocol.plain import from_plain, to_plain
from edgebench.protocol.record import RUN_ID
from edgebench.protocol.traces import METER_FILE
from edgebench.system.whole_files import write_whole

NEW_S = 1.0
"""Age up to which a directory counts as new. A process locks its directory within microseconds, so
a new directory may not be locked yet."""


@dataclass(frozen=True, slots=True)
class ExpectedRun:
    """Facts of a run that are stored before it starts."""

    device_id: str
    device: str
    """Name that the device reports."""
    via: str
    """Transport to the device; an agent lists only runs that were started over the same transport.
    """
    model: str
    is_lost: bool = False
    """Whether the device reported that it does not have the run any more."""
    agent: str = ""
    """Fingerprint of the agent's certificate; empty if the agent has none, or if an older version
    wrote the file. Devices may share an id, for example if their SD cards are copies."""
    seat: str = ""
    """Seat (one device) of the agent; empty if the agent has no certificate, or in older files."""
    probes: tuple[ClockProbe, ...] = ()
    """A single group of probes of the device's clock, made right before the run starts."""


class IncompleteState(str, Enum):
    """Place of a run that is not stored."""

    IN_PROGRESS = "in progress"
    """A process on this machine is making the run."""
    NOT_FETCHED = "not fetched"
    """The device has the run, or was not contacted since the run was started."""
    LOST = "lost"
    """The device does not have the run."""


@dataclass(frozen=True, slots=True)
class IncompleteRun:
    """A run that is not stored, and its local files."""

    run_id: str
    state: IncompleteState
    expectation: ExpectedRun | None
    """Facts from expected.json; None if the file cannot be read."""
    directory: Path
    recording_s: float | None
    """Duration of the meter's recording; None without a recording."""
    files: tuple[str, ...]
    """Names of the other files, which were fetched from the device."""

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a recording nor a fetched file."""
        return self.recording_s is None and not self.files


def write_expectation(directory: Path, expectation: ExpectedRun) -> None:
    """Write expected.json into the directory of a run under incoming/.

    Raises:
        OSError: the file cannot be written.
    """
    write_whole(directory / EXPECTED_FILE, json.dumps(to_plain(expectation)))


def read_expectation(directory: Path) -> ExpectedRun | None:
    """Read expected.json in a directory under incoming/; None if the file cannot be read."""
    with suppress(OSError, ValueError, RecursionError, RemoteProtocolError):
        return from_plain(json.loads((directory / EXPECTED_FILE).read_bytes()), ExpectedRun)
    return None


def incomplete_runs(store: Store) -> list[IncompleteRun]:
    """Runs that were started but are not stored, oldest first.

    Raises:
        StoreError: the store cannot be read.
    """
    names = names_in(store.unfinished, (FileNotFoundError, NotADirectoryError))
    paths = [store.unfinished / name for name in names if RUN_ID.fullmatch(name)]
    return [_read_incomplete(path) for path in paths if path.is_dir()]


def _read_incomplete(directory: Path) -> IncompleteRun:
    expectation = read_expectation(directory)
    raw = directory / RAW_DIRECTORY
    recording_s, files = None, []
    with suppress(OSError):  # the run may be stored at this moment
        files = sorted(path.name for path in raw.iterdir() if path.name not in HOST_FILES)
        if METER_FILE in files:
            from edgebench.meters.spool import recorded_s  # imported here because it loads numpy

            recording_s = recorded_s(raw / METER_FILE)
            files.remove(METER_FILE)
    state = IncompleteState.NOT_FETCHED
    if _is_claimed(directory):
        state = IncompleteState.IN_PROGRESS
    elif expectation is not None and expectation.is_lost:
        state = IncompleteState.LOST
    return IncompleteRun(directory.name, state, expectation, directory, recording_s, tuple(files))


def _is_claimed(directory: Path) -> bool:
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Identity of a device for matching it with expected runs."""

    device_id: str
    via: str
    """Transport to the device."""
    agent: str = ""
    """Fingerprint of the agent's certificate; if empty, runs of any agent match."""
    seat: str = ""
    """Seat (one device) of the agent; if empty, runs of any seat match."""

    def is_of(self, run: ExpectedRun) -> bool:
        """Whether a run was started on this device."""
        pairs = ((self.agent, run.agent), (self.seat, run.seat))
        is_here = (self.device_id, self.via) == (run.device_id, run.via)
        return is_here and all(ours == its for ours, its in pairs if ours and its)


def mark_lost(
    store: Store, device: Whereabouts, *, on_device: Collection[str]
) -> list[IncompleteRun]:
    """Mark as lost the runs that a device should have but lacks; remove lost runs without files.

    Empty directories without expected.json are also removed, but not returned; new directories are
    kept. The process that made such a directory was killed before it wrote expected.json, and so
    before the run started. Or it was killed before it fetched a file of the run.

    Args:
        store: The store.
        device: The device.
        on_device: Ids of the runs that the device reports. The device reports only runs that were
            started over the transport of this connection.

    Returns:
        The runs that were marked or removed as lost.

    Raises:
        StoreError: the store cannot be read or written.
    """
    lost: list[IncompleteRun] = []
    for run in incomplete_runs(store):
        expectation = run.expectation
        if run.state is not IncompleteState.NOT_FETCHED:
            continue
        if expectation is None:
            is_new = True  # or removed since
            with suppress(OSError):
                is_new = abs(time.time() - run.directory.stat().st_mtime) < NEW_S
            if run.is_empty and not is_new:
                store.forget_expected(run.run_id)
            continue
        if not device.is_of(expectation) or run.run_id in on_device:
            continue
        known = replace(expectation, is_lost=True)
        if run.is_empty:
            store.forget_expected(run.run_id)
        else:
            with os_error_as(StoreError, "store not writable", store.root):
                write_expectation(run.directory, known)
        lost.append(replace(run, state=IncompleteState.LOST, expectation=known))
    return lost


def follow_agent(store: Store, old: str, new: str) -> None:
    """Assign the expected runs of an old agent to the new agent on the same device.

    `old` and `new` are the fingerprints of the certificates of both agents.

    Raises:
        StoreError: the store cannot be read or written.
    """
    for run in incomplete_runs(store):
        known = run.expectation
        if known is not None and known.agent == old:
            with os_error_as(StoreError, "store not writable", store.root):
                write_expectation(run.directory, replace(known, agent=new))


def remove_lost(store: Store) -> list[IncompleteRun]:
    """Remove the local files of the lost runs; return these runs.

    Raises:
        StoreError: the store cannot be read or written.
    """
    lost = [run for run in incomplete_runs(store) if run.state is IncompleteState.LOST]
    for run in lost:
        with os_error_as(StoreError, "run not removed", run.directory):
            shutil.rmtree(run.directory)
    return lost
