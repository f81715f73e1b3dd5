"""Progress of a campaign, for display and for JSON output."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CampaignSummary:
    """Progress of a campaign, in numbers of runs and expected time."""

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
    """Longest expected remaining time of any device, seconds; None if it cannot be estimated."""


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """Progress of one device (a lane) in a campaign."""

    device: str
    state: str
    reason: str
    lab: str | None
    """Lab host that measures on the device; None outside a cluster campaign."""
    since_utc: str | None
    """Time of the device's last report; None before its first report."""
    measured_count: int
    failed_count: int
    left_count: int
    left_s: float | None
    """Expected time of the remaining runs, seconds; None if it cannot be estimated."""


@dataclass(frozen=True, slots=True)
class CampaignProgress:
    """Progress of a campaign and of each of its devices."""

    summary: CampaignSummary
    lanes: tuple[LaneStatus, ...]
