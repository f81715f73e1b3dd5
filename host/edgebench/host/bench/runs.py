"""Make the runs of a command on a device, after earlier runs on the device were stored.

`bench` makes the runs of its request, and keeps no journal. A campaign makes the runs that are
still to be made according to its journal, and repeats runs after failures of host, link and device.
`collect` makes no runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

from edgebench.host.analysis.compare.runs import (
    RunComparison,
    compare_pairs,
    with_planned_pairs,
)
from edgebench.host.analysis.extra_runs import next_extra_run
from edgebench.host.bench import events
from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.events import Notify, Place
from edgebench.host.bench.plan import (
    ALL_RUNTIMES,
    Step,
    plan_steps,
    refuse_impossible,
    refuse_unseen_edges,
    unmeasured_references,
)
from edgebench.host.bench.references import achieved_accuracy
from edgebench.host.bench.request import BenchRequest, ComparisonRequest
from edgebench.host.bench.session import (
    DeviceSession,
    InProgress,
    MeasuringHost,
    RunOrder,
    RunPlan,
    RunSession,
    Target,
    device_session,
)
from edgebench.host.devices.health import Outcomes
from edgebench.host.result.run import Run
from edgebench.protocol.device import SystemDescription
from edgebench.protocol.errors import (
    EdgebenchError,
    InputsRefused,
    LeaseHeld,
    MeasurementError,
    ModelRefused,
    NoSuchRun,
    RunNotStored,
    RunSetAside,
    WorkerDied,
    WorkerTimeout,
)

ONE_RUN_ONLY = (InputsRefused, ModelRefused, WorkerDied, WorkerTimeout, MeasurementError)
"""Errors of a single run, after which `bench` makes the next run on the device. Any error of
another class ends the measurement on the device."""

OpenSession = Callable[[Cancellation], AbstractContextManager[RunSession]]
"""Opens a session with a device; the session ends with the `with` block in which runs are made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRuns:
    """A device, and the runs that a command makes on it."""

    target: Target
    plan: RunPlan
    open: OpenSession
    outcomes: Outcomes | None = None
    """Health record of the device; None if another host keeps the record."""

    def measure(self, cancellation: Cancellation) -> None:
        """Make the runs; after an error, try again unless the plan has given up on the device.

        Raises:
            Interrupted: the command was cancelled.
            EdgebenchError: the plan has given up on the device, and ends the command.
        """
        plan = self.plan
        while True:
            try:
                with self.open(cancellation) as session:
                    plan.opened()
                    session.settle(plan)
                    for order in plan.orders(session):
                        cancellation.check()
                        self._make(session, order)
                    session.finish()
                plan.ended()
                return
            except EdgebenchError as exc:
                if (pause_s := plan.pause_s(exc)) is None:
                    if self.outcomes is not None:
                        self.outcomes.failed(exc)
                    plan.given_up(exc)
                    return
                cancellation.wait(pause_s)

    def _make(self, session: RunSession, order: RunOrder) -> None:
        """Make a run.

        Raises:
            Interrupted: the command was cancelled.
            EdgebenchError: the failure prevents further runs.
        """
        plan, name = self.plan, self.target.device.name
        try:
            run = session.make(order)
        except Interrupted as exc:
            if exc.run is not None:
                plan.stored(order, exc.run)
                plan.notify(events.RunStored(name, exc.run))
            raise
        except EdgebenchError as exc:
            plan.failed(order, exc)
            model, runtime = order.request.models[0].name, order.request.runtime or ""
            if self.outcomes is not None:
                self.outcomes.failed(exc, model)
            plan.notify(events.RunFailed(name, model, runtime, exc))
        else:
            plan.stored(order, run)
            if self.outcomes is not None:
                self.outcomes.succeeded()
            plan.notify(events.RunStored(name, run))


class BenchRuns(RunPlan):
    """The runs of a request on a device, without a journal."""

    def __init__(self, request: BenchRequest, device: str, notify: Notify) -> None:
        super().__init__(device, notify)
        self._request = request
        self._abandoned: set[str] = set()
        """Ids of sets whose first run failed, and of comparisons whose inputs were refused. The
        other runs of these sets and comparisons are skipped, because they would fail, too."""
        self.runs: list[Run] = []

    def refuse_impossible(self, session: DeviceSession) -> None:
        """Reject the request if it contains a run that the device cannot make."""
        self._possible(session, session.client.describe())

    def orders(self, session: RunSession) -> Iterator[RunOrder]:
        """Yield an order for each planned run, then an order for each extra run of a set."""
        assert isinstance(session, DeviceSession), "edgebench bench uses devices of this host"
        system = session.describe()
        for report in system.runtimes:
            if self._request.runtime == ALL_RUNTIMES and not report.is_usable:
                self.notify(events.RuntimeLeftOut(self.device, report))
        request, steps = self._possible(session, system)
        left_out = unmeasured_references(request, system)
        for model in request.accuracy.added if request.accuracy else ():
            is_added = model not in left_out
            kind = events.ReferenceAdded if is_added else events.ReferenceSkipped
            self.notify(kind(self.device, model.name))
        for number, step in enumerate(steps, 1):
            if _group_of(step) in self._abandoned:
                continue
            yield self._order(request, step, Place(number, len(steps)))
        number = len(steps)
        for _ in range(request.extra_run_count):  # in rounds over all models, like the planned runs
            for step in self._extra_steps(steps):
                number += 1
                yield self._order(request, step, Place(number, number))

    def _extra_steps(self, steps: Sequence[Step]) -> Iterator[Step]:
        """Yield an extra run for each set that has a disturbed run to replace."""
        by_set = {step.member.set_id: step for step in steps if step.member}
        for set_id, step in by_set.items():
            runs = [run for run in self.runs if run.set_id == set_id]
            if runs and (member := next_extra_run(runs)) is not None:
                self.notify(
                    events.ExtraRunPlanned(self.device, step.model.name, step.runtime, member)
                )
                yield replace(step, member=member)

    def _order(self, request: BenchRequest, step: Step, place: Place) -> RunOrder:
        references = request.accuracy.references if request.accuracy else {}
        return RunOrder(
            request=replace(
                request,
                models=(step.model,),
                has_named_models=not step.model.is_on_device,
                runtime=step.runtime,
                against=None,
            ),
            place=place,
            pair=step.pair,
            member=step.member,
            references=achieved_accuracy(references.get(step.model), self.runs),
        )

    def _possible(
        self, session: DeviceSession, system: SystemDescription
    ) -> tuple[BenchRequest, list[Step]]:
        """Adapt the request to this device, and plan the runs.

        Raises:
            EdgebenchError: the device cannot make one of the runs.
        """
        request, name = self._request.on_system(system), session.client.device.name
        session.with_meter(request)  # raises on an invalid load code or idle time
        refuse_impossible(name, request, system, session.meter)
        steps = plan_steps(request, system)
        refuse_unseen_edges(request, steps, session.meter)
        return request, steps

    def stored(self, order: RunOrder, run: Run) -> None:
        """Append the run to `runs`."""
        del order
        self.runs.append(run)

    def failed(self, order: RunOrder, error: EdgebenchError) -> None:
        """Ignore an error of `ONE_RUN_ONLY`, so that another run follows; raise other errors."""
        if not isinstance(error, ONE_RUN_ONLY):
            raise error
        if order.member and order.member.number == 0:
            self._abandoned.add(order.member.set_id)
        if order.pair and isinstance(error, InputsRefused):
            self._abandoned.add(order.pair.comparison_id)


def _group_of(step: Step) -> str | None:
    """Id of the set or comparison of a step."""
    if step.member is not None:
        return step.member.set_id
    return step.pair.comparison_id if step.pair is not None else None


class CollectRuns(RunPlan):
    """A plan that makes no runs, but fetches runs of earlier commands, and lists them in `runs`."""

    is_measuring = False

    def __init__(self, device: str, notify: Notify, *, is_waiting: bool) -> None:
        """Create the plan.

        Args:
            device: Name of the device.
            notify: Consumer of the events.
            is_waiting: Whether to follow a run in progress. If False, a device with a run in
                progress is skipped.
        """
        super().__init__(device, notify)
        self._is_waiting = is_waiting
        self.runs: list[Run] = []
        """Fetched runs, including failed runs."""

    def on_progress(self, run_id: str) -> InProgress:
        """Follow the run, whichever command started it, or skip the device; see `is_waiting`."""
        del run_id
        return InProgress.FOLLOW if self._is_waiting else InProgress.LEAVE

    def fetch_began(self, run_id: str) -> None:
        """Report that the fetch of a run begins."""
        self.notify(events.FetchBegan(self.device, run_id))

    def fetched(self, run: Run) -> None:
        """Append the fetched run to `runs`, and send an event about it."""
        self.runs.append(run)
        self.notify(events.RunFetched(self.device, run))

    def refused(self, run_id: str, error: EdgebenchError) -> None:
        """Send an event about the error; `LeaseHeld` and `RunNotStored` end the command."""
        if isinstance(error, (LeaseHeld, RunNotStored)):
            raise error
        if isinstance(error, NoSuchRun):  # it was in progress, and its own command stored it
            self.notify(events.RunStoredElsewhere(self.device, run_id))
        elif isinstance(error, RunSetAside):  # it is no longer on the device
            self.notify(events.EarlierRunRejected(self.device, run_id, error))
        else:
            self.notify(events.FetchFailed(self.device, run_id, error))


def local_runs(
    host: MeasuringHost, target: Target, plan: RunPlan, outcomes: Outcomes | None = None
) -> DeviceRuns:
    """The runs of a plan on a device that is paired with this host."""
    return DeviceRuns(
        target=target,
        plan=plan,
        open=partial(device_session, host, target, plan.notify),
        outcomes=outcomes,
    )


def compare_measured(against: ComparisonRequest, runs: Sequence[Run]) -> list[RunComparison]:
    """Compare the runs that were made for a request.

    Raises:
        UsageError: the runs differ in more than the model.
        MeasurementError: a comparison has no pair of usable runs.
    """
    if not runs:
        raise MeasurementError("no pair of valid runs is left to compare")
    compared = compare_pairs(
        runs, metrics=against.metrics, margin_ratio=against.margin_ratio, allowed=against.allowed
    )
    return [with_planned_pairs(comparison, against.pair_count) for comparison in compared]
