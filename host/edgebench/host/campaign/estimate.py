"""Estimates of the duration of runs, before and during a campaign."""

from __future__ import annotations

from collections.abc import Mapping

from edgebench.host.campaign.plan import CampaignPlan
from edgebench.host.campaign.requests import CellRequests
from edgebench.host.campaign.state import CampaignState, RunState
from edgebench.protocol.spec import RunSpec

START_UP_S = 3.0
"""Time that a run takes in addition to its loop, warm-up and idle times: for loading and checking
the model, and for fetching and analysing the run. Measured with the built-in models on two noisy
cores: 1.6 to 4 s."""


def expected_run_s(spec: RunSpec) -> float:
    """Estimated duration of a run; a slow model may need more time for its minimum query count."""
    return spec.duration_s + spec.warmup_duration_s + 2 * spec.idle_duration_s + START_UP_S


def expected_plan_s(plan: CampaignPlan) -> Mapping[str, float]:
    """Map each device to the estimated duration of all its planned runs, seconds."""
    left_s, requests = dict.fromkeys(plan.devices, 0.0), CellRequests(plan)
    for cell in plan.cells:
        left_s[cell.device] += plan.spec.repeats * expected_run_s(requests.of(cell).spec)
    return left_s


def expected_lanes_s(state: CampaignState, requests: CellRequests) -> Mapping[str, float]:
    """Map each device to the estimated duration of its remaining runs, seconds."""
    left_s: dict[str, float] = dict.fromkeys(state.plan.devices, 0.0)
    each_s: dict[int, float] = {}
    for planned, run in state.runs.items():
        if run.state in (RunState.LEFT, RunState.UNSETTLED):
            cell = state.plan.cells[planned.cell]
            left_s[cell.device] += each_s.setdefault(
                planned.cell, expected_run_s(requests.of(cell).spec)
            )
    return left_s
