"""Progress of a campaign, as it is shown and written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CampaignSummary:
    """How far a campaign is, in numbers."""

    id: str
    name: str
    file: str
    created_utc: str
    is_running: bool
    run_count: int
    measured_count: int
    failed_count: int
    left_count: int
    left_s: float | None
    """Expected time of the lane that takes longest; None where it cannot be estimated."""


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """How far a device of a campaign is."""

    device: str
    state: str
    reason: str
    lab: str | None
    """Lab host that measures on it, in a campaign over a cluster."""
    since_utc: str | None
    """Time of the last report."""
    measured_count: int
    failed_count: int
    left_count: int
    left_s: float | None
    """Expected time for what is left; None where it cannot be estimated."""


@dataclass(frozen=True, slots=True)
class CampaignProgress:
    """Progress of a campaign and of each of its devices."""

    summary: CampaignSummary
    lanes: tuple[LaneStatus, ...]
