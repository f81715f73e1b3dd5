"""Content of the live page and changes of the content, read from the files of store and farm."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Union

from edgebench.host.devices.farm import Farm, load_farm
from edgebench.host.devices.files import HostFiles
from edgebench.host.devices.health import HealthFiles
from edgebench.host.result.campaign import CampaignProgress
from edgebench.host.serve.rows import (
    CampaignRow,
    DeviceRow,
    LaneRow,
    RunRow,
    campaign_row,
    device_rows,
    lane_row,
    run_or_none,
    run_row,
)
from edgebench.host.store.index import RunFilter, RunSummary, list_runs
from edgebench.host.store.layout import Store
from edgebench.host.store.live import LiveReader, utc_now
from edgebench.protocol.errors import EdgebenchError

MAX_RUNS = 50
"""Maximum number of runs on the page, which shows the newest runs."""
WHOLE_S = 30.0
"""Interval of a full refresh, which picks up changed tags and labels."""


@dataclass(frozen=True, slots=True)
class NoteRow:
    """Message about a section of the page that could not be read."""

    text: str


Row = Union[LaneRow, DeviceRow, CampaignRow, RunRow, NoteRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverviewSources:
    """Files that the overview is read from; devices are never contacted."""

    store: Store
    files: HostFiles
    health: HealthFiles
    farm: Path
    campaigns: Callable[[], Sequence[CampaignProgress]]


class Overview:
    """Rows of all sections; not thread-safe."""

    def __init__(self, sources: OverviewSources) -> None:
        self._sources = sources
        self._live = LiveReader(sources.store)
        self._rows: dict[str, Mapping[str, Row]] = {}
        self._runs: dict[RunSummary, RunRow] = {}
        self._farm = Farm()
        self._has_runs = False
        """True once the store's directory of runs was found."""
        self._stamp: object = None
        """State of the files of runs and commands at the last refresh of runs, campaigns and
        devices."""
        self._read_s = 0.0

    def refresh(self) -> bytes | None:
        """Read what has changed; return the changes as a message, or None if there are none."""
        before = dict(self._rows)
        is_live_changed = self._live.poll()
        # A value that changes when a run or a command begins or ends, or the store changes.
        sources = self._live.sources
        states = tuple(
            (name, source.is_over, device, state.number, state.stored_count, state.failed_count)
            for name, source in sources.items()
            for device, state in source.devices.items()
        )
        changed_ns = 0
        with suppress(OSError):
            changed_ns = os.stat(self._sources.store.runs).st_mtime_ns
        stamp = (*states, changed_ns)
        is_old = stamp != self._stamp or time.monotonic() - self._read_s > WHOLE_S
        if is_live_changed or not self._rows:
            self._rows["lanes"] = {
                f"{name}/{device}": lane_row(source.command, state)
                for name, source in self._live.sources.items()
                if not source.is_over and source.command is not None
                for device, state in source.devices.items()
            }
        if is_old:
            self._stamp, self._read_s = stamp, time.monotonic()
            self._read_files()
        # New and changed rows by key, with None for each row that was removed.
        sections: dict[str, dict[str, dict[str, Any] | None]] = {}
        for section, rows in self._rows.items():
            earlier = before.get(section, {})
            changed = {key: asdict(row) for key, row in rows.items() if earlier.get(key) != row}
            if changes := changed | dict.fromkeys(earlier.keys() - rows.keys()):
                sections[section] = changes
        return _message(sections, is_whole=False) if sections else None

    def whole(self) -> bytes:
        """The whole overview, as of the last refresh, as a message."""
        sections = {
            section: {key: asdict(row) for key, row in rows.items()}
            for section, rows in self._rows.items()
        }
        return _message(sections, is_whole=True)

    def _read_files(self) -> None:
        """Read devices, campaigns and runs; each unreadable section gets a note."""
        notes: dict[str, Row] = {}

        def attempt(section: str, read: Callable[[], Mapping[str, Row]]) -> None:
            try:
                self._rows[section] = read()
            except EdgebenchError as exc:
                self._rows.setdefault(section, {})
                notes[section] = NoteRow(str(exc))

        runs = self._sources.store.runs
        if runs.is_dir():
            self._has_runs = True
        elif self._has_runs:  # an empty page would look like an empty store
            notes["store"] = NoteRow(
                f"The store is missing: it was removed, or its disk is not mounted: {runs}"
            )
        attempt("runs", self._run_rows)
        attempt("campaigns", self._campaign_rows)
        try:
            self._farm = load_farm(self._sources.farm)
        except EdgebenchError as exc:  # the devices are shown without labels and meters
            notes["farm"] = NoteRow(str(exc))
        attempt("devices", self._device_rows)
        self._rows["notes"] = notes

    def _run_rows(self) -> Mapping[str, Row]:
        store = self._sources.store
        summaries = list_runs(store, RunFilter(last=MAX_RUNS))
        self._runs = {
            summary: self._runs.get(summary) or run_row(summary, run_or_none(store, summary.run_id))
            for summary in summaries
        }
        return {run.run_id: row for run, row in self._runs.items()}

    def _campaign_rows(self) -> Mapping[str, Row]:
        now = utc_now()
        return {
            campaign.summary.id: campaign_row(campaign, now)
            for campaign in self._sources.campaigns()
        }

    def _device_rows(self) -> Mapping[str, Row]:
        known = self._sources.files.devices()
        lanes = [row for row in self._rows.get("lanes", {}).values() if isinstance(row, LaneRow)]
        health = [(device, self._sources.health.of(device)) for device in known]
        return {**device_rows(health, self._farm, lanes)}


def _message(sections: object, *, is_whole: bool) -> bytes:
    message = {"at_utc": utc_now(), "is_whole": is_whole, "sections": sections}
    return json.dumps(message, separators=(",", ":")).encode()
