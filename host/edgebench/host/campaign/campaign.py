"""Read access to a campaign in a store: its progress and its results."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from edgebench.host.analysis.effects import FactorEffect, Observation, factor_effects
from edgebench.host.analysis.run_set import find_sets
from edgebench.host.campaign.estimate import expected_lanes_s
from edgebench.host.campaign.journal import Journal, LaneNote, find_journal
from edgebench.host.campaign.plan import CampaignPlan, PlannedRun, attempt_name
from edgebench.host.campaign.requests import CellRequests
from edgebench.host.campaign.state import CampaignState, RunState, campaign_state
from edgebench.host.report.campaign import CampaignFacts
from edgebench.host.result.campaign import CampaignSummary, LaneStatus
from edgebench.host.result.metrics import GROSS_ENERGY, METRICS, headline
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.show.campaigns import failure_lines
from edgebench.host.store.index import DAMAGED, RunSummary
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import EdgebenchError

if TYPE_CHECKING:
    import pandas as pd

_MEASURED = tuple(
    field.name
    for field in fields(RunSummary)
    if field.name.startswith(
        ("latency_", "end_to_end_", "throughput", "instructions_", "peak_", "energy_")
    )
    or field.name in ("set_id", "verdict")
)
"""Columns of the store's index that the rows of a campaign also have."""
_UNSETTLED = (RunState.LEFT, RunState.UNSETTLED)


class Campaign:
    """A campaign in a store."""

    def __init__(self, store: Store, name: str = "last", journal: Journal | None = None) -> None:
        """Find a campaign by its id or name.

        Args:
            store: Store of the campaign.
            name: Id or name of the campaign, or `last` for the newest campaign.
            journal: Journal of the campaign, if the caller has it; `name` is then ignored.

        Raises:
            NoSuchCampaign: the store has no such campaign.
            StoreError: the campaign cannot be read.
        """
        self._store = store
        self.journal: Journal = journal or find_journal(store, name)
        self.plan: CampaignPlan = self.journal.plan()

    def __repr__(self) -> str:
        return f"<Campaign {self.plan.id}: {self.plan.name}>"

    def _repr_html_(self) -> str:
        """The campaign in a notebook, with the main results and the set of runs of each cell."""
        from edgebench.host.show.notebook import sets_html

        return sets_html(
            self.sets(), settings=lambda run_set: self.settings_of(run_set.first.run_id)
        )

    @property
    def is_running(self) -> bool:
        """Whether a process on this machine is making the runs of the campaign."""
        return self.journal.is_held

    def state(self) -> CampaignState:
        """Current state of all runs and devices."""
        return campaign_state(self._store, self.journal, self.plan)

    def summary(self) -> CampaignSummary:
        """Current progress, with the number of runs in each state and the remaining time."""
        state = self.state()
        times_s = [lane.left_s for lane in self.lanes() if lane.left_s is not None]
        return CampaignSummary(
            id=self.plan.id,
            name=self.plan.name,
            file=self.plan.file,
            created_utc=self.plan.created_utc,
            is_running=self.is_running,
            run_count=len(state.runs),
            measured_count=state.count(RunState.MEASURED),
            failed_count=state.count(RunState.FAILED),
            left_count=state.count(*_UNSETTLED),
            left_s=max(times_s, default=None),
        )

    def lanes(self) -> list[LaneStatus]:
        """Progress and last reported state of each device."""
        state, left_s, is_running = self.state(), None, self.is_running
        with suppress(EdgebenchError):  # a model's file may have been removed
            left_s = expected_lanes_s(state, self._requests)
        rows: list[LaneStatus] = []
        for name in self.plan.devices:
            note = state.lanes.get(name)
            rows.append(
                LaneStatus(
                    device=name,
                    state=_lane_state(note, is_running=is_running),
                    reason=note.reason if note else "",
                    lab=(note.at.lab or None) if note else None,
                    since_utc=note.at_utc if note else None,
                    measured_count=state.count(RunState.MEASURED, device=name),
                    failed_count=state.count(RunState.FAILED, device=name),
                    left_count=state.count(*_UNSETTLED, device=name),
                    left_s=left_s[name] if left_s is not None else None,
                )
            )
        return rows

    @cached_property
    def _requests(self) -> CellRequests:
        return CellRequests(self.plan)

    def rows(self) -> list[dict[str, Any]]:
        """One row per planned run, with the run's settings, state and results."""
        rows: list[dict[str, Any]] = []
        for planned, run in self.state().runs.items():
            problem, stored = run.problem, run.final.stored if run.final else None
            measured = asdict(stored) if stored else dict.fromkeys(_MEASURED)
            rows.append(
                {
                    "cell": planned.cell,
                    "repeat": planned.repeat,
                    **self.plan.cells[planned.cell].factors,
                    "state": run.state.value,
                    "attempt_count": len(run.attempts),
                    "run_id": run.attempts[-1].run_id if run.attempts else None,
                    "code": problem.code if problem else None,
                    "message": (problem.message or None) if problem else None,
                    **{name: measured[name] for name in _MEASURED},
                }
            )
        return rows

    def table(self) -> pd.DataFrame:
        """The rows as a data frame."""
        import pandas as pd

        return pd.DataFrame(self.rows())

    def results(self) -> list[Run]:
        """The stored run of each planned run's final attempt, in the order of the plan."""
        return [run for _, run in self._results()]

    def _results(self) -> Iterator[tuple[PlannedRun, Run]]:
        """Planned runs with their final stored runs; damaged runs are left out."""
        for planned, progress in self.state().runs.items():
            stored = progress.final and progress.final.stored
            if stored and stored.verdict != DAMAGED:
                yield planned, self._store.run(stored.run_id)

    def sets(self) -> list[RunSet]:
        """The set of runs of each cell, with the device names of the plan."""
        # Runs have the device's own name, not the name under which it was paired.
        return [
            replace(run_set, device=self.device_of(run_set.first.run_id))
            for run_set in find_sets(self.results())
        ]

    def report_facts(self) -> CampaignFacts:
        """Facts for the report of the campaign."""
        return CampaignFacts(
            summary=self.summary(),
            lanes=self.lanes(),
            sets=self.sets(),
            settings=lambda run_set: self.settings_of(run_set.first.run_id),
            effects=self.effects(),
            failures=failure_lines(self.rows()),
        )

    def settings_of(self, run_id: str) -> str:
        """Settings of a run's cell that distinguish cells of the same model, device and runtime."""
        name = attempt_name(run_id)
        return self.plan.settings(name.planned.cell) if name is not None else ""

    def device_of(self, run_id: str) -> str:
        """Name of a run's device in the plan."""
        name = attempt_name(run_id)
        assert name is not None, f"not the id of a campaign's run: {run_id}"
        return self.plan.cells[name.planned.cell].device

    def effects(self) -> Mapping[str, list[FactorEffect]]:
        """Map each metric to the effects that each factor of the campaign has on it.

        Only valid and suspect runs count.

        If the verdict of a cell is invalid, its runs are left out, even valid ones.
        The metrics are the headline metrics of the scenarios, and the gross energy.
        """
        results = list(self._results())
        refused = [
            run_set
            for run_set in find_sets(run for _, run in results)
            if run_set.verdict.is_refused
        ]
        without_numbers = {run.run_id for run_set in refused for run in run_set.runs}
        observed: dict[str, list[Observation]] = {}
        for planned, run in results:
            if run.marks.are_numbers_refused or run.run_id in without_numbers:
                continue
            levels: dict[str, Hashable] = dict(self.plan.cells[planned.cell].factors)
            for path, value in _values(run).items():
                marks = METRICS[path].relevant(run.marks)
                observation = Observation(levels, planned.repeat, value, marks)
                observed.setdefault(path, []).append(observation)
        factors = list(self.plan.cells[0].factors)
        by_metric = {
            path: factor_effects(observations, factors) for path, observations in observed.items()
        }
        return {path: effects for path, effects in by_metric.items() if effects}


def _lane_state(note: LaneNote | None, *, is_running: bool) -> str:
    """State of a device; `interrupted` if the process was killed before it reported an end."""
    if note is None:
        return "not begun"
    is_cut = not is_running and note.state in ("measuring", "waiting")
    return "interrupted" if is_cut else note.state


def _values(run: Run) -> dict[str, float]:
    """Values of a run, by metric: the metrics for which effects of factors are computed."""
    metric = headline(run)
    values = {metric.path: metric.value(run)}
    if run.metrics.energy is not None:
        values[GROSS_ENERGY] = run.metrics.energy.gross_j_per_inference
    return {path: float(value) for path, value in values.items() if value is not None and value > 0}
