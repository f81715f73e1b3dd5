"""Energy of a run, or the reason why it has no energy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import chain

from edgebench.host.result.reason import Reason, about
from edgebench.host.result.reasons.alignment import no_method
from edgebench.host.result.reasons.table import text_of
from edgebench.host.result.verdict import State

SYNTHETIC = "synthetic"
"""Boundary of power that no instrument measured."""


class SyncMethod(Enum):
    """How the meter's clock was aligned with the device's clock, in order of preference."""

    SHARED_CLOCK = "shared_clock"
    """The meter timestamps its samples with the device's clock."""
    EDGE = "edge"
    """A wire from the device to a digital input of the meter."""
    PROBES = "probes"
    """Samples are timestamped by the host's clock; two-way probes map it to the device's clock."""
    CODED_LOAD = "coded_load"
    """A code of active and idle times, detected in the power."""
    LOOP = "loop"
    """Start and end of the timed loop, detected in the power if the code was not detected."""
    ARRIVAL = "arrival"
    """Arrival time of the samples at the host."""


ASSUMED_GAIN = 0.15
"""Gain error assumed for an instrument without a stated gain error: the largest typical value among
the supported instruments, that of a PPK2 in its highest range. Plugs have 1 to 5 %."""


class TraceAssumption(Enum):
    """Property of a power file that neither the file nor the user states."""

    GAIN = "gain"
    """The gain error is `ASSUMED_GAIN`."""
    OFFSET = "offset"
    """The offset is 0."""
    INSTANTS = "instants"
    """Samples are instantaneous values, not means over their intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFile:
    """Power file of an instrument that edgebench did not drive, source of the energy."""

    name: str
    sha256: str
    format: str
    """Kind of file, such as `Otii CSV`."""
    is_averaging: bool
    """Samples are means over their intervals."""
    smoothing_s: float = 0.0
    """Time constant of the instrument's smoothing, from the load code; 0: no smoothing."""
    assumed: tuple[TraceAssumption, ...] = ()
    reading: tuple[Reason, ...] = ()
    """Notes on how the file was read: rows that were left out, times that were repaired."""


@dataclass(frozen=True, slots=True)
class MeterCheck:
    """Check of a power recording."""

    id: str
    is_passed: bool | None
    """None: unknown."""
    reasons: tuple[Reason, ...] = ()
    """What was found."""
    detail: str = ""
    """Text of the reasons."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", text_of(self.reasons, self.detail))


@dataclass(frozen=True, slots=True)
class RecordingVerdict:
    """Verdict of a recording that belongs to no run, with its reasons as data."""

    state: State
    reasons: tuple[Reason, ...] = ()
    """Why it is not valid."""
    not_stated: tuple[Reason, ...] = ()
    """What neither the file nor the user states; assumptions are part of the uncertainty."""
    reading: tuple[Reason, ...] = ()
    """Notes on how the file was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEnergy:
    """Energy of a phase of a run; numbers are null if the phase could not be measured."""

    energy_j: float | None = None
    u95_absolute_j: float | None = None
    duration_s: float | None = None
    power_w_mean: float | None = None
    refusal: tuple[Reason, ...] = ()
    """Why the phase has no energy."""
    refused: str | None = None
    """Text of the refusal."""
    is_too_short: bool = False
    """Refused because the phase is too short for the meter's time resolution."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "refused", _text(self.refusal, self.refused))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryEnergy:
    """Energies of single inferences, if the meter can resolve them."""

    count: int = 0
    p50_j: float | None = None
    """Median energy (nearest rank)."""
    p50_u95_absolute_j: float | None = None
    """Expanded uncertainty of the median, k = 2."""
    p90_j: float | None = None
    p90_u95_absolute_j: float | None = None
    u95_edges_j: float | None = None
    """Expanded uncertainty due to the window boundaries, k = 2: the largest among up to a thousand
    evenly spaced inferences."""
    refusal: tuple[Reason, ...] = ()
    """Why only the mean is known."""
    refused: str | None = None
    """Text of the refusal."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "refused", _text(self.refusal, self.refused))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatteryLife:
    """How long a battery charge lasts if the inferences are its only load."""

    capacity_j: float
    inference_count: float
    duration_s: float
    u95_ratio: float
    """Relative expanded uncertainty of count and duration, excluding that of the capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeWindow:
    """Window of inferences, delimited by two edges on a digital input of the meter."""

    inference_count: int
    duration_s: float
    """Time between the edges on the meter's clock."""
    energy_j_per_inference: float | None = None
    """None if the energy was refused."""


@dataclass(frozen=True, slots=True)
class SyncAttempt:
    """Attempted method of alignment, with its error or the reason why it failed."""

    method: SyncMethod
    error_ns: float | None
    reasons: tuple[Reason, ...] = ()
    """Why the method failed."""
    reason: str | None = None
    """Text of the reasons."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", _text(self.reasons, self.reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergySync:
    """How the meter's clock was aligned with the device's clock; null if every method failed."""

    method: SyncMethod | None = None
    asked: SyncMethod | None = None
    """The only method allowed by the request; None: the best available method."""
    error_ns: float | None = None
    """Bound on the error of a time inside the run."""
    residual_ns: float | None = None
    mark_count: int | None = None
    slope_ppm: float | None = None
    reference_ns: int | None = None
    offset_ns: float | None = None
    tried: tuple[SyncAttempt, ...] = ()

    @property
    def refusal(self) -> tuple[Reason, ...]:
        """Why each allowed method failed; without a method, that none could be tried."""
        allowed = [attempt for attempt in self.tried if self.asked in (None, attempt.method)]
        reasons = tuple(chain.from_iterable(about(a.method.value, a.reasons) for a in allowed))
        return reasons or (no_method(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyResult:
    """Energy of a metered run, or why it is refused; numbers are null if they are refused."""

    gross_j_per_inference: float | None = None
    u95_absolute_j: float | None = None
    """Expanded uncertainty of the gross energy, all terms, k = 2."""
    u95_comparative_j: float | None = None
    """Expanded uncertainty in a comparison with another run on the same meter, k = 2."""
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
    gaps_s: float | None = None
    """Total time of the loop's random gaps, whose energy is not in the gross energy; None if the
    loop made none."""
    power_w_peak: float | None = None
    """Highest sample; None where several channels are added up."""
    power_w_peak_u95_absolute: float | None = None
    """Expanded uncertainty in the measuring range with the largest possible error."""
    power_w_idle: float | None = None
    power_w_idle_u95_absolute: float | None = None
    power_w_idle_before: float | None = None
    power_w_idle_after: float | None = None
    energy_delay_js: float | None = None
    energy_delay_u95_absolute_js: float | None = None
    """Expanded uncertainty due to the energy; the time's uncertainty is negligible."""
    phases: dict[str, PhaseEnergy] | None = None
    per_query: QueryEnergy | None = None
    battery: BatteryLife | None = None
    net_refusal: tuple[Reason, ...] = ()
    """Why there is no net energy."""
    net_refused: str | None = None
    """Text of the net refusal."""
    edge_windows: tuple[EdgeWindow, ...] = ()
    """Windows of a board in energy mode, in order of time; the gross energy is the energy of the
    median window. Empty if a loop on another clock delimits the window."""
    edge_input: int | None = None
    """Digital input of the meter that receives the edges."""
    boundary: str | None = None
    """What the measured power includes; None if there is no energy or the boundary is unknown."""
    channels: tuple[str, ...] | None = None
    meter: str
    supply_v: float | None = None
    """Stated or set supply voltage, if the meter measures none: every energy depends on it."""
    settings_sha256: str | None = None
    """Digest of the driver's facts, calibration and settings; a different digest counts as a
    different meter."""
    sync: EnergySync | None = None
    trace: TraceFile | None = None
    """Power file; None if edgebench drove the meter."""
    checks: tuple[MeterCheck, ...] = ()
    refusal: tuple[Reason, ...] = ()
    """Why there is no energy; empty if there is an energy."""
    refused: str | None = None
    """Text of the refusal, a single line; None if there is an energy."""
    refused_by: str | None = None
    """Rule that the reason belongs to: meter, energy_sync, or energy for any other reason."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "refused", _text(self.refusal, self.refused))
        object.__setattr__(self, "net_refused", _text(self.net_refusal, self.net_refused))

    @property
    def is_measured(self) -> bool:
        """Whether the run has an energy."""
        return self.gross_j_per_inference is not None


def _text(reasons: tuple[Reason, ...], stored: str | None) -> str | None:
    """Text of reasons; None if there are none."""
    return text_of(reasons, stored or "") or stored
