"""The agent's record of one run; the host computes all results from it and the traces."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from edgebench.protocol.device import DeviceDescription, Environment
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.telemetry import TelemetryFacts
from edgebench.protocol.thermal import CooldownFacts, Expectation

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Form of a run id: it names a directory on both sides, and must not lead out of it."""


class Outcome(Enum):
    """How a run ended on the device."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    """Stopped on request; the queries before that are kept."""
    FAILED = "failed"


class Phase(Enum):
    """Phases of a run, in their order."""

    COOLING = "cooling"
    """The device is too warm to start."""
    IDLE = "idle"
    """The device is idle, before and after the worker, so that a meter sees its idle power."""
    STARTING = "starting"
    LOADING = "loading"
    SYNCING = "syncing"
    """The worker makes marks that a meter sees, before the warm-up and after the timed loop."""
    WARMING_UP = "warming_up"
    MEASURING = "measuring"
    SPOOLING = "spooling"
    CHECKING = "checking"
    """The measurement is on disk; now the model's outputs are checked."""


class ProgressUnit(Enum):
    """What a phase is counted in."""

    BYTES = "bytes"
    """Bytes on their way to a target."""
    WINDOWS = "windows"
    SAMPLES = "samples"
    """Samples of a data set."""


@dataclass(frozen=True, slots=True)
class PhaseProgress:
    """How much of a phase is done."""

    done: int
    total: int
    unit: ProgressUnit


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Name, shape and element type of a model input or output."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scale: float | None = None
    """Scale of a quantised tensor: value = scale · (number − zero_point)."""
    zero_point: int | None = None


@dataclass(frozen=True, slots=True)
class QuantizedOperands:
    """Element types that a quantised operator multiplies."""

    activation: str
    weight: str
    weight_bits: int
    """Bits of the widest weight: those of its type, or 7 where the range of int8 was reduced."""
    is_qdq: bool
    """Whether it is an operator on floats between DequantizeLinear and QuantizeLinear, so that the
    runtime decides how to compute it."""


FIRMWARE_FORMAT = "firmware"
"""Format of a model that is part of the firmware of a target."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The artifact that was measured."""

    name: str
    sha256: str | None
    """Digest of its file; None where it is part of the firmware of a target, and there is none."""
    format: str
    """tflite, onnx; or firmware, of which the model is a part."""
    size_bytes: int | None
    """Size of its file; None where there is none."""
    precision: str | None = None
    """Precision of the operators that hold most of the weights: int8, uint8, int16x8, fp32, fp16,
    int8-dynamic, fp16-weights, …; None where the file does not tell."""
    quantized: tuple[QuantizedOperands, ...] | None = None
    """Types that its quantised operators multiply, each once; None where the file does not tell."""
    signature: str | None = None
    """Signature of the graph that was measured; None where it has none, and for formats without."""
    signatures: tuple[str, ...] = ()
    """Every signature of the file, in its order."""


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """The runtime, with the delegates that were requested and used."""

    name: str
    version: str
    delegates_requested: tuple[str, ...] = ()
    delegates_used: tuple[str, ...] = ()
    distribution: str | None = None
    """Package that its library comes in, as onnxruntime-gpu; None where it has none."""
    library: str | None = None
    """Directory of its library."""


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Time to the first inference in its three parts, nanoseconds."""

    import_ns: int
    load_ns: int
    first_inference_ns: int


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """Resident memory of the worker, bytes; None where the system does not report it."""

    peak_rss_bytes: int | None
    """0 from older agents where they could not read it."""
    model_bytes: int | None
    """Growth of the resident set from before the load to after the first inference."""
    steady_rss_bytes: int | None = None
    """Resident set after the first inference."""
    steady_pss_bytes: int | None = None
    """Steady memory, with shared pages divided among those who share them."""
    arena_bytes: int | None = None
    """Memory that the runtime planned for its tensors; None where it does not tell."""


@dataclass(frozen=True, slots=True)
class BindingFacts:
    """Invocation of a model of one addition, through the runtime's Python binding and in C."""

    p50_ns: int | None = None
    """Median through the binding, as the loop reports it."""
    c_p50_ns: int | None = None
    """Median of the same model by the C function of the same library."""
    reason: str | None = None
    """Why a median is None, one line of text."""


@dataclass(frozen=True, slots=True)
class HarnessFacts:
    """Cost of the timed loop itself, measured with calls that do nothing, nanoseconds."""

    p50_ns: int
    """Median latency, as the loop reports it, of an invocation that does nothing."""
    per_query_ns: float
    """Wall time of the loop per query of calls that do nothing."""
    end_to_end_p50_ns: int = 0
    """Median time from start to end of such a query, as the loop reports it."""
    binding: BindingFacts | None = None
    """None in runs of agents that did not measure it, and in runs that were stopped."""


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """Digest and finiteness of the model's outputs."""

    sha256: str
    """Digest over the bytes of the outputs of the first inference."""
    is_finite: bool
    """Whether no output holds a NaN or an infinity, before and after the timed loop."""
    sample_count: int = 1
    """Samples whose outputs were checked."""


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Time of one CPU since boot."""

    cpu: int
    busy_s: float
    """Processor time of everything that ran there, the hypervisor's other guests included."""


@dataclass(frozen=True, slots=True)
class ThreadTime:
    """Time of one thread of the worker since it began."""

    thread: int
    """Thread's number, as the kernel counts them."""
    run_s: float
    wait_s: float
    """Time for which it could have run, and waited for a CPU."""


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """Counters of a control group with a quota of CPU time, since the group was made."""

    period_count: int
    """Periods in which the group had something to run."""
    throttled_count: int
    """Periods in which it used its quota up, and was stopped until the next one."""
    throttled_s: float
    """Time for which it was stopped, summed over CPUs."""


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
    """Time during which some task waited for a CPU."""
    memory_stall_s: float | None = None
    io_stall_s: float | None = None
    freq_hz: tuple[int, ...] = ()
    """Frequencies of the CPUs that the worker may use; empty where there is no cpufreq."""
    governors: tuple[str, ...] = ()
    """Frequency governors of those CPUs, each once."""
    cpus: tuple[CpuTime, ...] = ()
    """CPUs that the worker may use, and those that share a core with one of them."""
    threads: tuple[ThreadTime, ...] = ()
    """Threads of the worker."""
    quotas: tuple[QuotaUse, ...] = ()
    """Use of each quota, in the order of `Scheduling.quotas`."""
    suspended_ns: int | None = None
    """Time since boot for which the system was suspended: CLOCK_BOOTTIME less CLOCK_MONOTONIC; None
    from older agents."""


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """Limit of a control group on the CPU time of its processes."""

    cpu_count: float
    """CPU time over wall time, as a number of CPUs."""
    period_s: float
    """Period of the quota; a group that has used it up is stopped until the next one."""


@dataclass(frozen=True, slots=True)
class AndroidGroups:
    """Control groups by which Android schedules the worker; None where it shows none.

    Those of adb's shell are not those of an app in front, which Android moves by what is seen of
    it.
    """

    cpuset: str | None
    """Name of the group that sets its CPUs: `/`, `/top-app`, `/background`."""
    utilization_min_ratio: float | None
    """Utilisation that the scheduler assumes at least as it chooses CPU and clock, 0 to 1."""
    utilization_max_ratio: float | None
    """Utilisation that it assumes at most; below 1, the clock has a cap that no policy shows."""


@dataclass(frozen=True, slots=True)
class Scheduling:
    """How the kernel scheduled the worker."""

    cpus: tuple[int, ...]
    """CPUs that it was allowed to use."""
    policy: str
    """Scheduling policy: other, fifo, rr, batch, idle, deadline."""
    nice: int
    refused: tuple[str, ...] = ()
    """Requests that the kernel refused, one line each."""
    quotas: tuple[CpuQuota, ...] | None = None
    """Quotas of the worker's control group and of those around it, the outermost first; empty
    where none has one, None where they could not be read, and from older agents."""
    android: AndroidGroups | None = None
    """None where the system is no Android."""


@dataclass(frozen=True, slots=True)
class OperatorPlacement:
    """The place where operators of one kind ran, and their number."""

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
    """Place, as in `OperatorPlacement`."""
    count: int
    """Number of times that it ran."""
    total_ns: int
    """Sum over all `count` times."""
    p50_ns: int | None = None
    """Median time: a measured one, so that a run in which it was preempted does not count; None
    from older agents."""

    @property
    def typical_ns(self) -> float:
        """Median time; the mean where an older agent kept no median."""
        return self.total_ns / max(1, self.count) if self.p50_ns is None else self.p50_ns


@dataclass(frozen=True, slots=True)
class CheckFacts:
    """Checks of the outputs, with the reasons of those that failed; the outputs are a file."""

    sample_count: int = 0
    """Prepared samples on which the measured model and the reference ran again."""
    distinct_count: int = 0
    """Different inputs among these samples; 0 where they were not counted."""
    reference: str | None = None
    """Name of the reference kernels."""
    reference_runtime: RuntimeFacts | None = None
    """Runtime of these kernels, where it is another one than that of the model."""
    reference_error: str | None = None
    """Why there is no reference, one line."""
    dataset_sample_count: int = 0
    """Samples of the data set that were run."""
    dataset_wanted_count: int = 0
    """Samples of the data set that were to be run; 0 where the agent does not tell."""
    dataset_error: str | None = None
    """Why there are no outputs for the data set, or for a part of it only; one line."""
    operators: tuple[OperatorTime, ...] = ()
    """Time per operator, if a profile was asked for."""
    profile_run_count: int = 0
    profile_error: str | None = None

    @classmethod
    def undone(cls, reason: str) -> CheckFacts:
        """No check was done, for one reason."""
        return cls(reference_error=reason, dataset_error=reason, profile_error=reason)


@dataclass(frozen=True, slots=True)
class LoadCode:
    """A code of active and idle chips as it was played, on the device's monotonic clock."""

    edges_ns: tuple[int, ...]
    """Times at which each chip began, and at which the last one ended."""
    is_busy: tuple[bool, ...]
    """State of each chip; one less than there are edges."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """A falling edge of the line to a meter's digital input, on the device's monotonic clock."""

    before_ns: int
    """Time at which the line was told to fall …"""
    after_ns: int
    """Timestamp after it: the edge is between the two, or at most `SyncFacts.latency_ns` later."""


@dataclass(frozen=True, slots=True)
class SyncFacts:
    """The marks that a worker made for a meter, in order of time."""

    codes: tuple[LoadCode, ...] = ()
    pulses: tuple[Pulse, ...] = ()
    line: str | None = None
    """Line of the pulses, as `gpio:/sys/class/gpio/gpio17/value`."""
    latency_ns: int = 0
    """Bound of how much later an edge may be than its pulse says."""
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
    """Rows of the query trace that are warm-up, at its beginning."""
    query_count: int
    """Rows of the query trace, warm-up included."""
    is_interrupted: bool
    before: Moment
    """Moment at the start of the timed loop."""
    after: Moment
    scheduling: Scheduling
    sample_count: int
    """Prepared samples."""
    inputs_clipped_ratio: float | None = None
    """Share of the values given for a quantised input that were beyond its range, of the worst
    input; None where no given value was quantised."""
    placement: tuple[OperatorPlacement, ...] = ()
    """Places of the operators; empty where the runtime does not tell."""
    check: CheckFacts = field(default_factory=CheckFacts)
    sync: SyncFacts = field(default_factory=SyncFacts)


@dataclass(frozen=True, slots=True)
class EmulatorFacts:
    """The emulator that a target runs in."""

    name: str
    version: str
    machine: str
    """Board that it emulates, by the emulator's own name."""
    instruction_ns: float | None = None
    """Virtual time of one instruction, where the emulator counts them; None: its clock follows that
    of the machine it runs on, and tells nothing of the target."""


@dataclass(frozen=True, slots=True)
class FirmwareFacts:
    """The program on a target."""

    name: str
    """Name that it gives itself."""
    version: str
    sha256: str | None = None
    """Digest of its image; None where it was on the board already."""
    tick_rate_hz: float | None = None
    """Rate of the counter that times single inferences; None where it has none."""
    emulator: EmulatorFacts | None = None
    """None for a real board."""
    rounding: str | None = None
    """Library whose reference kernels its outputs equal to the last bit, by the firmware's own
    account: litert, tflm; None where it does not say."""


@dataclass(frozen=True, slots=True)
class TargetMemory:
    """What a model and its firmware take on a target, bytes; None where it is not reported."""

    flash_bytes: int | None
    ram_bytes: int | None
    arena_bytes: int | None


@dataclass(frozen=True, slots=True)
class Window:
    """Inferences in a row, between two timestamps of the target."""

    begin_ns: int
    """Arrival of the target's first timestamp, on the monotonic clock of the machine beside it …"""
    end_ns: int
    """… and of its second one; where timestamps are pulses, of the lines around them."""
    count: int
    ticks: int | None
    """Difference of the two timestamps on the target's own counter; None where they are pulses of
    a pin, whose times only a meter sees."""
    tick_rate_hz: float | None

    @property
    def duration_s(self) -> float | None:
        """Duration on the target's own counter."""
        if self.ticks is None or self.tick_rate_hz is None:
            return None
        return self.ticks / self.tick_rate_hz


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """The account of a run by the process that drove a target."""

    model: ModelFacts
    runtime: RuntimeFacts
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    firmware: FirmwareFacts
    memory: TargetMemory
    output: OutputFacts
    warmup_count: int
    """Inferences before each window."""
    windows: tuple[Window, ...]
    is_interrupted: bool
    inference_ticks: tuple[int, ...] = ()
    """Ticks of single inferences in the order of the windows, as far as the firmware kept them;
    empty where it times none."""
    upload_s: float | None = None
    """Time for which the model was sent to the target; None where it was there."""
    is_read_back: bool = True
    """Whether the inputs on the target were compared with those that were sent."""
    pace_ns: int | None = None
    """Interval of the inferences of streaming firmware, which classifies audio continuously; None:
    the target infers when it is asked."""
    inputs_clipped_ratio: float | None = None
    """Share of the given values beyond the range of a quantised input, as in `WorkerRecord`."""
    check: CheckFacts = field(default_factory=CheckFacts)
    is_dataset_stopped: bool = False
    """Whether the run was stopped in its data set: another one may get further."""


MeasuredRecord = WorkerRecord | TargetRecord
"""What a worker process leaves, whichever way the inferences were timed."""

TOO_HOT = "too_hot"
"""Kind of the event by which the temperature guard ends a run; its detail is the reason."""
UNWATCHED = "unwatched"
"""Kind of the event after which nothing watches the device's temperature."""
METER_TROUBLE = "meter_trouble"
"""Kind of the last event of a run whose recording ended early; its detail is the reason."""
IDLE_ENDED = "idle_ended"
"""Kind of the event that ends a window of `Phase.IDLE`; its detail says if it was cut short."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a run's history."""

    time_ns: int
    """Time on the device's monotonic clock."""
    kind: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class MeterFacts:
    """The agent's recording beside a run."""

    meter: str
    """Meter, as it was asked for."""
    trouble: str | None = None
    """Why the recording ended early, or why there is none; one line."""


@dataclass(frozen=True, slots=True)
class Safeguard:
    """One mechanism that confines the worker."""

    is_applied: bool
    detail: str = ""
    """What was applied; or why it was not, and what the worker can do therefore. One line."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """What kept the model in its worker, as far as the device's kernel offered it."""

    is_root: bool
    """Whether the agent, and so the worker, ran as root."""
    privileges: Safeguard
    """No new ones by programs."""
    capabilities: Safeguard
    """None of root's."""
    calls: Safeguard
    """System calls: no sockets, programs, processes."""
    files: Safeguard
    network: Safeguard
    threads: Safeguard
    """Limit of their number."""


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
    """Record of the worker; None when the run failed before it measured anything."""
    error_code: int = 0
    error: str | None = None
    """Reason on one line, when the outcome is failed, or the device itself ended the run."""
    load_1m_after: float | None = None
    telemetry: TelemetryFacts = field(default_factory=TelemetryFacts)
    expected: Expectation = field(default_factory=Expectation)
    """Expectations of the device's profile at the time of the run."""
    cooldown: CooldownFacts = field(default_factory=CooldownFacts)
    events: tuple[Event, ...] = field(default_factory=tuple)
    metered: MeterFacts | None = None
    """Facts of the meter beside the device, if the run asked for one."""
    emulated: bool = False
    simulated: bool = False
    confinement: Confinement | None = None
    """Confinement of the worker; None where it did not get so far, and from older agents."""
    target: TargetRecord | None = None
    """Record of a device that timed itself, which has no `worker`; None for all others."""

    @property
    def has_measured(self) -> bool:
        """Whether there is anything to compute a number from."""
        return self.worker is not None or self.target is not None
