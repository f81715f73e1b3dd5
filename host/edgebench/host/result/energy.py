"""Energy of a run, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

SYNTHETIC = "synthetic"
"""Boundary of power that is not measured."""


class SyncMethod(Enum):
    """How the meter's clock was aligned with the device's; best first where all can be had."""

    SHARED_CLOCK = "shared_clock"
    """The meter's samples have timestamps of the device's own clock."""
    EDGE = "edge"
    """A wire from the device to a digital input of the meter."""
    PROBES = "probes"
    """The samples have timestamps of the host's clock; two-way probes give the device's."""
    CODED_LOAD = "coded_load"
    """A code of active and idle times that is seen in the power itself."""
    LOOP = "loop"
    """The start and the end of the loop, seen in the power where the code is not."""
    ARRIVAL = "arrival"
    """When the samples came to the host."""


ASSUMED_GAIN = 0.15
"""Gain error of an instrument of which nobody says one: the largest of those that we know, a PPK2
in its highest range, typical; plugs have 1 to 5 %."""


class TraceAssumption(Enum):
    """Something that neither the file of an instrument nor its user said."""

    GAIN = "gain"
    """The gain error is the largest that a data sheet of such instruments has."""
    OFFSET = "offset"
    """The instrument has no offset."""
    INSTANTS = "instants"
    """Samples are instants, and no means over their intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFile:
    """File of an instrument that edgebench did not drive, from which the energy was computed."""

    name: str
    sha256: str
    format: str
    """Kind of file, as `Otii CSV`."""
    is_averaging: bool
    """Samples are means over their intervals."""
    smoothing_s: float = 0.0
    """Time constant by which the instrument smears changes, as the load code shows; 0: none."""
    assumed: tuple[TraceAssumption, ...] = ()


@dataclass(frozen=True, slots=True)
class MeterCheck:
    """One question about a recording."""

    id: str
    is_passed: bool | None
    """None: unknown."""
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEnergy:
    """Energy of one phase of a run; null where its window could not be measured."""

    energy_j: float | None = None
    u95_absolute_j: float | None = None
    duration_s: float | None = None
    power_w_mean: float | None = None
    refused: str | None = None
    is_too_short: bool = False
    """Refused because the phase is shorter than the meter resolves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEnergy:
    """Energies of single inferences, where the meter can tell one from the next."""

    count: int = 0
    p50_j: float | None = None
    """Energy of the inference at this rank (nearest rank)."""
    p50_u95_absolute_j: float | None = None
    """Expanded uncertainty of that one, k = 2."""
    p90_j: float | None = None
    p90_u95_absolute_j: float | None = None
    u95_edges_j: float | None = None
    """Expanded uncertainty by the ends of a window, k = 2: the largest among up to a thousand
    inferences, evenly spread."""
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatteryLife:
    """How long a charge lasts, if nothing else took any."""

    capacity_j: float
    inference_count: float
    duration_s: float
    u95_ratio: float
    """Expanded uncertainty of both, without that of the capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeWindow:
    """Window of inferences whose two ends are edges that the meter saw on a digital input."""

    inference_count: int
    duration_s: float
    """Time between the edges, by the meter's own clock."""
    energy_j_per_inference: float | None = None
    """None where the energy was refused."""


@dataclass(frozen=True, slots=True)
class SyncAttempt:
    """One method of alignment, and what came of it."""

    method: SyncMethod
    error_ns: float | None
    reason: str | None = None
    """Why it gave nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergySync:
    """How the meter's clock was aligned with the device's; null where no method worked."""

    method: SyncMethod | None = None
    asked: SyncMethod | None = None
    """The only method that was asked for; None: the best."""
    error_ns: float | None = None
    """Bound on the error of a time inside the run."""
    residual_ns: float | None = None
    mark_count: int | None = None
    slope_ppm: float | None = None
    reference_ns: int | None = None
    offset_ns: float | None = None
    tried: tuple[SyncAttempt, ...] = ()

    @property
    def refusal(self) -> str:
        """Why there is no alignment."""
        asked = [one for one in self.tried if self.asked in (None, one.method)]
        reasons = [f"{one.method.value}: {one.reason}" for one in asked if one.reason]
        return "; ".join(reasons) or "no way to align the meter's clock with the device's"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyResult:
    """Energy of a metered run, or why it is refused; numbers are null where they are."""

    gross_j_per_inference: float | None = None
    u95_absolute_j: float | None = None
    """Expanded uncertainty of the gross energy, all terms, k = 2."""
    u95_comparative_j: float | None = None
    """Expanded uncertainty beside another run with this meter, k = 2."""
    components_j: dict[str, float] | None = None
    """Standard uncertainty by its source."""
    common_j: dict[str, float] | None = None
    """Signed effect of each error that two runs with this meter share, one standard deviation."""
    net_j_per_inference: float | None = None
    net_u95_absolute_j: float | None = None
    net_u95_comparative_j: float | None = None
    net_components_j: dict[str, float] | None = None
    net_common_j: dict[str, float] | None = None
    coverage_factor: float | None = None
    power_w_mean: float | None = None
    power_w_mean_u95_absolute: float | None = None
    inferences_per_j: float | None = None
    inferences_per_s_per_w: float | None = None
    duration_s: float | None = None
    inference_count: int | None = None
    power_w_peak: float | None = None
    """Highest sample; None where several channels are added up."""
    power_w_peak_u95_absolute: float | None = None
    """Expanded uncertainty in the range that may be wrong by most."""
    power_w_idle: float | None = None
    power_w_idle_u95_absolute: float | None = None
    power_w_idle_before: float | None = None
    power_w_idle_after: float | None = None
    energy_delay_js: float | None = None
    energy_delay_u95_absolute_js: float | None = None
    """Expanded uncertainty by the energy; beside it, the time is exact."""
    phases: dict[str, PhaseEnergy] | None = None
    per_query: QueryEnergy | None = None
    battery: BatteryLife | None = None
    net_refused: str | None = None
    edge_windows: tuple[EdgeWindow, ...] = ()
    """Windows of a board in energy mode, in order of time; the gross energy is that of the window
    with the median one. Empty where the ends of the window are those of a loop on another clock."""
    edge_input: int | None = None
    """Digital input that has the edges."""
    boundary: str | None = None
    """What is inside; None where there is no energy, and where nobody knows."""
    channels: tuple[str, ...] | None = None
    meter: str
    supply_v: float | None = None
    """Voltage given or set, where the meter measures none: every joule depends on it."""
    settings_sha256: str | None = None
    """Digest of the driver's own facts, calibration and settings: another one is another meter."""
    sync: EnergySync | None = None
    trace: TraceFile | None = None
    """File that the power was read from; None: edgebench drove the meter."""
    checks: tuple[MeterCheck, ...] = ()
    refused: str | None = None
    """Why there is no number, one line; None where there is one."""
    refused_by: str | None = None
    """Rule that the reason belongs to: meter, energy_sync, or energy for any other."""

    @property
    def is_measured(self) -> bool:
        """Whether there are numbers."""
        return self.gross_j_per_inference is not None
