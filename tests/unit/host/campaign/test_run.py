"""The runs of a campaign on one device, whichever lab host is connected to it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from support.changes import changed
from support.records import store_run

from edgebench.host.bench.builtin import find_model
from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.bench.events import ignore_events
from edgebench.host.bench.runs import DeviceRuns
from edgebench.host.bench.session import RunOrder, RunPlan, RunSession, Target
from edgebench.host.campaign.journal import DeviceAtLab, begin_journal
from edgebench.host.campaign.plan import AttemptName, PlannedRun, new_plan
from edgebench.host.campaign.requests import CellRequests
from edgebench.host.campaign.run import CampaignRuns, CampaignWork, CellOrder, Pause
from edgebench.host.campaign.spec import Axes, CampaignSpec, Settings
from edgebench.host.campaign.state import campaign_state
from edgebench.host.devices.files import KnownDevice
from edgebench.host.devices.health import Outcomes
from edgebench.host.result.outputs import Accuracy
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import State
from edgebench.host.store.files import write_run
from edgebench.host.store.index import note_run
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import EdgebenchError, LabHostsUnreachable, LinkLost, ModelRefused

FP32, INT8 = "digits_fp32.tflite", "digits_int8.tflite"
SPEC = CampaignSpec(
    schema=1,
    name="nightly",
    axes=Axes(model=(INT8, FP32)),
    settings=Settings(preset="quick", accuracy="digits"),
    repeats=1,
    wait_s=0,
)


class RefusingDevice:
    """A device that refuses every model, or is gone."""

    at = DeviceAtLab("rack-1", "aa", "left")

    def __init__(self, error: EdgebenchError) -> None:
        self.error = error
        self.orders: list[CellOrder] = []

    def settle(self, plan: RunPlan) -> None:
        """Do nothing, as no run waits there."""

    def finish(self) -> None:
        """Do nothing, as nothing is kept here."""

    def make(self, order: RunOrder) -> Run:
        """Refuse the order, right after it received its id."""
        assert isinstance(order, CellOrder)
        assert order.new_id is not None
        self.orders.append(order)
        order.new_id()
        raise self.error

    @contextmanager
    def open(self, cancellation: Cancellation) -> Iterator[RunSession]:
        """Connect, unless no lab host offers it."""
        if isinstance(self.error, LabHostsUnreachable):
            raise self.error
        yield self


class Failures(Outcomes):
    """Keeps why a device failed."""

    def __init__(self) -> None:
        self.errors: list[EdgebenchError] = []

    def failed(self, error: EdgebenchError, model: str | None = None) -> None:
        """Note that the device failed, unless only a run of this model did."""
        if model is None:
            self.errors.append(error)


def campaign_on(device: RefusingDevice, store: Store, spec: CampaignSpec = SPEC) -> CampaignWork:
    """Return a campaign on a device, of which nothing was made yet."""
    plan = new_plan(spec, Path("campaign.toml"), lambda _: ["local"])
    journal = begin_journal(store, plan)
    return CampaignWork(
        plan=plan,
        journal=journal,
        store=store,
        requests=CellRequests(plan),
        notify=ignore_events,
    )


def measure(work: CampaignWork, device: RefusingDevice) -> list[EdgebenchError]:
    """Make its runs; return why the device was given up."""
    failures = Failures()
    DeviceRuns(
        target=Target(KnownDevice("local", "", "", (), 0)),
        plan=CampaignRuns(work, "local", request=work.requests.of, at=lambda: device.at),
        open=device.open,
        outcomes=failures,
    ).measure(Cancellation())
    return failures.errors


def test_resumed_campaign_knows_what_the_reference_has_achieved(tmp_path: Path) -> None:
    """Otherwise, after a restart at night, half of the quantised models would lack a reference."""
    store, device = Store(tmp_path), RefusingDevice(ModelRefused("no"))
    work = campaign_on(device, store)
    [cell] = [cell for cell in work.plan.cells if cell.model == FP32]
    name = AttemptName(work.plan.id, PlannedRun(cell.number, 0), 1)
    run_id = name.run_id(datetime(2026, 11, 23, tzinfo=timezone.utc))
    store_run(store, run_id)
    run = changed(
        store.run(run_id),
        {
            "model.sha256": find_model(FP32).sha256,
            "metrics.accuracy": Accuracy("top1", 0.98, None, 360),
            "verdict.state": State.VALID,
        },
    )
    write_run(store.directory(run_id), run)
    note_run(store, run_id)
    assert measure(work, device) == []
    [order] = device.orders
    assert order.cell.model == INT8
    [reference] = order.references.values()
    assert (reference.run_id, reference.value) == (run_id, 0.98)


def test_reference_is_made_before_what_is_held_against_it(tmp_path: Path) -> None:
    """Otherwise the order of the file would decide whether an accuracy has a reference."""
    device = RefusingDevice(ModelRefused("no"))
    measure(campaign_on(device, Store(tmp_path)), device)
    assert [order.cell.model for order in device.orders] == [FP32, INT8]


def test_lab_host_that_is_gone_is_noted_and_its_run_stays_open(tmp_path: Path) -> None:
    """Otherwise a run that may have been made would count as failed, or its lab host be unknown."""
    device = RefusingDevice(LinkLost("lab host rack-1 does not answer"))
    work = campaign_on(device, Store(tmp_path))
    [error] = measure(work, device)
    assert isinstance(error, LinkLost)
    state = campaign_state(work.store, work.journal)
    assert (state.lanes["local"].state, state.lanes["local"].at) == ("given_up", device.at)
    [intended] = [run.attempts for run in state.runs.values() if run.attempts]
    assert intended[0].is_unsettled


def test_device_that_no_lab_host_offers_is_given_up_at_once(tmp_path: Path) -> None:
    """Otherwise lab hosts that were already waited for would be waited for again."""
    device = RefusingDevice(LabHostsUnreachable("no lab host offers local"))
    work = campaign_on(device, Store(tmp_path), replace(SPEC, wait_s=3600))
    [error] = measure(work, device)
    assert isinstance(error, LabHostsUnreachable)


def test_pauses_between_attempts_grow_to_half_a_minute() -> None:
    """Otherwise a board that is off for a night would be called twice a second until it is back."""
    pause = Pause(limit_s=3600.0)
    assert [pause.next_s() for _ in range(8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    pause.made()
    assert pause.next_s() == 0.5
