"""The result of a run: these types are the schema of run.json.

Keys may be added with a higher `SCHEMA_VERSION`; one that scripts rely on is not renamed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.facts import Pair, SetMember, side_id
from edgebench.host.result.keys import key
from edgebench.host.result.latency import (
    EarlyStopping,
    LatencySummary,
    LoadgenResult,
    Outliers,
    Stability,
    WarmupCut,
)
from edgebench.host.result.marks import Marks, marks_of
from edgebench.host.result.outputs import Accuracy, Agreement
from edgebench.host.result.settings import EffectiveSettings
from edgebench.host.result.thermal import ThermalResult
from edgebench.host.result.verdict import Verdict
from edgebench.host.result.windows import TargetMemoryBytes, WindowSummary
from edgebench.protocol.clock import ClockModel
from edgebench.protocol.device import DeviceDescription, Environment
from edgebench.protocol.record import (
    Confinement,
    FirmwareFacts,
    MeterFacts,
    ModelFacts,
    Moment,
    OperatorPlacement,
    OperatorTime,
    Phase,
    RuntimeFacts,
    Scheduling,
    SyncFacts,
    TensorSpec,
)
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.thermal import CooldownFacts, Expectation

SCHEMA_VERSION = 7
Path = tuple[str | int, ...]
"""Keys and positions that lead to a value of a document."""


@dataclass(frozen=True, slots=True)
class RuntimeUse(RuntimeFacts):
    """The runtime that ran the model, and where it put the operators."""

    placement: tuple[OperatorPlacement, ...] = ()


@dataclass(frozen=True, slots=True)
class ColdStartNs:
    """Time to the first output, in its three parts, nanoseconds."""

    import_: int = field(metadata=key("import"))
    load: int
    first_inference: int


@dataclass(frozen=True, slots=True)
class MemoryBytes:
    """Memory of the worker, bytes; None where it was not reported."""

    peak_rss: int | None
    model: int | None
    """Growth of the resident set from before the load to after the first inference."""
    steady_rss: int | None = None
    """Resident memory after the timed loop."""
    steady_pss: int | None = None
    """Resident memory after the timed loop, shared pages divided among those who share them."""
    arena: int | None = None
    """What the runtime says that its tensors take."""


@dataclass(frozen=True, slots=True)
class BindingNs:
    """Invocation of a model of one addition through the runtime's Python binding, nanoseconds."""

    p50: int | None
    """Median through the binding, as the timed loop reports it."""
    c_p50: int | None
    """Median of the same model by the C function of the same library."""
    added: int | None
    """What loop and binding add to an invocation: the difference of the two."""
    unavailable: str | None
    """Why there is no median."""


@dataclass(frozen=True, slots=True)
class HarnessNs:
    """Cost of the timed loop itself, measured with calls that do nothing, nanoseconds."""

    p50: int
    per_query: float
    end_to_end_p50: int = 0
    binding: BindingNs | None = None
    """None where it was not measured: by older agents, and in runs that were stopped."""


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """Operators of the model, and what the profiler itself costs beside the unprofiled pass."""

    run_count: int
    operators: tuple[OperatorTime, ...]
    sum_ns_per_inference: float | None
    unprofiled_p50_ns: int | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The computed numbers; null where a quantity was not measured."""

    latency_ns: LatencySummary | None = None
    """Latency of invocations; None for a profile, which slows its own run down."""
    end_to_end_ns: LatencySummary | None = None
    """Latency of queries; None where the scenario has only one, and for a profile."""
    throughput_per_s: float | None
    early_stopping: EarlyStopping | None = None
    outliers: Outliers | None = None
    stability: Stability | None = None
    """None in runs of schema version 6 and older, and for a profile."""
    warmup: WarmupCut | None
    """None, as the next three, only in a run that failed, or of a target that timed itself; the
    keys are always there."""
    cold_start_ns: ColdStartNs | None
    memory_bytes: MemoryBytes | None
    harness_ns: HarnessNs | None
    accuracy: Accuracy | None = None
    agreement: Agreement | None = None
    loadgen: LoadgenResult | None = None
    thermal: ThermalResult | None = None
    profile: ProfileResult | None = None
    energy: EnergyResult | None = None
    """None: no meter was asked for."""
    instructions_per_inference: float | None = None
    """Median over the windows of an emulated target; None for every other device."""
    windows: WindowSummary | None = None
    """None for a device on which the timed loop measured."""
    target_memory_bytes: TargetMemoryBytes | None = None
    upload_s: float | None = None
    """Time for which the model was sent to the target; None where it was there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySummary:
    """What was sampled beside the run, and what that cost."""

    sensors: tuple[str, ...]
    constants: dict[str, float]
    rate_hz: float
    reading_count: int
    sampler_cpu_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """The machine before, during and after the run."""

    load_1m_before: float | None
    load_1m_after: float | None
    before: Moment | None
    """Clocks and counters at the start of the timed loop; None in runs of version 1."""
    after: Moment | None
    scheduling: Scheduling | None
    """None only in a run that failed."""
    settings: EffectiveSettings | None = None
    """Settings as requested and as in effect; None in a run that failed, and for a device that
    timed itself."""
    confinement: Confinement | None = None
    """What kept the model in its process; None where the agent did not report it."""
    background_busy_ratio: float | None
    sample_count: int
    expected: Expectation = field(default_factory=Expectation)
    cooldown: CooldownFacts = field(default_factory=CooldownFacts)
    telemetry: TelemetrySummary | None = None
    telemetry_absent: dict[str, str] = field(default_factory=dict[str, str])
    """Sensors that are not there, and why."""
    clock: ClockModel | None
    marks: SyncFacts = field(default_factory=SyncFacts)
    metered: MeterFacts | None = None
    output_sha256: str | None
    """None only in a run that failed."""
    inputs_file: str | None = None
    """Name of the file with the inputs that the model ran on; None: they were drawn."""
    inputs: tuple[TensorSpec, ...]
    inputs_clipped_ratio: float | None = None
    """Share of the file's values that a quantised input clips, of the worst input; None: none were
    quantised."""
    outputs: tuple[TensorSpec, ...]
    power_source: str | None
    ambient_c: float | None = None
    firmware: FirmwareFacts | None = None
    """Program of a target that timed itself; None for every other device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Reason why a run measured nothing."""

    code: str
    """Name of the agent's `ErrorCode` in lower case, as `worker_died`; no name is ever changed."""
    message: str
    phase: Phase | None = None
    """Phase that the run was in; None where the agent did not get so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One model on one device in one configuration, with one verdict."""

    schema_version: int
    run_id: str
    created_utc: str
    kind: Literal["measurement", "profile"] = "measurement"
    pair: Pair | None = None
    member: SetMember | None = field(default=None, metadata=key("set"))
    """Place in a set of runs; None for a run on its own, and in schema version 6 and older."""
    simulated: bool
    emulated: bool
    spec: RunSpec
    model: ModelFacts
    device: DeviceDescription
    runtime: RuntimeUse
    metrics: Metrics
    environment: Environment
    conditions: Conditions
    verdict: Verdict
    failure: Failure | None = None
    """Why nothing was measured; None for a run that measured something, and in schema version 6 and
    older, which did not store others."""
    files: dict[str, str] = field(default_factory=dict[str, str])
    """SHA-256 of every other file of the run, by path inside it."""
    unknown: tuple[tuple[Path, object], ...] = field(default=(), metadata=key(""), repr=False)
    """Unknown keys, which are kept as they are."""

    @property
    def set_id(self) -> str | None:
        """Id of the set that it is one of, or of its side of a comparison; None if it is alone."""
        if self.member is not None:
            return self.member.set_id
        return side_id(self.pair.comparison_id, self.pair.side) if self.pair else None

    @property
    def marks(self) -> Marks:
        """Marks that go with each of its numbers."""
        return marks_of(
            self.verdict,
            has_failed=self.failure is not None,
            simulated=self.simulated,
            emulated=self.emulated,
            energy=self.metrics.energy,
        )
