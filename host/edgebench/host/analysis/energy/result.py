"""What there is to say of the energy of a run; computed in run_energy.py."""

from __future__ import annotations

from dataclasses import dataclass

from edgebench.host.analysis.energy.checks import Check
from edgebench.host.analysis.energy.site import Site
from edgebench.host.analysis.energy.sync.choose import Sync
from edgebench.host.analysis.energy.uncertainty import Uncertain


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEnergy:
    """One phase of a run; null where its window could not be measured."""

    energy_j: float | None = None
    u95_absolute_j: float | None = None
    duration_s: float | None = None
    power_w_mean: float | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEnergy:
    """Energies of single inferences, where the meter can tell one from the next."""

    count: int = 0
    p50_j: float | None = None
    """Of the inference that so many take no more than (nearest rank)."""
    p50_u95_absolute_j: float | None = None
    """Of that one, k = 2."""
    p90_j: float | None = None
    p90_u95_absolute_j: float | None = None
    u95_edges_j: float | None = None
    """What the ends of a window may be wrong by, k = 2: of the one with the highest power there,
    among up to a thousand of them, evenly spread."""
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Battery:
    """How long a charge lasts, if nothing else took any."""

    capacity_j: float
    inference_count: float
    duration_s: float
    u95_ratio: float
    """Of both, without that of the capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """What a recording that can be trusted gives."""

    duration_s: float
    inference_count: int
    gross: Uncertain
    """Joules an inference."""
    power_w: Uncertain
    """Mean."""
    power_w_peak: float | None
    """Highest sample; None where several channels are added up."""
    power_w_peak_u95_absolute: float | None
    """Of the range in which it may be wrong by most."""
    energy_delay_js: float
    energy_delay_u95_absolute_js: float
    """By the energy; beside it, the time is exact."""
    net: Uncertain | None = None
    net_refused: str | None = None
    power_w_idle: float | None = None
    power_w_idle_u95_absolute: float | None = None
    power_w_idle_before: float | None = None
    power_w_idle_after: float | None = None
    phases: dict[str, PhaseEnergy]
    per_query: QueryEnergy
    battery: Battery | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnergy:
    """The energy of a metered run, or why there is none."""

    meter: str
    supply_v: float | None = None
    """Given or set, where the meter measures no voltage: every joule hangs on it."""
    settings_sha256: str | None = None
    """Of the driver's own facts, calibration and settings: another one is another meter."""
    site: Site | None = None
    checks: tuple[Check, ...] = ()
    sync: Sync | None = None
    numbers: Numbers | None = None
    refused: str | None = None
    """One line; None where there are numbers."""
