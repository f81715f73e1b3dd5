"""The plan and the journal of a campaign, in the store; results are in the runs themselves.

    <store>/campaigns/<campaign>/plan.json       the plan, written once
    <store>/campaigns/<campaign>/journal.jsonl   one line per intent, written before the action

If a run has an intent, but is neither in the store nor on its device, the run was lost. A lost run
is made again. A killed process may leave an incomplete line. Such a line is ignored, because its
action was not begun.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from edgebench.host.campaign.plan import CampaignPlan, fault_of_plan
from edgebench.host.store.layout import (
    CAMPAIGNS_DIRECTORY,
    JOURNAL_FILE,
    PLAN_FILE,
    Store,
    names_in,
)
from edgebench.protocol.errors import (
    CampaignDamaged,
    CampaignRunning,
    NoSuchCampaign,
    RemoteProtocolError,
    StoreError,
    os_error_as,
)
from edgebench.protocol.plain import from_outside, to_plain
from edgebench.protocol.text import one_line, printable
from edgebench.system.file_kinds import fault_of_file
from edgebench.system.whole_files import append_whole, make_directory, sync_directory, write_whole

LAST = "last"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Error code and message that state why an attempt has no usable measurement."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class DeviceAtLab:
    """Lab host and identity of a device in a campaign over several lab hosts."""

    lab: str = ""
    """Name of the lab host; empty until a lab host is chosen, or if there are no lab hosts."""
    pin: str = ""
    """Digest of the certificate of the device's agent; empty until it is known."""
    seat: str = ""


NO_LAB = DeviceAtLab()


@dataclass(frozen=True, slots=True)
class LaneNote:
    """The last journal entry about a device."""

    at_utc: str
    state: str
    """`measuring`, `waiting`, `ended` or `given_up`."""
    reason: str = ""
    at: DeviceAtLab = NO_LAB
    """Lab host of the device; `NO_LAB` in a campaign of a single host."""


@dataclass(slots=True)
class JournalRecord:
    """Contents of the journal."""

    intended: dict[str, str] = field(default_factory=dict)
    """Maps the id of each run to the time at which its start was announced."""
    refused: dict[str, Refusal] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    """Runs that were not on their device when the device was queried."""
    lanes: dict[str, LaneNote] = field(default_factory=dict)
    """The last entry about each device."""


class Journal:
    """Plan and journal of a campaign, in the directory of the campaign."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._lock = threading.Lock()

    @property
    def path(self) -> Path:
        """Path of the journal, a file with one JSON object per line; see the module."""
        return self.directory / JOURNAL_FILE

    def plan(self) -> CampaignPlan:
        """Read the plan.

        Raises:
            CampaignDamaged: the plan cannot be read, or is invalid.
        """
        path = self.directory / PLAN_FILE
        try:
            plan = from_outside(json.loads(_content(path)), CampaignPlan)
        except FileNotFoundError as exc:
            raise CampaignDamaged(f"campaign not readable: {exc.strerror}: {path}") from exc
        except (ValueError, RecursionError, RemoteProtocolError) as exc:
            raise CampaignDamaged(f"campaign is damaged: {one_line(exc)}: {path}") from exc
        if (fault := fault_of_plan(plan)) is not None:
            raise CampaignDamaged(f"campaign is damaged: {fault}: {path}")
        return plan

    def intend(self, run_id: str) -> None:
        """Record that a run is about to be started.

        Raises:
            StoreError: the journal cannot be written.
        """
        self._write({"event": "intent", "run_id": run_id})

    def refuse(self, run_id: str, refusal: Refusal) -> None:
        """Record why an attempt has no usable measurement.

        Raises:
            StoreError: the journal cannot be written.
        """
        entry = {"event": "refused", "run_id": run_id}
        self._write({**entry, "code": refusal.code, "message": refusal.message})

    def withdraw(self, run_id: str) -> None:
        """Record that an announced run was not started, and may be started later.

        Raises:
            StoreError: the journal cannot be written.
        """
        self._write({"event": "withdrawn", "run_id": run_id})

    def miss(self, run_id: str) -> None:
        """Record that an announced run is not on its device.

        Raises:
            StoreError: the journal cannot be written.
        """
        self._write({"event": "gone", "run_id": run_id})

    def note_lane(
        self, device: str, state: str, reason: str = "", *, at: DeviceAtLab = NO_LAB
    ) -> None:
        """Record the state of a device, only for display; a failed write is therefore ignored."""
        entry = {"event": "lane", "device": device, "state": state, "reason": reason}
        entry |= {name: value for name, value in asdict(at).items() if value}
        with suppress(StoreError):
            self._write(entry)

    def read(self) -> JournalRecord:
        """Read the journal; invalid lines are ignored.

        Raises:
            CampaignDamaged: the file cannot be read.
        """
        record = JournalRecord()
        try:
            lines = _content(self.path).split(b"\n")
        except FileNotFoundError:
            return record
        for line in lines:
            with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
                _apply(json.loads(line), record)
        return record

    @contextmanager
    def held(self) -> Iterator[None]:
        """Lock the campaign for this process; the kernel releases the lock if the process dies.

        Raises:
            CampaignRunning: another process holds the lock.
            StoreError: the directory cannot be read.
        """
        with os_error_as(StoreError, "campaign not readable", self.directory):
            descriptor = os.open(self.directory, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as exc:
            name = self.directory.name
            raise CampaignRunning(f"campaign {name} is being run by another process") from exc
        finally:
            os.close(descriptor)

    @property
    def is_held(self) -> bool:
        """Whether a process holds the lock."""
        try:
            with self.held():
                return False
        except CampaignRunning:
            return True

    def _write(self, entry: dict[str, str]) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        line = json.dumps({"at_utc": now, **entry}).encode()
        with os_error_as(StoreError, "campaign not writable", self.path), self._lock:
            # The leading newline ends an incomplete line of a killed process.
            append_whole(self.path, b"\n" + line + b"\n")


def _content(path: Path) -> bytes:
    """Read a file of a campaign.

    Raises:
        FileNotFoundError: the file does not exist.
        CampaignDamaged: the file cannot be read, or is not a regular file: reading a pipe would
            block.
    """
    if (fault := fault_of_file(path)) is not None:
        raise CampaignDamaged(f"campaign is damaged: {fault}: {path}")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as exc:
        raise CampaignDamaged(f"campaign not readable: {exc.strerror}: {path}") from exc


def _apply(entry: dict[str, Any], record: JournalRecord) -> None:
    """Update the record with a line of the journal.

    Raises:
        KeyError: a key is missing.
        TypeError: a value is not a string.
    """
    if not all(isinstance(value, str) for value in entry.values()):
        raise TypeError("not strings")
    event = entry["event"]
    if event == "intent":
        record.intended[entry["run_id"]] = entry["at_utc"]
    elif event == "refused":
        record.intended.setdefault(entry["run_id"], entry["at_utc"])
        record.refused[entry["run_id"]] = Refusal(entry["code"], printable(entry["message"]))
    elif event == "withdrawn":
        record.intended.pop(entry["run_id"], None)
    elif event == "gone":
        record.gone.add(entry["run_id"])
    elif event == "lane":
        state, reason = entry["state"], printable(entry["reason"])
        at = DeviceAtLab(*(printable(entry.get(field.name, "")) for field in fields(DeviceAtLab)))
        if not at.lab and entry["device"] in record.lanes:  # no lab host was reached since then
            at = record.lanes[entry["device"]].at
        record.lanes[entry["device"]] = LaneNote(entry["at_utc"], state, reason, at)


def begin_journal(store: Store, plan: CampaignPlan) -> Journal:
    """Write a plan to the store.

    Raises:
        StoreError: the store cannot be written.
    """
    directory = store.root / CAMPAIGNS_DIRECTORY / plan.id
    with os_error_as(StoreError, "campaign not written", directory):
        make_directory(directory.parent)
        directory.mkdir()
        sync_directory(directory.parent)
        write_whole(directory / JOURNAL_FILE, "\n")  # a killed append could leave it empty
        write_whole(directory / PLAN_FILE, json.dumps(to_plain(plan), indent=1))
    return Journal(directory)


def find_journal(store: Store, name: str = LAST) -> Journal:
    """The campaign with this id, or the newest campaign with this name; `last` is the newest.

    Raises:
        NoSuchCampaign: the store has no such campaign.
        CampaignDamaged: the campaign cannot be read.
    """
    journals = list_journals(store)
    if not any(name in (LAST, plan.id) for _, plan in journals):
        for damaged in names_in(store.root / CAMPAIGNS_DIRECTORY):
            journal = Journal(store.root / CAMPAIGNS_DIRECTORY / damaged)
            is_meant = name in (LAST, damaged)
            if is_meant and os.path.lexists(journal.directory / PLAN_FILE):  # else being created
                journal.plan()  # raises the reason
    for journal, plan in reversed(journals):
        if name in (LAST, plan.id, plan.name):
            return journal
    if not journals:
        raise NoSuchCampaign(f"no campaigns in {store.root}")
    known = ", ".join(dict.fromkeys(plan.name for _, plan in journals))
    raise NoSuchCampaign(f"no campaign {name!r} in {store.root}; available: {known}")


def list_journals(store: Store) -> list[tuple[Journal, CampaignPlan]]:
    """All campaigns of a store with their plans, oldest first, except those without a valid plan.

    Raises:
        StoreError: the store cannot be read.
    """
    journals: list[tuple[Journal, CampaignPlan]] = []
    for name in names_in(store.root / CAMPAIGNS_DIRECTORY):
        journal = Journal(store.root / CAMPAIGNS_DIRECTORY / name)
        with suppress(StoreError):
            journals.append((journal, journal.plan()))
    return sorted(journals, key=lambda journal: journal[1].created_utc)
