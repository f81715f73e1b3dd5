"""What an agent records of one run; the host computes everything else from it and the traces."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from edgebench.protocol.device import DeviceDescription, Environment
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.thermal import CooldownFacts, Expectation

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""A run id becomes a directory on both sides; neither may choose where for the other."""


class Outcome(Enum):
    """How a run ended on the device."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    """Stopped on request; the queries until then are kept."""
    FAILED = "failed"


class Phase(Enum):
    """Where a run is; the order is the order of life."""

    COOLING = "cooling"
    """The device is too warm to start."""
    IDLE = "idle"
    """Nothing is done, so that a meter sees what the device takes then: before and after."""
    STARTING = "starting"
    LOADING = "loading"
    SYNCING = "syncing"
    """Marks are made that a meter sees: before the warm-up and after the timed loop."""
    WARMING_UP = "warming_up"
    MEASURING = "measuring"
    SPOOLING = "spooling"
    CHECKING = "checking"
    """The measurement is on disk; now the model's answers are looked at."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Name, shape and element type of a model input or output."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float | None = None
    """Of a quantised tensor: value = scale · (number − zero_point)."""
    zero_point: int | None = None


@dataclass(frozen=True, slots=True)
class QuantizedOperands:
    """Element types of what quantised operators multiply."""

    activation: str
    weight: str
    weight_bits: int
    """Bits that the widest weight takes: 8, or 7 where the range was reduced."""
    is_qdq: bool
    """Written as operators on floats between DequantizeLinear and QuantizeLinear, so that the
    runtime decides how to compute them."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The artifact that was measured."""

    name: str
    sha256: str
    format: str
    size_bytes: int
    precision: str | None = None
    """int8, uint8, fp32, …, or None where the file does not tell."""
    quantized: tuple[QuantizedOperands, ...] | None = None
    """Each kind once; None where the file does not tell."""


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """The runtime that ran it, and what it did with the delegate that was asked for."""

    name: str
    version: str
    delegates_requested: tuple[str, ...] = ()
    delegates_used: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Time to the first answer, in its three parts, nanoseconds."""

    import_ns: int
    load_ns: int
    first_inference_ns: int


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """Resident memory of the worker, bytes."""

    peak_rss_bytes: int
    model_bytes: int
    """Growth of the resident set from before the load to after the first inference."""
    steady_rss_bytes: int | None = None
    """After the timed loop."""
    steady_pss_bytes: int | None = None
    """The same, with shared pages divided among those who share them."""
    arena_bytes: int | None = None
    """What the runtime says that its tensors take; None where it does not tell."""


@dataclass(frozen=True, slots=True)
class HarnessFacts:
    """Cost of the timed loop itself, measured with calls that do nothing, nanoseconds."""

    p50_ns: int
    """Median of what the loop reports as the latency of an invocation that does nothing."""
    per_query_ns: float
    """Wall time of the loop per query whose calls do nothing."""
    end_to_end_p50_ns: int = 0
    """Median of what the loop reports from start to end of such a query."""


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """What the model answered."""

    sha256: str
    """Digest over the bytes of all outputs after the timed loop."""
    is_finite: bool
    """No NaN and no infinity in any output, before and after the timed loop."""
    sample_count: int = 1
    """Samples whose answers were looked at."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Clocks and counters at one end of the timed loop; None where the kernel does not tell."""

    monotonic_ns: int
    wall_ns: int
    own_cpu_s: float
    """Processor time of the worker."""
    involuntary_switch_count: int
    """Context switches forced on the worker."""
    major_fault_count: int = 0
    """Pages that the worker had to wait for."""
    cpu_busy_s: float | None = None
    """Processor time of everything on all CPUs, the hypervisor's other guests included."""
    cpu_total_s: float | None = None
    swapped_page_count: int | None = None
    """Pages that the whole system moved to and from swap."""
    cpu_stall_s: float | None = None
    """Time during which somebody waited for a CPU."""
    memory_stall_s: float | None = None
    io_stall_s: float | None = None
    freq_hz: tuple[int, ...] = ()
    """Frequencies of the CPUs that the worker may use; empty where there is no cpufreq."""
    governors: tuple[str, ...] = ()
    """Frequency governors of those CPUs, each once."""


@dataclass(frozen=True, slots=True)
class Scheduling:
    """How the kernel scheduled the worker."""

    cpus: tuple[int, ...]
    """CPUs that it was allowed to use."""
    policy: str
    """other, fifo, rr, batch, idle, deadline."""
    nice: int
    refused: tuple[str, ...] = ()
    """What was asked for and not allowed, one line each."""


@dataclass(frozen=True, slots=True)
class OperatorPlacement:
    """Where the operators of one kind ran."""

    place: str
    """A delegate or execution provider by its name, or `builtin`: the runtime's own kernels."""
    operator: str
    """Kind of operator as the runtime names it, as CONV_2D or Conv."""
    count: int
    """Operators of this kind in this place."""


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """Time that one operator of the model took, over all runs of a profile."""

    index: int
    """Position in the order of execution, from 0."""
    operator: str
    """Kind of operator or kernel, as the runtime names it."""
    name: str
    """The model's own name of this operator; empty where the runtime does not tell."""
    place: str
    """As in `OperatorPlacement`."""
    count: int
    """How often it ran."""
    total_ns: int
    """Over all `count` times."""


@dataclass(frozen=True, slots=True)
class CheckFacts:
    """What was done about the answers, and why something was not; the answers are a file."""

    sample_count: int = 0
    """Prepared samples that were answered again, by the measured model and by the reference."""
    reference: str | None = None
    """The kernels that answered as well."""
    reference_error: str | None = None
    """Why there is no reference, one line."""
    dataset_sample_count: int = 0
    dataset_error: str | None = None
    """Why the data set was not answered, one line."""
    operators: tuple[OperatorTime, ...] = ()
    """The profile, if one was asked for."""
    profile_run_count: int = 0
    profile_error: str | None = None


@dataclass(frozen=True, slots=True)
class LoadCode:
    """A code of work and rest as it was played, on the device's monotonic clock."""

    edges_ns: tuple[int, ...]
    """Where each chip began, and where the last one ended."""
    is_busy: tuple[bool, ...]
    """Of each chip; one less than there are edges."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """A falling edge of the line to a meter's digital input, on the device's monotonic clock."""

    before_ns: int
    """When the line was told to fall …"""
    after_ns: int
    """… and when that was done: the edge is between them, or `SyncFacts.latency_ns` later."""


@dataclass(frozen=True, slots=True)
class SyncFacts:
    """The marks that a worker made for a meter, in order of time."""

    codes: tuple[LoadCode, ...] = ()
    pulses: tuple[Pulse, ...] = ()
    line: str | None = None
    """What the pulses were sent by, as `gpio:/sys/class/gpio/gpio17/value`."""
    latency_ns: int = 0
    """By which an edge may be later than its pulse says; bound."""
    error: str | None = None
    """Why there is no pulse though the agent has a line, one line of text."""


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """The worker's own account of a run."""

    model: ModelFacts
    runtime: RuntimeFacts
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    cold_start: ColdStart
    memory: MemoryFacts
    harness: HarnessFacts
    output: OutputFacts
    warmup_query_count: int
    """The first so many rows of the query trace are warm-up."""
    query_count: int
    """Rows of the query trace, warm-up included."""
    is_interrupted: bool
    before: Moment
    """At the start of the timed loop."""
    after: Moment
    scheduling: Scheduling
    sample_count: int
    """Different inputs that were prepared."""
    placement: tuple[OperatorPlacement, ...] = ()
    """Empty where the runtime does not tell."""
    check: CheckFacts = field(default_factory=CheckFacts)
    sync: SyncFacts = field(default_factory=SyncFacts)


TOO_HOT = "too_hot"
"""Kind of the event by which the guard of the highest temperature ends a run, and why."""
UNWATCHED = "unwatched"
"""Kind of the event after which nobody looks at the device any more."""
METER_TROUBLE = "meter_trouble"
"""Kind of the event that says, behind everything else, why a recording ended early."""
IDLE_ENDED = "idle_ended"
"""Kind of the event that ends a time of `Phase.IDLE`; its detail says whether it was cut short."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a run's history."""

    time_ns: int
    """Device monotonic clock."""
    kind: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class AbsentSensor:
    """A sensor that is not there, and why."""

    sensor: str
    reason: str


@dataclass(frozen=True, slots=True)
class TelemetryFacts:
    """What was sampled beside a run, what was not there, and what the sampling cost."""

    sensors: tuple[str, ...] = ()
    """Names with their unit as suffix; `sensor` in the trace is an index into them."""
    constants: dict[str, float] = field(default_factory=dict[str, float])
    """What does not change during a run, named like sensors: trip points, highest frequencies."""
    absent: tuple[AbsentSensor, ...] = ()
    rate_hz: float = 0.0
    """Of the fast sources; slow ones were read less often."""
    reading_count: int = 0
    cpu_s: float = 0.0
    """CPU time of the sampler, and of the commands that it started."""
    wall_s: float = 0.0


@dataclass(frozen=True, slots=True)
class MeterFacts:
    """What the agent says of the recording that it made beside a run."""

    meter: str
    """As it was asked for."""
    trouble: str | None = None
    """What ended the recording early, or why there is none; one line."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Everything an agent keeps of a run beside its traces."""

    run_id: str
    owner: str
    """Identity of the host that asked for it."""
    spec: RunSpec
    model: ModelFacts
    device: DeviceDescription
    environment: Environment
    outcome: Outcome
    worker: WorkerRecord | None = None
    """None when the run failed before it measured anything."""
    error_code: int = 0
    error: str | None = None
    """One line, when the outcome is failed, or when the device itself ended the run."""
    load_1m_after: float | None = None
    telemetry: TelemetryFacts = field(default_factory=TelemetryFacts)
    expected: Expectation = field(default_factory=Expectation)
    """What the device's profile says, when the run was made."""
    cooldown: CooldownFacts = field(default_factory=CooldownFacts)
    events: tuple[Event, ...] = field(default_factory=tuple)
    metered: MeterFacts | None = None
    """Of the meter beside the device, if the run asked for one."""
    emulated: bool = False
    simulated: bool = False
