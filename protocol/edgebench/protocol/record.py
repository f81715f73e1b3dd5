"""The agent's record of a run; the host computes all results from it and the traces."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from edgebench.protocol.device import DeviceDescription, Environment
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.telemetry import TelemetryFacts
from edgebench.protocol.thermal import CooldownFacts, Expectation

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Form of a run id: it names a directory on both sides, and must not contain a path."""


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
    """Unit of a phase's progress."""

    BYTES = "bytes"
    """Bytes sent to a target."""
    WINDOWS = "windows"
    SAMPLES = "samples"
    """Samples of a data set."""


@dataclass(frozen=True, slots=True)
class PhaseProgress:
    """Completed part of a phase."""

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
    open_axes: tuple[int, ...] = ()
    """Axes of an input whose size the model leaves open; empty, too, in records of older agents."""


@dataclass(frozen=True, slots=True)
class QuantizedOperands:
    """Element types that a quantised operator multiplies."""

    activation: str
    weight: str
    weight_bits: int
    """Bits of the widest weight: those of its type, or 7 if the range of int8 was reduced."""
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
    """Digest of its file; None if the model is part of a target's firmware and has no file."""
    format: str
    """tflite, onnx; or firmware, if the model is part of it."""
    size_bytes: int | None
    """Size of its file; None if it has no file."""
    precision: str | None = None
    """Precision of the operators that hold most of the weights: int8, uint8, int16x8, fp32, fp16,
    int8-dynamic, fp16-weights, …; None if the file does not state it."""
    quantized: tuple[QuantizedOperands, ...] | None = None
    """Types that its quantised operators multiply, each once; None if the file states none."""
    signature: str | None = None
    """Signature of the measured graph; None if it has none, or the format has no signatures."""
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
    """Package that contains its library, such as onnxruntime-gpu; None if it has no package."""
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
    """Resident memory of the worker, bytes; None if the system does not report it."""

    peak_rss_bytes: int | None
    """0 from older agents that could not read it."""
    model_bytes: int | None
    """Growth of the resident set from before the load to after the first inference."""
    steady_rss_bytes: int | None = None
    """Resident set after the first inference."""
    steady_pss_bytes: int | None = None
    """Steady memory, with shared pages divided among the processes that share them."""
    arena_bytes: int | None = None
    """Memory that the runtime planned for its tensors; None if it does not report it."""


@dataclass(frozen=True, slots=True)
class BindingFacts:
    """Invocation of a model of one addition, through the runtime's Python binding and in C."""

    p50_ns: int | None = None
    """Median through the binding, as the loop reports it."""
    c_p50_ns: int | None = None
    """Median of the same model by the C function of the same library."""
    reason: str | None = None
    """Reason why a median is None, a line of text."""


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
    """None from agents that do not measure it, and in runs that were stopped."""


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
    """Time of a CPU since boot."""

    cpu: int
    busy_s: float
    """Processor time of everything that ran on it, including the hypervisor's other guests."""


@dataclass(frozen=True, slots=True)
class ThreadTime:
    """Time of a thread of the worker since it began."""

    thread: int
    """Thread's number, as the kernel counts them."""
    run_s: float
    wait_s: float
    """Time for which it was runnable but waited for a CPU."""


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """Counters of a control group with a quota of CPU time, since the group was created."""

    period_count: int
    """Periods in which the group had runnable tasks."""
    throttled_count: int
    """Periods in which it exhausted its quota, and was stopped until the next period."""
    throttled_s: float
    """Time for which it was stopped, summed over CPUs."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Clocks and counters before or after the timed loop; None where the kernel has none."""

    monotonic_ns: int
    wall_ns: int
    own_cpu_s: float
    """Processor time of the worker."""
    involuntary_switch_count: int
    """Context switches forced on the worker."""
    major_fault_count: int = 0
    """Pages that the worker had to wait for."""
    cpu_busy_s: float | None = None
    """Processor time of everything on all CPUs, including the hypervisor's other guests."""
    cpu_total_s: float | None = None
    swapped_page_count: int | None = None
    """Pages that the whole system moved to and from swap."""
    cpu_stall_s: float | None = None
    """Time during which some task waited for a CPU."""
    memory_stall_s: float | None = None
    io_stall_s: float | None = None
    freq_hz: tuple[int, ...] = ()
    """Frequencies of the CPUs that the worker may use; empty without cpufreq."""
    governors: tuple[str, ...] = ()
    """Frequency governors of those CPUs, each once."""
    cpus: tuple[CpuTime, ...] = ()
    """CPUs that the worker may use, and those that share a core with them."""
    threads: tuple[ThreadTime, ...] = ()
    """Threads of the worker."""
    quotas: tuple[QuotaUse, ...] = ()
    """Use of each quota, in the order of `Scheduling.quotas`."""
    suspended_ns: int | None = None
    """Time since boot for which the system was suspended: CLOCK_BOOTTIME less CLOCK_MONOTONIC; None
    from older agents."""


@dataclass(frozen=True, slots=True)
class YardstickReading:
    """Speed of the device at the start or end of a run, by fixed work in parts below a millisecond.

    Each figure is the decile of the fast parts, because other processes slow down some parts. A
    spread is the interquartile range of the parts' times over their median.
    """

    integer_ns_per_unit: float
    """Time of a unit of the integer work, which needs only the CPU."""
    integer_spread_ratio: float
    memory_bytes_per_s: float | None
    """Rate of a copy, bytes read and bytes written; None if there was no memory for it."""
    memory_spread_ratio: float | None


@dataclass(frozen=True, slots=True)
class Yardstick:
    """Speed of the device before the warm-up and after the timed loop, by the same work."""

    before: YardstickReading
    after: YardstickReading


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """Limit of a control group on the CPU time of its processes."""

    cpu_count: float
    """CPU time over wall time, as a number of CPUs."""
    period_s: float
    """Period of the quota; a group that exhausts it is stopped until the next period."""


@dataclass(frozen=True, slots=True)
class RealtimeLimit:
    """Kernel's limit on real-time tasks, and the time that the worker left to other tasks."""

    runtime_s: float | None
    """CPU time of real-time tasks in each period; the kernel stops them for the rest. None if the
    kernel has no limit."""
    period_s: float
    paused_s: float = 0.0
    """Time for which the timed loop paused between queries, so that the kernel need not stop it."""


@dataclass(frozen=True, slots=True)
class AndroidGroups:
    """Control groups by which Android schedules the worker; None if a group is not visible.

    The groups of adb's shell differ from those of a foreground app: Android assigns an app's groups
    by its visibility.
    """

    cpuset: str | None
    """Name of the group that sets its CPUs: `/`, `/top-app`, `/background`."""
    utilization_min_ratio: float | None
    """Minimum utilisation that the scheduler assumes when it chooses CPU and clock, 0 to 1."""
    utilization_max_ratio: float | None
    """Maximum utilisation that it assumes; below 1, it caps the clock, which no policy shows."""


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
    """Quotas of the worker's control group and its parents, the outermost first; empty if no group
    has a quota, None if they could not be read, and from older agents."""
    android: AndroidGroups | None = None
    """None if the system is not Android."""
    realtime: RealtimeLimit | None = None
    """None without real-time priority, if the limit could not be read, and from older agents."""


@dataclass(frozen=True, slots=True)
class OperatorPlacement:
    """The place where operators of a kind ran, and their number."""

    place: str
    """Name of a delegate or execution provider, or `builtin`: the runtime's own kernels."""
    operator: str
    """Kind of operator in the runtime's terms, such as CONV_2D or Conv."""
    count: int
    """Operators of this kind in this place."""


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """Time that an operator of the model took, over all runs of a profile."""

    index: int
    """Position in the order of execution, from 0."""
    operator: str
    """Kind of operator or kernel, as the runtime names it."""
    name: str
    """The model's own name of this operator; empty if the runtime does not report it."""
    place: str
    """Place, as in `OperatorPlacement`."""
    count: int
    """Number of times that it ran."""
    total_ns: int
    """Sum over all `count` times."""
    p50_ns: int | None = None
    """Median time, in which runs with a preemption have no weight; None from older agents, and for
    a target, which sums the times."""
    instructions: float | None = None
    """Instructions per run, of an emulated target; `total_ns` is then virtual time."""
    cycles: float | None = None
    """Cycles of the processor per run, of a target that counts them."""

    @property
    def typical_ns(self) -> float:
        """Median time; the mean if an older agent recorded no median."""
        return self.total_ns / max(1, self.count) if self.p50_ns is None else self.p50_ns


@dataclass(frozen=True, slots=True)
class CheckFacts:
    """Checks of the outputs, with the reasons of failed checks; a file holds the outputs."""

    sample_count: int = 0
    """Prepared samples on which the measured model and the reference ran again."""
    distinct_count: int = 0
    """Different inputs among these samples; 0 if they were not counted."""
    reference: str | None = None
    """Name of the reference kernels."""
    reference_runtime: RuntimeFacts | None = None
    """Runtime of these kernels, if it differs from that of the model."""
    reference_error: str | None = None
    """Reason why there is no reference, a line of text."""
    dataset_sample_count: int = 0
    """Samples of the data set that were run."""
    dataset_wanted_count: int = 0
    """Samples of the data set that were to be run; 0 if the agent does not report it."""
    dataset_error: str | None = None
    """Reason why outputs for the data set, or for a part of it, are missing."""
    operators: tuple[OperatorTime, ...] = ()
    """Time per operator, if a profile was requested."""
    profile_run_count: int = 0
    profile_error: str | None = None
    profile_reading_ns: float | None = None
    """Time of a reading of a target's counter, which is subtracted from the times of its operators,
    but not from those of its inferences; virtual time if it is emulated. None for other devices."""

    @classmethod
    def undone(cls, reason: str) -> CheckFacts:
        """Facts of a run without any check, all for the same reason."""
        return cls(reference_error=reason, dataset_error=reason, profile_error=reason)


class TimedPathFault(Enum):
    """How the outputs of the timed calls differ from the outputs of the checks."""

    FORM = "form"
    """The number of outputs, a shape or an element type differs."""
    OTHER_SAMPLE = "other_sample"
    """Outputs of another sample: an inference was skipped, or the inputs or outputs are old."""
    VALUES = "values"
    """Outputs that belong to no sample: other inputs were run, or other outputs were read."""


@dataclass(frozen=True, slots=True)
class TimedPathFacts:
    """Comparison of the timed calls with those of the checks, after the timed loop."""

    inference_count: int = 0
    """Inferences of the timed calls that were compared; 0 if the comparison is undecided."""
    differing_count: int = 0
    """Inferences whose outputs differ from those of the checks for the same sample."""
    fault: TimedPathFault | None = None
    """Kind of the difference; None if there is none."""
    reason: str | None = None
    """Reason why the comparison is undecided, a line of text."""
    is_repeatable: bool = True
    """False if repeated inferences of a sample have different outputs, and these belong to no other
    sample: the model draws random numbers, or has a state that its driver does not reset."""


@dataclass(frozen=True, slots=True)
class LoadCode:
    """Executed load code, a sequence of active and idle chips, on the device's monotonic clock."""

    edges_ns: tuple[int, ...]
    """Start time of each chip, and end time of the last chip."""
    is_busy: tuple[bool, ...]
    """State of each chip; one item fewer than `edges_ns`."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """A falling edge of the line to a meter's digital input, on the device's monotonic clock."""

    before_ns: int
    """Timestamp before the write that makes the line fall …"""
    after_ns: int
    """… and after it: the edge is between the two, or at most `SyncFacts.latency_ns` later."""


@dataclass(frozen=True, slots=True)
class SyncFacts:
    """Marks that a worker made for a meter, in order of time."""

    codes: tuple[LoadCode, ...] = ()
    pulses: tuple[Pulse, ...] = ()
    line: str | None = None
    """Line of the pulses, such as `gpio:/sys/class/gpio/gpio17/value`."""
    latency_ns: int = 0
    """Bound on the delay of an edge after `Pulse.after_ns`."""
    error: str | None = None
    """Reason why there is no pulse although the agent has a line; a line of text."""


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
    """Number of warm-up rows at the beginning of the query trace."""
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
    """Share of the values given for a quantised input that are beyond its range, for the worst
    input; None if no given value was quantised."""
    placement: tuple[OperatorPlacement, ...] = ()
    """Placement of the operators; empty if the runtime does not report it."""
    check: CheckFacts = field(default_factory=CheckFacts)
    timed_path: TimedPathFacts | None = None
    """None from older agents, and in runs that were stopped."""
    sync: SyncFacts = field(default_factory=SyncFacts)
    yardstick: Yardstick | None = None
    """None from older agents."""


@dataclass(frozen=True, slots=True)
class EmulatorFacts:
    """Emulator that runs a target."""

    name: str
    version: str
    machine: str
    """Emulated board, by the emulator's own name."""
    instruction_ns: float | None = None
    """Virtual time of an instruction, if the emulator counts instructions; None: its clock follows
    that of the machine it runs on, and is unrelated to the target's speed."""


@dataclass(frozen=True, slots=True)
class FirmwareFacts:
    """Program on a target."""

    name: str
    """Name that it reports."""
    version: str
    sha256: str | None = None
    """Digest of its image; None if it was on the board already."""
    tick_rate_hz: float | None = None
    """Rate of the counter that times single inferences; None if it has no such counter."""
    emulator: EmulatorFacts | None = None
    """None for a real board."""
    rounding: str | None = None
    """Library whose reference kernels compute the same outputs to the last bit, as reported by the
    firmware: litert, tflm; None if it reports none."""


@dataclass(frozen=True, slots=True)
class TargetMemory:
    """Memory use of a model and its firmware on a target, bytes; None if it is not reported."""

    flash_bytes: int | None
    """Of the model."""
    ram_bytes: int | None
    """Of arena and input of the model."""
    arena_bytes: int | None
    firmware_flash_bytes: int | None = None
    """Of the firmware without the model."""
    firmware_ram_bytes: int | None = None
    """Of the firmware without stack, arena and input."""
    stack_bytes: int | None = None
    """Memory for the stack."""
    stack_peak_bytes: int | None = None
    """Largest stack since the model was loaded."""


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive inferences between two timestamps of the target."""

    begin_ns: int
    """Arrival of the target's first timestamp, on the monotonic clock of the connected machine …"""
    end_ns: int
    """… and of its second timestamp; if timestamps are pulses, arrival of the lines around them."""
    count: int
    ticks: int | None
    """Difference of the two timestamps on the target's own counter; None if they are pulses of a
    pin, whose times only a meter records."""
    tick_rate_hz: float | None

    @property
    def duration_s(self) -> float | None:
        """Duration on the target's own counter."""
        if self.ticks is None or self.tick_rate_hz is None:
            return None
        return self.ticks / self.tick_rate_hz


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """Record of a run by the process that drove a target."""

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
    empty if it does not time single inferences."""
    upload_s: float | None = None
    """Time to send the model to the target; None if it was there already."""
    is_read_back: bool = True
    """Whether the inputs on the target were compared with the sent inputs."""
    pace_ns: int | None = None
    """Interval of the inferences of streaming firmware, which classifies audio continuously; None:
    the target runs inferences on request."""
    inputs_clipped_ratio: float | None = None
    """Share of the given values beyond the range of a quantised input, as in `WorkerRecord`."""
    check: CheckFacts = field(default_factory=CheckFacts)
    is_dataset_stopped: bool = False
    """Whether the run was stopped during its data set: another run may get further."""


MeasuredRecord = WorkerRecord | TargetRecord
"""Record of a worker process, for inferences timed by the worker or by a target."""

TOO_HOT = "too_hot"
"""Kind of the event by which the temperature guard ends a run; its detail is the reason."""
UNWATCHED = "unwatched"
"""Kind of the event after which the device's temperature is not monitored."""
METER_TROUBLE = "meter_trouble"
"""Kind of the last event of a run whose recording ended early; its detail is the reason."""
IDLE_ENDED = "idle_ended"
"""Kind of the event that ends a window of `Phase.IDLE`; its detail states if it was cut short."""


@dataclass(frozen=True, slots=True)
class Event:
    """A line of a run's history."""

    time_ns: int
    """Time on the device's monotonic clock."""
    kind: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class MeterFacts:
    """The agent's recording during a run."""

    meter: str
    """Meter, as the run specification names it."""
    trouble: str | None = None
    """Reason why the recording ended early, or is missing; one line."""


@dataclass(frozen=True, slots=True)
class Safeguard:
    """A mechanism that confines the worker."""

    is_applied: bool
    detail: str = ""
    """What was applied; or why it was not, and what the worker can do as a result."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """Confinement of the worker with the model, as far as the device's kernel supports it."""

    is_root: bool
    """Whether the agent, and so the worker, ran as root."""
    privileges: Safeguard
    """Programs cannot gain privileges."""
    capabilities: Safeguard
    """The worker has no capabilities of root."""
    calls: Safeguard
    """System calls for sockets, programs and processes are blocked."""
    files: Safeguard
    network: Safeguard
    threads: Safeguard
    """Their number is limited."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Everything that an agent keeps of a run, in addition to its traces."""

    run_id: str
    owner: str
    """Identity of the host that started it."""
    spec: RunSpec
    model: ModelFacts
    device: DeviceDescription
    environment: Environment
    outcome: Outcome
    worker: WorkerRecord | None = None
    """Record of the worker; None if the run failed before it measured anything."""
    error_code: int = 0
    error: str | None = None
    """Reason on one line, if the outcome is failed, or the device itself ended the run."""
    load_1m_after: float | None = None
    telemetry: TelemetryFacts = field(default_factory=TelemetryFacts)
    expected: Expectation = field(default_factory=Expectation)
    """Expectations of the device's profile at the time of the run."""
    cooldown: CooldownFacts = field(default_factory=CooldownFacts)
    events: tuple[Event, ...] = field(default_factory=tuple)
    metered: MeterFacts | None = None
    """Facts of the meter at the device, if the specification names a meter."""
    emulated: bool = False
    simulated: bool = False
    time_scale: float | None = None
    """Seconds of a simulated device's heat per second of the run; None for other devices, and from
    older agents."""
    confinement: Confinement | None = None
    """Confinement of the worker; None if no worker was confined yet, and from older agents."""
    target: TargetRecord | None = None
    """Record of a device that timed itself, which has no `worker`; None for all other devices."""

    @property
    def has_measured(self) -> bool:
        """Whether the record has measurements, of a worker or of a target."""
        return self.worker is not None or self.target is not None
