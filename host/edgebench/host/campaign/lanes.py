"""The lanes of a campaign: one for each device, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext

from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.finish import FinishingProcess, finish
from edgebench.host.bench.lanes import Target, measure_targets
from edgebench.host.bench.model import Model
from edgebench.host.bench.watcher import OutcomeNotes, Watcher
from edgebench.host.campaign.journal import Journal
from edgebench.host.campaign.requests import CellRequests
from edgebench.host.campaign.run import CampaignWork, DeviceCampaign
from edgebench.host.campaign.state import RunState, campaign_state
from edgebench.host.client import Client
from edgebench.host.devices.files import KnownDevice
from edgebench.host.devices.health import Outcomes
from edgebench.host.result.run import Run
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import EdgebenchError, NoSuchDevice


class QuietWatcher(Watcher):
    """Nobody looks, and nothing ends because of that: what failed is in the state."""

    def device_failed(self, device: str, error: EdgebenchError) -> None:
        """Nothing more is measured on a device."""

    def failed(self, model: Model, runtime: str, error: EdgebenchError) -> None:
        """A run failed."""


def make_runs(
    journal: Journal,
    store: Store,
    *,
    find: Callable[[str], tuple[KnownDevice, str | None]],
    connect: Callable[[KnownDevice], Client],
    outcomes: Callable[[KnownDevice], Outcomes],
    watcher: Watcher,
    cancellation: Cancellation,
    parallel: int,
) -> None:
    """Make the runs of a campaign that are left, on all devices that have any.

    Args:
        journal: The campaign.
        store: Its store.
        find: Finds a device by its name in the plan, and the meter that is wired to it.
        connect: Opens a connection to a device.
        outcomes: Where it is noted how the runs on a device end.
        watcher: Hears of every step.
        cancellation: Stops it from another thread.
        parallel: Number of devices that are measured at the same time.

    Raises:
        Interrupted: the user pressed Ctrl-C, or somebody cancelled.
        CampaignRunning: another process makes its runs.
        FileChanged: a model is not what it was.
    """
    with journal.held():
        plan = journal.plan()
        requests, state = CellRequests(plan), campaign_state(store, journal, plan)
        targets: list[Target] = []
        for name in plan.devices:
            if not state.count(RunState.LEFT, RunState.UNSETTLED, device=name):
                continue
            try:
                device, wired = find(name)
            except NoSuchDevice as exc:  # it was forgotten meanwhile
                watcher.of(name, len(plan.devices))
                watcher.device_failed(name, exc)
                continue
            cell = next(cell for cell in plan.cells if cell.device == name)
            target = Target(device, requests.of(cell).on_device(name, wired))
            if plan.spec.settings.meter is not None and target.request.energy is None:
                watcher.unmetered(name)
            targets.append(target)
        budget_s = plan.spec.budget_s
        with FinishingProcess() if len(targets) > 1 else nullcontext() as other:
            work = CampaignWork(
                plan=plan,
                journal=journal,
                store=store,
                requests=requests,
                connect=connect,
                finish=other.finish if other else finish,
                watcher=watcher,
                end_s=None if budget_s is None else time.monotonic() + budget_s,
            )

            def measure_on(target: Target, seen: Watcher, cancelled: Cancellation) -> list[Run]:
                noted = outcomes(target.device)
                noting = OutcomeNotes(seen, noted.succeeded, noted.failed)
                return DeviceCampaign(work, target, noting, cancelled, noted.failed).measure()

            measure_targets(targets, measure_on, watcher, cancellation, parallel=parallel)
