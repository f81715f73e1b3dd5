"""Energy of a run, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import chain

from edgebench.host.result.reason import Reason, about
from edgebench.host.result.reasons.alignment import no_method
from edgebench.host.result.reasons.table import text_of
from edgebench.host.result.verdict import State

SYNTHETIC = "synthetic"
"""Value of `boundary` if no instrument measured the power."""


class SyncMethod(Enum):
    """Methods of aligning the meter's clock with the device's clock, in order of preference."""

    SHARED_CLOCK = "shared_clock"
    """The meter timestamps its samples with the device's clock."""
    EDGE = "edge"
    """The device toggles a wire that leads to a digital input of the meter, and the meter records
    the edges."""
    PROBES = "probes"
    """The host timestamps the samples, and compares its clock with the device's clock by two-way
    probes."""
    CODED_LOAD = "coded_load"
    """A code of active and idle times of the device is detected in the power."""
    LOOP = "loop"
    """The start and the end of the timed loop are detected in the power; used if no load code is
    found."""
    ARRIVAL = "arrival"
    """The arrival time of a sample at the host is used as its time."""


ASSUMED_GAIN = 0.15
"""Gain error assumed for an instrument without a stated gain error. The value is the largest
typical gain error of the supported instruments: that of a PPK2 in its highest range. The gain
errors of smart plugs are 1 to 5 %."""


class TraceAssumption(Enum):
    """Property of a power file that neither the file nor the user states."""

    GAIN = "gain"
    """The gain error is `ASSUMED_GAIN`."""
    OFFSET = "offset"
    """The offset error is 0."""
    INSTANTS = "instants"
    """Samples are instantaneous values, not means over their intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFile:
    """Power file from which the energy is computed; edgebench did not control the instrument."""

    name: str
    sha256: str
    format: str
    """Kind of file, such as `Otii CSV`."""
    is_averaging: bool
    """Whether samples are means over their intervals, as opposed to instantaneous values."""
    smoothing_s: float = 0.0
    """Time constant of the instrument's smoothing, seconds, estimated from the load code; 0: no
    smoothing."""
    assumed: tuple[TraceAssumption, ...] = ()
    reading: tuple[Reason, ...] = ()
    """Notes on how the file was read: rows that were left out, times that were repaired."""


@dataclass(frozen=True, slots=True)
class MeterCheck:
    """Check of a power recording."""

    id: str
    is_passed: bool | None
    """Outcome; None if it is unknown."""
    reasons: tuple[Reason, ...] = ()
    """Reasons for the outcome."""
    detail: str = ""
    """Text of the reasons."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "detail", text_of(self.reasons, self.detail))


@dataclass(frozen=True, slots=True)
class RecordingVerdict:
    """Verdict on a recording that belongs to no run, with its reasons as data."""

    state: State
    reasons: tuple[Reason, ...] = ()
    """Why the recording is not valid; empty if it is valid."""
    not_stated: tuple[Reason, ...] = ()
    """Properties that neither the file nor the user states; the error of assuming them is part of
    the uncertainty."""
    reading: tuple[Reason, ...] = ()
    """Notes on how the file was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEnergy:
    """Energy of a phase of a run; numbers are null if the phase has no energy."""

    energy_j: float | None = None
    u95_absolute_j: float | None = None
    duration_s: float | None = None
    power_w_mean: float | None = None
    refusal: tuple[Reason, ...] = ()
    """Why the phase has no energy."""
    refused: str | None = None
    """Why the phase has no energy, as text."""
    is_too_short: bool = False
    """Whether there is no energy because the phase is too short for the meter's time resolution."""

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
    """Expanded uncertainty due to the window boundaries, k = 2. It is the largest value of up to a
    thousand evenly spaced inferences."""
    refusal: tuple[Reason, ...] = ()
    """Why the energy of single inferences is unknown; empty if it is known."""
    refused: str | None = None
    """Why the energy of single inferences is unknown, as text."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "refused", _text(self.refusal, self.refused))


@dataclass(frozen=True, slots=True, kw_only=True)
class BatteryLife:
    """How long a battery charge lasts if the inferences are its only load."""

    capacity_j: float
    inference_count: float
    duration_s: float
    u95_ratio: float
    """Relative expanded uncertainty of count and duration; the capacity is assumed to be exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeWindow:
    """Window of inferences, delimited by two edges on a digital input of the meter."""

    inference_count: int
    duration_s: float
    """Time between the edges on the meter's clock."""
    energy_j_per_inference: float | None = None
    """Mean energy of an inference; None if the energy was refused."""


@dataclass(frozen=True, slots=True)
class SyncAttempt:
    """An attempted method of alignment, with its error or the reason why it failed."""

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
    """The only method that the request allows; None allows the best available method."""
    error_ns: float | None = None
    """Largest possible error of an aligned time within the run, nanoseconds."""
    residual_ns: float | None = None
    mark_count: int | None = None
    slope_ppm: float | None = None
    reference_ns: int | None = None
    offset_ns: float | None = None
    tried: tuple[SyncAttempt, ...] = ()

    @property
    def refusal(self) -> tuple[Reason, ...]:
        """Why each allowed method failed; the reason is `no_method` if no method was attempted."""
        allowed = [attempt for attempt in self.tried if self.asked in (None, attempt.method)]
        reasons = tuple(chain.from_iterable(about(a.method.value, a.reasons) for a in allowed))
        return reasons or (no_method(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyResult:
    """Energy of a metered run, or why it is refused; numbers are null if it is refused."""

    gross_j_per_inference: float | None = None
    u95_absolute_j: float | None = None
    """Expanded uncertainty of the gross energy due to all sources of error, k = 2."""
    u95_comparative_j: float | None = None
    """Expanded uncertainty in a comparison with another run on the same meter, k = 2."""
    components_j: dict[str, float] | None = None
    """Maps each source of error to its standard uncertainty, joules."""
    common_j: dict[str, float] | None = None
    """Maps each error that is common to all runs with this meter to the signed effect of one
    standard deviation of the error on the energy, joules."""
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
    """Total length of the random gaps that the loop made between inferences, seconds; the gross
    energy excludes them. None if the loop made no gaps."""
    power_w_peak: float | None = None
    """Highest power of a single sample; None if several channels are added up."""
    power_w_peak_u95_absolute: float | None = None
    """Expanded uncertainty of the peak power, for the measuring range in which the error may be
    largest."""
    power_w_idle: float | None = None
    power_w_idle_u95_absolute: float | None = None
    power_w_idle_before: float | None = None
    power_w_idle_after: float | None = None
    energy_delay_js: float | None = None
    energy_delay_u95_absolute_js: float | None = None
    """Expanded uncertainty of `energy_delay_js`. It contains only the uncertainty of the energy,
    because the uncertainty of the time is negligible."""
    phases: dict[str, PhaseEnergy] | None = None
    per_query: QueryEnergy | None = None
    battery: BatteryLife | None = None
    net_refusal: tuple[Reason, ...] = ()
    """Why there is no net energy."""
    net_refused: str | None = None
    """Why there is no net energy, as text."""
    edge_windows: tuple[EdgeWindow, ...] = ()
    """Windows that a pin of the board marks for the meter, in order of time; the gross energy is
    the energy of the median window. Empty if the energy is that of the timed loop."""
    edge_input: int | None = None
    """Digital input of the meter that receives the edges."""
    boundary: str | None = None
    """What the measured power includes; None if there is no energy or the boundary is unknown."""
    channels: tuple[str, ...] | None = None
    meter: str
    supply_v: float | None = None
    """Supply voltage that the user stated or the meter set, for a meter that measures no voltage.
    Every energy from such a meter is proportional to this voltage."""
    settings_sha256: str | None = None
    """Digest of the driver's facts, calibration and settings. Meters with different digests count
    as different meters."""
    sync: EnergySync | None = None
    trace: TraceFile | None = None
    """Power file; None if edgebench drove the meter."""
    checks: tuple[MeterCheck, ...] = ()
    refusal: tuple[Reason, ...] = ()
    """Why there is no energy; empty if there is an energy."""
    refused: str | None = None
    """Why there is no energy, as a line of text; None if there is an energy."""
    refused_by: str | None = None
    """Id of the rule that refused the energy: `meter`, `energy_sync` or, in all other cases,
    `energy`."""

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
