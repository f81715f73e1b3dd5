"""The result of a run: these types define the schema of run.json.

A higher `SCHEMA_VERSION` may add keys; keys that scripts rely on are never renamed.
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
from edgebench.host.result.marks import ResultMarks, marks_of
from edgebench.host.result.outputs import Accuracy, Agreement
from edgebench.host.result.settings import EffectiveSettings
from edgebench.host.result.thermal import ThermalResult
from edgebench.host.result.verdict import State, Verdict
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
"""Keys and positions that lead to a value in a document."""


@dataclass(frozen=True, slots=True)
class RuntimeUse(RuntimeFacts):
    """The runtime that ran the model, and its placement of the operators."""

    placement: tuple[OperatorPlacement, ...] = ()


@dataclass(frozen=True, slots=True)
class ColdStartNs:
    """Time to the first output, in three parts, nanoseconds."""

    import_: int = field(metadata=key("import"))
    load: int
    first_inference: int


@dataclass(frozen=True, slots=True)
class MemoryBytes:
    """Memory of the worker, bytes; None if it was not reported."""

    peak_rss: int | None
    model: int | None
    """Growth of resident memory from before the load to after the first inference."""
    steady_rss: int | None = None
    """Resident memory after the timed loop."""
    steady_pss: int | None = None
    """Resident memory after the timed loop, with shared pages divided among the processes."""
    arena: int | None = None
    """Memory of the tensors as reported by the runtime."""


@dataclass(frozen=True, slots=True)
class BindingNs:
    """Overhead of the runtime's Python binding, measured with a one-addition model, nanoseconds."""

    p50: int | None
    """Median invocation through the binding, reported by the timed loop."""
    c_p50: int | None
    """Median invocation of the same model through the C function of the same library."""
    added: int | None
    """Time that loop and binding add to an invocation: `p50` minus `c_p50`."""
    unavailable: str | None
    """Why there is no median."""


@dataclass(frozen=True, slots=True)
class HarnessNs:
    """Overhead of the timed loop, measured with empty calls, nanoseconds."""

    p50: int
    per_query: float
    end_to_end_p50: int = 0
    binding: BindingNs | None = None
    """None if it was not measured: with older agents, and in interrupted runs."""
    clock_step: float | None = None
    """Step of the clock, estimated from the times of the inferences: each percentile may be off by
    as much, and its interval includes that. Null if the step is below 8 ns."""


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """Time of each operator of the model, with the unprofiled latency for comparison."""

    run_count: int
    operators: tuple[OperatorTime, ...]
    sum_ns_per_inference: float | None
    unprofiled_p50_ns: int | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The computed numbers; null if a quantity was not measured."""

    latency_ns: LatencySummary | None = None
    """Latency of invocations; None for a profile, because profiling slows the run down."""
    end_to_end_ns: LatencySummary | None = None
    """Latency of queries; None if the scenario has a single latency, and for a profile."""
    throughput_per_s: float | None
    early_stopping: EarlyStopping | None = None
    outliers: Outliers | None = None
    stability: Stability | None = None
    """None in runs of schema version 6 and older, and for a profile."""
    warmup: WarmupCut | None
    """This key and the next three are always present; they are null only in a failed run, or for a
    target that timed itself."""
    cold_start_ns: ColdStartNs | None
    memory_bytes: MemoryBytes | None
    harness_ns: HarnessNs | None
    accuracy: Accuracy | None = None
    agreement: Agreement | None = None
    loadgen: LoadgenResult | None = None
    thermal: ThermalResult | None = None
    profile: ProfileResult | None = None
    energy: EnergyResult | None = None
    """None if no energy measurement was requested."""
    instructions_per_inference: float | None = None
    """Median over the windows of an emulated target; None for other devices."""
    windows: WindowSummary | None = None
    """Set for a target that timed itself; None for a device that ran the timed loop."""
    target_memory_bytes: TargetMemoryBytes | None = None
    upload_s: float | None = None
    """Upload time of the model to the target; None if the model was there already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetrySummary:
    """Sensors sampled during the run, and the CPU time of the sampler."""

    sensors: tuple[str, ...]
    constants: dict[str, float]
    rate_hz: float
    reading_count: int
    sampler_cpu_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """State of the device before, during and after the run."""

    load_1m_before: float | None
    load_1m_after: float | None
    before: Moment | None
    """Clocks and counters at the start of the timed loop; None in runs of version 1."""
    after: Moment | None
    scheduling: Scheduling | None
    """None only in a failed run."""
    settings: EffectiveSettings | None = None
    """Settings as requested and as in effect; None in a failed run, and for a target that timed
    itself."""
    confinement: Confinement | None = None
    """How the model's process was confined; None if the agent did not report it."""
    background_busy_ratio: float | None
    sample_count: int
    expected: Expectation = field(default_factory=Expectation)
    cooldown: CooldownFacts = field(default_factory=CooldownFacts)
    telemetry: TelemetrySummary | None = None
    telemetry_absent: dict[str, str] = field(default_factory=dict[str, str])
    """Missing sensors, and the reason for each."""
    clock: ClockModel | None
    marks: SyncFacts = field(default_factory=SyncFacts)
    metered: MeterFacts | None = None
    output_sha256: str | None
    """None only in a failed run."""
    inputs_file: str | None = None
    """Name of the input file; None: random inputs."""
    inputs: tuple[TensorSpec, ...]
    inputs_clipped_ratio: float | None = None
    """Fraction of the file's values that quantisation clips, for the worst input; None if no input
    was quantised."""
    outputs: tuple[TensorSpec, ...]
    power_source: str | None
    ambient_c: float | None = None
    firmware: FirmwareFacts | None = None
    """Firmware of a target that timed itself; None for other devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a run measured nothing."""

    code: str
    """Name of the agent's `ErrorCode` in lower case, such as `worker_died`; names never change."""
    message: str
    phase: Phase | None = None
    """Phase in which the run failed; None if it failed before its first phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A model measured on a device in a fixed configuration, with a verdict."""

    schema_version: int
    run_id: str
    created_utc: str
    kind: Literal["measurement", "profile"] = "measurement"
    pair: Pair | None = None
    member: SetMember | None = field(default=None, metadata=key("set"))
    """Place in a set of runs; None for a run outside a set, and in schema version 6 and older."""
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
    """Why nothing was measured; None for a successful run. Schema version 6 and older did not store
    failed runs."""
    files: dict[str, str] = field(default_factory=dict[str, str])
    """SHA-256 of every other file of the run, by path relative to the run's directory."""
    unknown: tuple[tuple[Path, object], ...] = field(default=(), metadata=key(""), repr=False)
    """Path and value of unknown keys, which are kept unchanged."""

    @property
    def set_id(self) -> str | None:
        """Id of the run's set, or of its side of a comparison; None for a run outside of both."""
        if self.member is not None:
            return self.member.set_id
        return side_id(self.pair.comparison_id, self.pair.side) if self.pair else None

    @property
    def headline_state(self) -> State:
        """Verdict on the run's headline; the verdict on the run also covers its other numbers."""
        from edgebench.host.result.metrics import headline  # metrics are read from runs

        return self.verdict.state_of(headline(self).kind)

    @property
    def marks(self) -> ResultMarks:
        """Marks of the run's numbers; the state is that of its headline."""
        from edgebench.host.result.metrics import headline  # metrics are read from runs

        return marks_of(
            self.verdict,
            headline(self).kind,
            has_failed=self.failure is not None,
            simulated=self.simulated,
            emulated=self.emulated,
            energy=self.metrics.energy,
        )
