"""The lanes of a campaign: one for each device, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.finish import FinishingProcess, finish
from edgebench.host.bench.lanes import AnyTarget, Target, measure_targets
from edgebench.host.bench.model import Model
from edgebench.host.bench.watcher import OutcomeWatcher, Watcher
from edgebench.host.campaign.device import DeviceHost, DeviceOutcomes, OpenDevice, at_device
from edgebench.host.campaign.journal import Journal
from edgebench.host.campaign.plan import CampaignPlan
from edgebench.host.campaign.requests import CellRequests
from edgebench.host.campaign.run import CampaignWork, DeviceCampaign
from edgebench.host.campaign.state import CampaignState, RunState, campaign_state
from edgebench.host.client import Client
from edgebench.host.devices.files import KnownDevice
from edgebench.host.devices.health import Outcomes
from edgebench.host.result.run import Run
from edgebench.host.store import index
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import EdgebenchError, NoSuchDevice


class QuietWatcher(Watcher):
    """Ignores failures, which the state of the campaign has."""

    def device_failed(self, device: str, error: EdgebenchError) -> None:
        """Nothing more is measured on a device."""

    def run_failed(self, model: Model, runtime: str, error: EdgebenchError) -> None:
        """A run failed."""


@dataclass(frozen=True, slots=True)
class CampaignLane:
    """A device of a campaign."""

    target: AnyTarget
    open: OpenDevice
    outcomes: DeviceOutcomes
    is_metered: bool
    """Whether it has the meter that the campaign asks for."""


class LaneFactory(Protocol):
    """What the lanes of a campaign are made of: this host's devices, or those of lab hosts."""

    def lane(self, device: str) -> CampaignLane:
        """The lane of a device, by its name in the plan.

        Raises:
            NoSuchDevice: it was forgotten meanwhile.
        """
        ...


OpenLanes = Callable[[CampaignPlan, CellRequests, int], AbstractContextManager[LaneFactory]]
"""Begins to measure on so many devices of a campaign."""


def make_runs(
    journal: Journal,
    store: Store,
    open_lanes: OpenLanes,
    *,
    watcher: Watcher,
    cancellation: Cancellation,
    parallel: int,
) -> None:
    """Make the runs of a campaign that are left, on all devices that have any.

    Args:
        journal: The campaign.
        store: Its store.
        open_lanes: Leads to the devices.
        watcher: Receives every event.
        cancellation: Stops it from another thread.
        parallel: Number of devices that are measured at the same time.

    Raises:
        Interrupted: the user pressed Ctrl-C, or the command was cancelled.
        CampaignRunning: another process makes its runs.
        FileChanged: a model is not what it was.
        LabHostsUnreachable: its devices are those of other lab hosts, and none answers.
    """
    with journal.held():
        plan = journal.plan()
        requests, state = CellRequests(plan), campaign_state(store, journal, plan)
        names = [name for name in plan.devices if not is_over(state, name)]
        if not names:
            return
        budget_s = plan.spec.budget_s
        with index.kept_open(store), open_lanes(plan, requests, len(names)) as factory:
            lanes: dict[str, CampaignLane] = {}
            for name in names:
                try:
                    lanes[name] = factory.lane(name)
                except NoSuchDevice as exc:
                    watcher.for_device(name, len(plan.devices))
                    watcher.device_failed(name, exc)
                    continue
                if not lanes[name].is_metered:
                    watcher.meter_missing(name)
            work = CampaignWork(
                plan=plan,
                journal=journal,
                store=store,
                requests=requests,
                watcher=watcher,
                end_s=None if budget_s is None else time.monotonic() + budget_s,
            )

            def measure_on(
                target: AnyTarget, device_watcher: Watcher, cancelled: Cancellation
            ) -> list[Run]:
                name = target.device.name
                lane = lanes[name]
                outcomes = lane.outcomes
                return DeviceCampaign(
                    work,
                    name,
                    lane.open,
                    watcher=OutcomeWatcher(device_watcher, outcomes.succeeded, outcomes.failed),
                    cancellation=cancelled,
                    on_given_up=outcomes.failed,
                ).measure()

            targets = [lane.target for lane in lanes.values()]
            measure_targets(targets, measure_on, watcher, cancellation, parallel=parallel)


def is_over(state: CampaignState, device: str) -> bool:
    """Whether a device has nothing more to do, and was told so.

    It keeps a run until that is acknowledged, which a host that was killed has not done.
    """
    note = state.lanes.get(device)
    is_left = state.count(RunState.LEFT, RunState.UNSETTLED, device=device)
    return not is_left and (note is None or note.state == "ended")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedLanes:
    """Lanes over the devices that this host is paired with."""

    host: DeviceHost
    requests: CellRequests
    plan: CampaignPlan
    find: Callable[[str], tuple[KnownDevice, str | None]]
    outcomes: Callable[[KnownDevice], Outcomes]

    def lane(self, device: str) -> CampaignLane:
        """The lane of a device."""
        known, wired = self.find(device)
        cell = next(cell for cell in self.plan.cells if cell.device == device)
        target = Target(known, self.requests.of(cell).on_device(device, wired))
        is_metered = self.plan.spec.settings.meter is None or target.request.energy is not None
        return CampaignLane(
            target, partial(at_device, self.host, target), self.outcomes(known), is_metered
        )


def paired_lanes(
    store: Store,
    *,
    find: Callable[[str], tuple[KnownDevice, str | None]],
    connect: Callable[[KnownDevice], Client],
    outcomes: Callable[[KnownDevice], Outcomes],
) -> OpenLanes:
    """What leads to the devices of this host.

    Args:
        store: Store of the campaign.
        find: Finds a device by its name in the plan, and the meter that is wired to it.
        connect: Opens a connection to a device.
        outcomes: Where it is noted how the runs on a device end.
    """

    @contextmanager
    def open_lanes(plan: CampaignPlan, requests: CellRequests, count: int) -> Iterator[PairedLanes]:
        with FinishingProcess() if count > 1 else nullcontext() as other:
            host = DeviceHost(
                campaign=plan.id,
                wait_s=plan.spec.wait_s,
                store=store,
                finish=other.finish if other else finish,
                connect=connect,
                request=requests.of,
            )
            yield PairedLanes(host=host, requests=requests, plan=plan, find=find, outcomes=outcomes)

    return open_lanes
