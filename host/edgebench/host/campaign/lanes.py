"""A campaign's lanes, each of which makes the runs of one device; lanes run in parallel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from edgebench.host.bench import events
from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.events import Notify
from edgebench.host.bench.finish import FinishingProcess, finish
from edgebench.host.bench.host import BenchHost
from edgebench.host.bench.lanes import measure_side_by_side
from edgebench.host.bench.runs import DeviceRuns, local_runs
from edgebench.host.bench.session import MeasuringHost, Target
from edgebench.host.campaign.journal import Journal
from edgebench.host.campaign.plan import CampaignPlan
from edgebench.host.campaign.requests import CellRequests
from edgebench.host.campaign.run import CampaignRuns, CampaignWork
from edgebench.host.campaign.state import CampaignState, RunState, campaign_state
from edgebench.host.store import index
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import NoSuchDevice


class LaneFactory(Protocol):
    """Creates a lane (the runs of one device) for devices of this host or of lab hosts."""

    def lane(self, device: str, work: CampaignWork) -> DeviceRuns:
        """The runs of a device, by its name in the plan.

        Raises:
            NoSuchDevice: the device and its pairing were removed after the plan was made.
        """
        ...


OpenLanes = Callable[[CampaignPlan, CellRequests, int], AbstractContextManager[LaneFactory]]
"""Opens a `LaneFactory` for a campaign; the last argument is the number of devices."""


def make_runs(
    journal: Journal,
    store: Store,
    open_lanes: OpenLanes,
    *,
    notify: Notify,
    cancellation: Cancellation,
    parallel: int,
) -> None:
    """Make the remaining runs of a campaign, on all of its devices in parallel.

    Args:
        journal: The campaign.
        store: The campaign's store.
        open_lanes: Opens the factory that creates the lanes of the devices.
        notify: Consumer of the events.
        cancellation: Stops the campaign from another thread.
        parallel: Number of devices that are measured at the same time.

    Raises:
        Interrupted: the user pressed Ctrl-C, or the command was cancelled.
        CampaignRunning: another process is running the campaign.
        FileChanged: a model changed since the campaign was planned.
        LabHostsUnreachable: the devices belong to lab hosts, and the scheduler does not respond.
    """
    with journal.held():
        plan = journal.plan()
        requests, state = CellRequests(plan), campaign_state(store, journal, plan)
        names = [name for name in plan.devices if not is_over(state, name)]
        if not names:
            return
        budget_s = plan.spec.budget_s
        with index.kept_open(store), open_lanes(plan, requests, len(names)) as factory:
            work = CampaignWork(
                plan=plan,
                journal=journal,
                store=store,
                requests=requests,
                notify=notify,
                end_s=None if budget_s is None else time.monotonic() + budget_s,
            )
            lanes: list[DeviceRuns] = []
            for name in names:
                try:
                    lanes.append(factory.lane(name, work))
                except NoSuchDevice as exc:
                    notify(events.DeviceSelected(name, len(plan.devices)))
                    notify(events.DeviceFailed(name, exc))
            measure_side_by_side(lanes, notify, cancellation, parallel=parallel)


def is_over(state: CampaignState, device: str) -> bool:
    """Whether a device has no remaining runs, and its host has acknowledged all of its runs.

    A device keeps a run until the host acknowledges the run; a host that was killed may not have
    done so.
    """
    note = state.lanes.get(device)
    is_left = state.count(RunState.LEFT, RunState.UNSETTLED, device=device)
    return not is_left and (note is None or note.state == "ended")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedLanes:
    """Creates a lane (the runs of one device) for each device that is paired with this host."""

    host: BenchHost
    measuring: MeasuringHost

    def lane(self, device: str, work: CampaignWork) -> DeviceRuns:
        """The runs of a device, which this host measures itself; see `LaneFactory.lane`."""
        known, wired = self.host.find(device)
        cell = next(cell for cell in work.plan.cells if cell.device == device)
        energy = work.requests.of(cell).on_device(device, wired).energy  # one meter for all cells
        if work.plan.spec.settings.meter is not None and energy is None:
            work.notify(events.MeterMissing(device))
        meter = energy.meter if energy else None
        runs = CampaignRuns(
            work, device, request=lambda cell: work.requests.of(cell).on_device(known.name, meter)
        )
        return local_runs(self.measuring, Target(known, energy), runs, self.host.outcomes(known))


def paired_lanes(host: BenchHost) -> OpenLanes:
    """A function that opens a `LaneFactory` for the devices that a host is paired with."""

    @contextmanager
    def open_lanes(plan: CampaignPlan, requests: CellRequests, count: int) -> Iterator[PairedLanes]:
        del requests
        with FinishingProcess() if count > 1 else nullcontext() as other:
            measuring = MeasuringHost(
                store=host.store,
                connect=host.connect,
                analyse=other.finish if other else finish,
                wait_s=plan.spec.wait_s,
            )
            yield PairedLanes(host=host, measuring=measuring)

    return open_lanes
