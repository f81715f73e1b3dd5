"""The lanes of a campaign over several lab hosts: which of them measures on which device."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.events import DeviceUnavailable, MeterMissing, Notify
from edgebench.host.bench.runs import DeviceRuns
from edgebench.host.campaign.cluster import messages as m
from edgebench.host.campaign.cluster.address import ClusterAddress
from edgebench.host.campaign.cluster.connection import ClusterConnection, LabDescription
from edgebench.host.campaign.cluster.files import PART_BYTES, LabFiles, file_ref
from edgebench.host.campaign.cluster.remote import LabDevice
from edgebench.host.campaign.journal import NO_LAB, DeviceAtLab, Journal
from edgebench.host.campaign.lanes import OpenLanes
from edgebench.host.campaign.plan import CampaignPlan
from edgebench.host.campaign.requests import CellRequests
from edgebench.host.campaign.run import CampaignRuns, CampaignWork
from edgebench.host.campaign.state import campaign_state
from edgebench.host.devices.farm import Farm, FarmDevice
from edgebench.host.devices.files import KnownDevice
from edgebench.host.power.metering import FARM_METER, is_of_host
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import (
    EdgebenchError,
    FileChanged,
    LabHostsUnreachable,
    LinkLost,
    RemoteProtocolError,
    UsageError,
)

LOOK_S = 0.5
"""Interval at which a lab host that is gone is looked for."""
VIA = "lab"
"""Transport of a device that only lab hosts reach."""


def offered_devices(labs: Sequence[LabDescription]) -> tuple[list[KnownDevice], Farm]:
    """The devices that lab hosts offer, and what their farm files say of them.

    Raises:
        UsageError: two lab hosts call different devices by one name.
        LabHostsUnreachable: none offers any.
    """
    offers: dict[str, m.DeviceOffer] = {}
    by: dict[str, str] = {}
    for lab in labs:
        for offer in lab.devices:
            known = offers.setdefault(offer.name, offer)
            if (known.pin, known.seat) != (offer.pin, offer.seat):
                raise UsageError(
                    f"{offer.name} is one device for lab host {by[offer.name]} and another one for "
                    f"lab host {lab.name}; rename one of them"
                )
            by.setdefault(offer.name, lab.name)
    if not offers:
        raise LabHostsUnreachable(f"no lab host offers a device: {_seen(labs)}")
    devices = [_known_device(offer) for offer in offers.values()]
    entries = {
        offer.name: FarmDevice(labels=offer.labels, meter=offer.meter) for offer in offers.values()
    }
    return devices, Farm(device=entries)


def check_meter(meter: str | None) -> None:
    """Refuse a meter of the coordinator's host: the devices are elsewhere.

    Raises:
        UsageError: the meter is named by itself.
    """
    if meter is not None and meter != FARM_METER and is_of_host(meter):
        raise UsageError(
            "campaign over several lab hosts takes the meters of their farm files, "
            f'meter = "{FARM_METER}", got {meter!r}'
        )


def _is_offered(device: str, at: DeviceAtLab, lab: LabDescription) -> bool:
    """Whether a lab host offers this device, and no other one of its name.

    The host that measured on it decides itself which device has the name: one that was set up anew
    has another certificate, and its operator was asked.
    """
    if lab.offer(device) is None:
        return False
    there = lab.device(device)
    return not at.pin or there.lab == at.lab or (there.pin, there.seat) == (at.pin, at.seat)


def _known_device(offer: m.DeviceOffer) -> KnownDevice:
    return KnownDevice(
        offer.name,
        id=offer.id,
        pin=offer.pin,
        addresses=(),
        port=0,
        via=VIA,
        arch=offer.arch,
    )


def _seen(labs: Sequence[LabDescription]) -> str:
    """Which lab hosts are there, for an error."""
    names = [lab.name if lab.devices else f"{lab.name} ({lab.version})" for lab in labs]
    return f"lab hosts there: {', '.join(names)}" if names else "no lab host is there"


@dataclass(frozen=True, slots=True)
class LabTarget:
    """A device of a lab host."""

    device: KnownDevice
    meter: str | None
    """Lab host and meter that the device needs for itself."""


@dataclass(slots=True)
class LaneHome:
    """The lab host by which a device is measured."""

    at: DeviceAtLab = NO_LAB
    """The lab host and the device: only the same device is taken over by another lab host."""
    away_s: float | None = None
    """Time since which it does not answer; None: it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLanes:
    """Lanes over the devices of lab hosts."""

    connection: ClusterConnection
    journal: Journal
    store: Store
    plan: CampaignPlan
    requests: CellRequests
    homes: dict[str, LaneHome] = field(default_factory=dict)
    """Lab host of each device."""
    files: dict[str, m.FileRef] = field(default_factory=dict)
    """Files of the campaign by their paths."""
    choosing: threading.Lock = field(default_factory=threading.Lock)
    """Held while a lab host is chosen: lanes that begin at the same moment go to different ones."""

    def lane(self, device: str, work: CampaignWork) -> DeviceRuns:
        """The runs of a device; a lab host that is not there yet is waited for when they begin."""
        home = self.homes.setdefault(device, LaneHome())
        labs = [lab for lab in self.connection.labs() if lab.offer(device)]
        lab = self._preferred(home, labs) if labs else None
        offer = lab.offer(device) if lab else None
        known = _known_device(offer) if offer else KnownDevice(device, "", "", (), 0, VIA)
        meter = self.plan.spec.settings.meter
        wired = offer.meter if offer and meter == FARM_METER else None
        shared = f"{lab.name}: {wired}" if lab and wired and is_of_host(wired) else None
        if meter == FARM_METER and offer is not None and wired is None:
            work.notify(MeterMissing(device))
        return DeviceRuns(
            target=LabTarget(known, shared),
            plan=CampaignRuns(work, device, request=self.requests.of, at=lambda: home.at),
            open=partial(self.at_lab, device, work.notify),
        )

    @contextmanager
    def at_lab(
        self, device: str, notify: Notify, cancellation: Cancellation
    ) -> Iterator[LabDevice]:
        """Begin to measure on a device by a lab host.

        Raises:
            LabHostsUnreachable: none offers it, after its lab host was waited for.
            LinkLost: scheduler or lab host are gone.
        """
        home = self.homes[device]
        lab = self._chosen(device, home, notify, cancellation)
        spec = self.plan.spec
        cells = [cell for cell in self.plan.cells if cell.device == device]
        files = self._files_of({cell.model for cell in cells} | set(spec.settings.files().values()))
        try:
            self._send(lab, list(files.values()), {one: path for path, one in files.items()})
            opened = m.LaneOpen(
                device=device,
                campaign=self.plan.id,
                wait_s=spec.wait_s,
                repeats=spec.repeats,
                settings=spec.settings,
                cell=cells[0],
                files=files,
            )
            [answer], _ = self.connection.call(lab, opened)
            if not isinstance(answer, m.LaneHandle):
                raise RemoteProtocolError(f"lab host {lab.name} did not open a lane")
            home.away_s = None
            remote = LabDevice(
                self.connection,
                lab,
                answer.lane,
                device=device,
                store=self.store,
                known_runs=partial(self._known_runs, device),
                notify=notify,
                cancellation=cancellation,
            )
            try:
                yield remote
            finally:
                with suppress(EdgebenchError):
                    remote.close()
        except LinkLost:
            home.away_s = home.away_s or time.monotonic()
            raise

    def _chosen(
        self, device: str, home: LaneHome, notify: Notify, cancellation: Cancellation
    ) -> LabDescription:
        """The lab host of a device: the last one, or after a wait another one.

        Raises:
            Interrupted: the command was cancelled.
            LabHostsUnreachable: none offers it.
            LinkLost: the scheduler is not there.
        """
        wait_s, is_told = self.plan.spec.lab_wait_s, False
        while True:
            cancellation.check()
            labs = self.connection.labs()
            offering = [lab for lab in labs if _is_offered(device, home.at, lab)]
            others = [lab for lab in offering if lab.name != home.at.lab]
            own = next((lab for lab in offering if lab.name == home.at.lab), None)
            now_s = time.monotonic()
            is_late = home.away_s is not None and now_s - home.away_s >= wait_s
            if own is not None and not (is_late and others):
                home.at = own.device(device)
                return own
            if others and (is_late or not home.at.lab):
                with self.choosing:
                    lab = self._preferred(home, others)
                    home.at, home.away_s = lab.device(device), None
                return lab
            is_new = not home.at.lab
            gone = f"no lab host offers {device}" if is_new else f"lab host {home.at.lab} is away"
            if is_late:
                raise LabHostsUnreachable(
                    f"{gone}, waited for {wait_s:g} s, and no other one offers {device}; "
                    f"{_seen(labs)}"
                )
            home.away_s = now_s if home.away_s is None else home.away_s
            if not is_told:
                error = LabHostsUnreachable(f"{gone}; {_seen(labs)}")
                notify(DeviceUnavailable(device, error, wait_s))
                self.journal.note_lane(device, "waiting", gone, at=home.at)
                is_told = True
            cancellation.wait(LOOK_S)

    def _preferred(self, home: LaneHome, labs: Sequence[LabDescription]) -> LabDescription:
        """The lab host of before, else the one with the fewest lanes."""
        lanes = [one.at.lab for one in self.homes.values() if one is not home]
        return min(labs, key=lambda lab: (lab.name != home.at.lab, lanes.count(lab.name), lab.name))

    def _files_of(self, paths: set[str]) -> Mapping[str, m.FileRef]:
        """The files among these names; the others are built-in models and data sets.

        Raises:
            UsageError: one cannot be read.
        """
        for path in paths - set(self.files):
            if Path(path).is_file():
                self.files[path] = file_ref(Path(path))
        return {path: self.files[path] for path in sorted(paths) if path in self.files}

    def _send(
        self, lab: LabDescription, files: list[m.FileRef], paths: Mapping[m.FileRef, str]
    ) -> None:
        """Send the files that a lab host does not have.

        Raises:
            LinkLost: the lab host is gone.
            UsageError: a file cannot be read.
            FileChanged: it is not what it was.
        """
        [answer], _ = self.connection.call(lab, m.FilesQuery(tuple(files)))
        missing = answer.files if isinstance(answer, m.MissingFiles) else ()
        for file in missing:
            try:
                with open(paths[file], "rb") as opened:
                    offset = 0
                    while offset < file.size_bytes:
                        part = opened.read(PART_BYTES)
                        if not part:
                            raise FileChanged(f"file changed while it was sent: {paths[file]}")
                        self.connection.call(lab, m.FilePart(file, offset), payload=part)
                        offset += len(part)
            except OSError as exc:
                raise UsageError(f"file not readable: {exc.strerror}: {paths[file]}") from exc

    def _known_runs(self, device: str) -> tuple[list[str], list[str]]:
        """Runs of a device that are stored, and those that were only begun."""
        state = campaign_state(self.store, self.journal, self.plan)
        attempts = [
            attempt
            for planned, progress in state.runs.items()
            if self.plan.cells[planned.cell].device == device
            for attempt in progress.attempts
        ]
        return (
            [one.run_id for one in attempts if one.stored],
            [one.run_id for one in attempts if one.is_unsettled],
        )


def resumed_homes(journal: Journal) -> dict[str, LaneHome]:
    """The lab hosts that measured on the devices of a campaign before, by device."""
    return {name: LaneHome(note.at) for name, note in journal.read().lanes.items() if note.at.lab}


def cluster_lanes(cluster: ClusterAddress, journal: Journal, store: Store) -> OpenLanes:
    """What leads to the devices of lab hosts.

    Args:
        cluster: The scheduler that the lab hosts are connected to.
        journal: The campaign; its last notes say which lab host measured on which device.
        store: Its store.
    """

    @contextmanager
    def open_lanes(
        plan: CampaignPlan, requests: CellRequests, count: int
    ) -> Iterator[ClusterLanes]:
        check_meter(plan.spec.settings.meter)
        LabFiles(store).remove_unused()  # among them, halves of runs that never came whole
        with ClusterConnection(cluster) as connection:
            connection.connect()
            yield ClusterLanes(
                connection=connection,
                journal=journal,
                store=store,
                plan=plan,
                requests=requests,
                homes=resumed_homes(journal),
            )

    return open_lanes
