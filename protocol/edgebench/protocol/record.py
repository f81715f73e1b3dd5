"""The agent's record of a run; the host computes all results from the record and the traces."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from edgebench.protocol.device import DeviceDescription, Environment
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.telemetry import TelemetryFacts
from edgebench.protocol.thermal import CooldownFacts, Expectation

RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Pattern of a run id. It allows no path separator, because agent and host use the id as the name
of a directory."""


class Outcome(Enum):
    """How a run ended on the device."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    """The run was stopped on request; the queries before the stop are kept."""
    FAILED = "failed"


class Phase(Enum):
    """Phases of a run, in their order."""

    COOLING = "cooling"
    """The device is too warm, and the run waits until it has cooled down."""
    IDLE = "idle"
    """The device is idle before the worker starts and after it has ended, so that a meter records
    the idle power."""
    STARTING = "starting"
    LOADING = "loading"
    SYNCING = "syncing"
    """The worker makes synchronisation marks that a meter records, before the warm-up and after the
    timed loop."""
    WARMING_UP = "warming_up"
    MEASURING = "measuring"
    SPOOLING = "spooling"
    CHECKING = "checking"
    """The measurement is on disk, and the outputs of the model are being checked."""


class ProgressUnit(Enum):
    """Unit in which the progress of a phase is counted."""

    BYTES = "bytes"
    """Bytes that were sent to a target."""
    WINDOWS = "windows"
    SAMPLES = "samples"
    """Samples of a data set."""


@dataclass(frozen=True, slots=True)
class PhaseProgress:
    """Progress of a run in its present phase."""

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
    """Axes of an input whose size the model does not fix; also empty in records of older agents."""


@dataclass(frozen=True, slots=True)
class QuantizedOperands:
    """Element types that a quantised operator multiplies."""

    activation: str
    weight: str
    weight_bits: int
    """Number of bits of the widest weight. This is the width of the element type, or 7 if the
    weights use only a reduced range of int8."""
    is_qdq: bool
    """Whether the operator works on floats between DequantizeLinear and QuantizeLinear; if so, the
    runtime decides how to compute the operator."""


FIRMWARE_FORMAT = "firmware"
"""Value of `ModelFacts.format` for a model that is part of the firmware of a target."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The model that was measured."""

    name: str
    sha256: str | None
    """SHA-256 of the model file; None if the model is part of a target's firmware and has no
    file."""
    format: str
    """Format of the model: tflite, onnx, or firmware if the model is part of a target's
    firmware."""
    size_bytes: int | None
    """Size of the model file; None if there is no file."""
    precision: str | None = None
    """Precision of the operators that hold most of the weights: int8, uint8, int16x8, fp32, fp16,
    int8-dynamic, fp16-weights, … None if the file does not state the precision."""
    quantized: tuple[QuantizedOperands, ...] | None = None
    """Element types that the quantised operators multiply, without duplicates; None if the file
    states no types."""
    signature: str | None = None
    """Name of the signature of the measured graph; None if the graph has no signature, or if the
    file format does not support signatures."""
    signatures: tuple[str, ...] = ()
    """All signatures of the file, in the order of the file."""


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """The inference runtime, with the requested delegates and the delegates that were used."""

    name: str
    version: str
    delegates_requested: tuple[str, ...] = ()
    delegates_used: tuple[str, ...] = ()
    distribution: str | None = None
    """Python package with the runtime's library, such as onnxruntime-gpu; None if the library
    belongs to no package."""
    library: str | None = None
    """Directory of the runtime's library."""


@dataclass(frozen=True, slots=True)
class ColdStart:
    """Time to the end of the first inference, in three consecutive parts, nanoseconds."""

    import_ns: int
    load_ns: int
    first_inference_ns: int


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """Memory of the worker, bytes; a value that the system does not report is None."""

    peak_rss_bytes: int | None
    """Largest resident set; 0 from older agents that could not read it."""
    model_bytes: int | None
    """Growth of the worker's resident set from the start of the load to the end of the first
    inference."""
    steady_rss_bytes: int | None = None
    """Resident set after the first inference."""
    steady_pss_bytes: int | None = None
    """Proportional set size after the first inference. In this size, each shared page is divided
    among the processes that share it."""
    arena_bytes: int | None = None
    """Memory that the runtime planned for tensors; None if the runtime does not report it."""


@dataclass(frozen=True, slots=True)
class BindingFacts:
    """Latency of a model with a single addition, called through Python and through C."""

    p50_ns: int | None = None
    """Median latency through the Python binding, as the timed loop reports it."""
    c_p50_ns: int | None = None
    """Median latency of the same model, called through the C function of the same library."""
    reason: str | None = None
    """Reason, on one line, why a median is None."""


@dataclass(frozen=True, slots=True)
class HarnessFacts:
    """Cost of the timed loop itself, measured with calls that do nothing, nanoseconds."""

    p50_ns: int
    """Median latency of an invocation that does nothing, as the timed loop reports it."""
    per_query_ns: float
    """Wall time of the timed loop per query, with calls that do nothing."""
    end_to_end_p50_ns: int = 0
    """Median time from start to end of a query with calls that do nothing, as the timed loop
    reports it."""
    binding: BindingFacts | None = None
    """Cost of the runtime's Python binding; None from agents that do not measure it, and in runs
    that were stopped."""


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """Digest of the model's outputs, and whether the outputs are finite."""

    sha256: str
    """SHA-256 of the output bytes of the first inference."""
    is_finite: bool
    """Whether all outputs are free of NaN and infinity, before and after the timed loop."""
    sample_count: int = 1
    """Number of samples whose outputs were checked."""


@dataclass(frozen=True, slots=True)
class CpuTime:
    """Time since boot for which a CPU was busy."""

    cpu: int
    busy_s: float
    """Time for which anything ran on the CPU, including other guests of the hypervisor."""


@dataclass(frozen=True, slots=True)
class ThreadTime:
    """Run time and waiting time of a worker thread since the thread began."""

    thread: int
    """Thread id, as the kernel assigns it."""
    run_s: float
    wait_s: float
    """Time for which the thread was runnable, but waited for a CPU."""


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """Counters of a control group with a quota of CPU time, since the group was created."""

    period_count: int
    """Number of periods in which the group had runnable tasks."""
    throttled_count: int
    """Number of periods in which the group exhausted its quota, and was stopped until the next
    period."""
    throttled_s: float
    """Time for which the group was stopped, summed over CPUs."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Clocks and counters before or after the timed loop; an unavailable counter is None."""

    monotonic_ns: int
    wall_ns: int
    own_cpu_s: float
    """Processor time of the worker."""
    involuntary_switch_count: int
    """Number of context switches that the kernel forced on the worker."""
    major_fault_count: int = 0
    """Number of memory pages for which the worker had to wait (major page faults)."""
    cpu_busy_s: float | None = None
    """Time for which anything ran on a CPU, summed over all CPUs, including other guests of the
    hypervisor."""
    cpu_total_s: float | None = None
    swapped_page_count: int | None = None
    """Number of memory pages that the whole system moved to or from swap."""
    cpu_stall_s: float | None = None
    """Time during which at least one task of the system waited for a CPU."""
    memory_stall_s: float | None = None
    io_stall_s: float | None = None
    freq_hz: tuple[int, ...] = ()
    """Frequencies of the CPUs that the worker may use; empty without cpufreq."""
    governors: tuple[str, ...] = ()
    """Frequency governors of the CPUs that the worker may use, without duplicates."""
    cpus: tuple[CpuTime, ...] = ()
    """Busy times of the CPUs that the worker may use, and of the CPUs that share a core with
    them."""
    threads: tuple[ThreadTime, ...] = ()
    """Times of the worker's threads."""
    quotas: tuple[QuotaUse, ...] = ()
    """Use of each quota of CPU time, in the order of `Scheduling.quotas`."""
    suspended_ns: int | None = None
    """Time since boot for which the system was suspended: CLOCK_BOOTTIME minus CLOCK_MONOTONIC;
    None from older agents."""


@dataclass(frozen=True, slots=True)
class YardstickReading:
    """Speed of the device at the start or end of a run, measured with a fixed amount of work.

    The work is divided into many parts. Each part takes less than a millisecond. Times and rates
    are computed from the first decile of the parts' times, because other processes slow down some
    parts. Each spread field is the interquartile range of the parts' times, divided by their
    median.
    """

    integer_ns_per_unit: float
    """Time of a unit of the integer work, which needs only the CPU."""
    integer_spread_ratio: float
    memory_bytes_per_s: float | None
    """Rate of a memory copy, bytes read plus bytes written; None if there was no memory for the
    copy."""
    memory_spread_ratio: float | None


@dataclass(frozen=True, slots=True)
class Yardstick:
    """Speed of the device before the warm-up and after the timed loop, for the same work."""

    before: YardstickReading
    after: YardstickReading


@dataclass(frozen=True, slots=True)
class CpuQuota:
    """Limit that a control group sets on the CPU time of its processes."""

    cpu_count: float
    """Limit on CPU time divided by wall time, as a number of CPUs."""
    period_s: float
    """Period of the quota; a group that exhausts its quota is stopped until the next period."""


@dataclass(frozen=True, slots=True)
class RealtimeLimit:
    """The kernel's limit on real-time tasks, and the time that the worker left to other tasks."""

    runtime_s: float | None
    """CPU time that real-time tasks may use in each period. After this time, the kernel stops the
    real-time tasks for the rest of the period. None if the kernel has no limit."""
    period_s: float
    paused_s: float = 0.0
    """Time for which the timed loop paused between queries, so that the kernel did not stop it."""


@dataclass(frozen=True, slots=True)
class AndroidGroups:
    """Control groups by which Android schedules the worker; a group that is not visible is None.

    The groups of adb's shell differ from the groups of a foreground app, because Android assigns
    the groups of an app by the app's visibility.
    """

    cpuset: str | None
    """Name of the group that sets the worker's CPUs, such as `/`, `/top-app` or `/background`."""
    utilization_min_ratio: float | None
    """Minimum utilisation that the scheduler assumes when it chooses CPU and clock, 0 to 1."""
    utilization_max_ratio: float | None
    """Maximum utilisation that the scheduler assumes, 0 to 1. A value below 1 limits the clock. The
    frequency policies do not show this limit."""


@dataclass(frozen=True, slots=True)
class Scheduling:
    """How the kernel scheduled the worker."""

    cpus: tuple[int, ...]
    """Numbers of the CPUs that the worker was allowed to use."""
    policy: str
    """Scheduling policy: other, fifo, rr, batch, idle, deadline."""
    nice: int
    refused: tuple[str, ...] = ()
    """Scheduling requests that the kernel refused, each as a line of text."""
    quotas: tuple[CpuQuota, ...] | None = None
    """Quotas of the worker's control group and of its parent groups, the outermost first; empty if
    no group has a quota. None if the quotas could not be read, or if the agent is too old to read
    them."""
    android: AndroidGroups | None = None
    """Android's control groups of the worker; None if the system is not Android."""
    realtime: RealtimeLimit | None = None
    """Limit on real-time tasks. None if the worker has no real-time priority, if the limit could
    not be read, or if the agent is too old to read the limit."""


@dataclass(frozen=True, slots=True)
class OperatorPlacement:
    """Number of operators of a kind that ran in the same place, such as a delegate."""

    place: str
    """Name of a delegate or execution provider, or `builtin` for the runtime's own kernels."""
    operator: str
    """Kind of operator in the runtime's terms, such as CONV_2D or Conv."""
    count: int
    """Number of operators of this kind that ran in this place."""


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """Time that an operator of the model took, over all runs of a profile."""

    index: int
    """Position in the order of execution, from 0."""
    operator: str
    """Kind of operator or kernel, as the runtime names it."""
    name: str
    """Name of the operator in the model; empty if the runtime does not report it."""
    place: str
    """Place where the operator ran, as in `OperatorPlacement`."""
    count: int
    """Number of times that the operator ran."""
    total_ns: int
    """Sum of the times of all `count` executions."""
    p50_ns: int | None = None
    """Median time of an execution; a few preempted executions do not affect it. None from older
    agents, and for a target (a device that times itself), because a target reports only the sum of
    the times."""
    instructions: float | None = None
    """Instructions per execution on an emulated target, where `total_ns` is virtual time; None for
    all other devices."""
    cycles: float | None = None
    """Processor cycles per execution, for a target that counts them; None for other devices."""

    @property
    def typical_ns(self) -> float:
        """Median time of an execution; the mean time if no median was recorded."""
        return self.total_ns / max(1, self.count) if self.p50_ns is None else self.p50_ns


@dataclass(frozen=True, slots=True)
class CheckFacts:
    """Checks of the outputs, and reasons for missing checks; the outputs are in a separate file."""

    sample_count: int = 0
    """Number of prepared samples on which the checks ran the measured model and the reference."""
    distinct_count: int = 0
    """Number of different inputs among the `sample_count` samples; 0 if they were not counted."""
    reference: str | None = None
    """Name of the reference kernels; None if there is no reference."""
    reference_runtime: RuntimeFacts | None = None
    """Runtime of the reference kernels, if it differs from the runtime of the model; else None."""
    reference_error: str | None = None
    """Reason, on one line, why there is no reference."""
    dataset_sample_count: int = 0
    """Number of samples of the data set that were run."""
    dataset_wanted_count: int = 0
    """Number of samples of the data set that the run had to process; 0 if the agent does not report
    it."""
    dataset_error: str | None = None
    """Reason why outputs for the data set, or for a part of it, are missing."""
    operators: tuple[OperatorTime, ...] = ()
    """Time per operator; empty if no profile was requested."""
    profile_run_count: int = 0
    profile_error: str | None = None
    profile_reading_ns: float | None = None
    """Time that a target (a device that times itself) takes to read its counter. It is virtual time
    for an emulated target, and None for devices that are not targets. This time is subtracted from
    the times of the operators, but not from the times of the inferences."""

    @classmethod
    def undone(cls, reason: str) -> CheckFacts:
        """Facts of a run without any check; a single reason explains all missing checks."""
        return cls(reference_error=reason, dataset_error=reason, profile_error=reason)


class TimedPathFault(Enum):
    """How the outputs of the timed calls differ from the outputs of the checks."""

    FORM = "form"
    """The number of outputs, a shape or an element type differs."""
    OTHER_SAMPLE = "other_sample"
    """The outputs are those of a different sample, because an inference was skipped, or because
    inputs or outputs are stale."""
    VALUES = "values"
    """The outputs match no sample, because unknown inputs were run, or the wrong outputs were
    read."""


@dataclass(frozen=True, slots=True)
class TimedPathFacts:
    """Result of comparing timed calls with calls of the checks; computed after the timed loop."""

    inference_count: int = 0
    """Number of timed inferences whose outputs were compared; 0 if the comparison is undecided."""
    differing_count: int = 0
    """Number of inferences whose outputs differ from the outputs of the checks for the same
    sample."""
    fault: TimedPathFault | None = None
    """Kind of the difference; None if there is no difference."""
    reason: str | None = None
    """Reason, on one line, why the comparison is undecided; None if it is decided."""
    is_repeatable: bool = True
    """False if repeated inferences of the same sample have different outputs, and these are not the
    outputs of a different sample. Such a model draws random numbers, or has a state that the
    runtime driver does not reset."""


@dataclass(frozen=True, slots=True)
class LoadCode:
    """An executed load code: a sequence of active and idle intervals (chips)."""

    edges_ns: tuple[int, ...]
    """Start time of each chip, and end time of the last chip, on the device's monotonic clock."""
    is_busy: tuple[bool, ...]
    """Whether each chip (interval) is active; the tuple has one item fewer than `edges_ns`."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """A falling edge of the line to a meter's digital input.

    Its times are on the device's monotonic clock.
    """

    before_ns: int
    """Timestamp immediately before the write that makes the line fall."""
    after_ns: int
    """Timestamp immediately after the write that makes the line fall. The line falls between
    `before_ns` and `after_ns`, or at most `SyncFacts.latency_ns` later."""


@dataclass(frozen=True, slots=True)
class SyncFacts:
    """Synchronisation marks that a worker made for a meter, in order of time."""

    codes: tuple[LoadCode, ...] = ()
    pulses: tuple[Pulse, ...] = ()
    line: str | None = None
    """Output line of the pulses, such as `gpio:/sys/class/gpio/gpio17/value`."""
    latency_ns: int = 0
    """Bound on the delay of an edge after `Pulse.after_ns`."""
    error: str | None = None
    """Reason why there is no pulse although the agent has an output line; a single line of text."""


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """A run's record, made by the worker process."""

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
    """Number of rows of the query trace, including the warm-up."""
    is_interrupted: bool
    before: Moment
    """Clocks and counters at the start of the timed loop."""
    after: Moment
    scheduling: Scheduling
    sample_count: int
    """Number of prepared samples."""
    inputs_clipped_ratio: float | None = None
    """Share of the user's input values that are beyond the range of a quantised input. With several
    inputs, this is the largest share of any input. None if no given value was quantised."""
    placement: tuple[OperatorPlacement, ...] = ()
    """Places (such as delegates) where the operators ran; empty if the runtime does not report
    them."""
    check: CheckFacts = field(default_factory=CheckFacts)
    timed_path: TimedPathFacts | None = None
    """Comparison of the timed calls with the checks; None from older agents, and in runs that were
    stopped."""
    sync: SyncFacts = field(default_factory=SyncFacts)
    yardstick: Yardstick | None = None
    """Speed of the device before and after the measurement; None from older agents."""


@dataclass(frozen=True, slots=True)
class EmulatorFacts:
    """The emulator that runs a target."""

    name: str
    version: str
    machine: str
    """The emulator's name of the emulated board."""
    instruction_ns: float | None = None
    """Virtual time of an instruction, if the emulator counts instructions. None if the emulator's
    clock follows the clock of the machine on which it runs, and so is unrelated to the target's
    speed."""


@dataclass(frozen=True, slots=True)
class FirmwareFacts:
    """The program on a target (a device that runs inferences without an agent)."""

    name: str
    """Name that the firmware reports."""
    version: str
    sha256: str | None = None
    """SHA-256 of the firmware image; None if the firmware was on the board already."""
    tick_rate_hz: float | None = None
    """Rate of the counter that times single inferences; None if there is no such counter."""
    emulator: EmulatorFacts | None = None
    """Emulator that runs the target; None for a real board."""
    rounding: str | None = None
    """Name of the library (litert or tflm) whose reference kernels compute exactly the same outputs
    as the firmware. The firmware reports the name; None if it reports none."""


@dataclass(frozen=True, slots=True)
class TargetMemory:
    """Memory use of a model and the firmware on a target, bytes; an unreported value is None."""

    flash_bytes: int | None
    """Flash that the model uses."""
    ram_bytes: int | None
    """RAM for the tensor arena and the input of the model."""
    arena_bytes: int | None
    firmware_flash_bytes: int | None = None
    """Flash that the firmware uses, without the model."""
    firmware_ram_bytes: int | None = None
    """RAM that the firmware uses, without stack, arena and input."""
    stack_bytes: int | None = None
    """RAM that is reserved for the stack."""
    stack_peak_bytes: int | None = None
    """Largest stack use since the model was loaded."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window: consecutive inferences between two timestamps that the target makes."""

    begin_ns: int
    """Time at which the target's first timestamp arrived, on the monotonic clock of the machine to
    which the target is connected. If the timestamps are pulses, this is the arrival of the text
    line before the first pulse.
    """
    end_ns: int
    """Time at which the target's second timestamp arrived, on the same clock as `begin_ns`. If the
    timestamps are pulses, this is the arrival of the text line after the last pulse."""
    count: int
    ticks: int | None
    """Difference of the two timestamps on the target's own counter. None if the timestamps are
    pulses of a pin: only a meter records pulses."""
    tick_rate_hz: float | None

    @property
    def duration_s(self) -> float | None:
        """Duration by the target's own counter; None if there is no such counter."""
        if self.ticks is None or self.tick_rate_hz is None:
            return None
        return self.ticks / self.tick_rate_hz


@dataclass(frozen=True, slots=True)
class TargetRecord:
    """A run's record, made by the process that drove a target."""

    model: ModelFacts
    runtime: RuntimeFacts
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    firmware: FirmwareFacts
    memory: TargetMemory
    output: OutputFacts
    warmup_count: int
    """Number of untimed inferences before each window (series of timed inferences)."""
    windows: tuple[Window, ...]
    is_interrupted: bool
    inference_ticks: tuple[int, ...] = ()
    """Duration of each inference in ticks, in the order of the windows. Only the durations that the
    firmware stored are included; empty if the firmware does not time single inferences."""
    upload_s: float | None = None
    """Time for sending the model to the target; None if the model was there already."""
    is_read_back: bool = True
    """Whether the inputs were read back from the target and compared with the sent inputs."""
    pace_ns: int | None = None
    """Interval of the inferences of streaming firmware, which classifies audio continuously; None
    if the target runs inferences on request."""
    inputs_clipped_ratio: float | None = None
    """Share of the given values that are beyond the range of a quantised input, as in
    `WorkerRecord`."""
    check: CheckFacts = field(default_factory=CheckFacts)
    is_dataset_stopped: bool = False
    """Whether the run was stopped while it processed the data set, so that a later run may process
    more samples."""


MeasuredRecord = WorkerRecord | TargetRecord
"""Record of a worker process that timed inferences itself, or that drove a target that timed
them."""

TOO_HOT = "too_hot"
"""Kind of the event that is recorded when the temperature guard ends a run; the event's detail is
the reason."""
UNWATCHED = "unwatched"
"""Kind of the event after which the device's temperature is not monitored."""
METER_TROUBLE = "meter_trouble"
"""Kind of the last event of a run whose recording ended early; the event's detail is the reason."""
IDLE_ENDED = "idle_ended"
"""Kind of the event at the end of an idle phase; the event's detail states whether the phase was
cut short."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event in the course of a run."""

    time_ns: int
    """Time on the device's monotonic clock."""
    kind: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class MeterFacts:
    """The recording of an energy meter, made by the agent during a run."""

    meter: str
    """Address of the meter, as the run specification contains it."""
    trouble: str | None = None
    """Reason, on one line, why the recording ended early or is missing; None if it is complete."""


@dataclass(frozen=True, slots=True)
class Safeguard:
    """A mechanism that confines the worker."""

    is_applied: bool
    detail: str = ""
    """Description of the mechanism. If the mechanism was not applied, the text states the reason,
    and what the worker can do as a result."""


@dataclass(frozen=True, slots=True)
class Confinement:
    """Confinement of the worker with the model, as far as the device's kernel supports it."""

    is_root: bool
    """Whether the agent, and so the worker, ran as root."""
    privileges: Safeguard
    """Safeguard that prevents programs from gaining privileges."""
    capabilities: Safeguard
    """Safeguard that removes root's capabilities from the worker."""
    calls: Safeguard
    """Safeguard that blocks system calls for sockets, programs and processes."""
    files: Safeguard
    network: Safeguard
    threads: Safeguard
    """Safeguard that limits the number of threads."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """All data that an agent keeps of a run, except the traces."""

    run_id: str
    owner: str
    """Identity of the host that started the run."""
    spec: RunSpec
    model: ModelFacts
    device: DeviceDescription
    environment: Environment
    outcome: Outcome
    worker: WorkerRecord | None = None
    """Record of the worker; None if the run failed before the first measurement."""
    error_code: int = 0
    error: str | None = None
    """Reason, on one line, why the run failed or why the device itself ended the run; else None."""
    load_1m_after: float | None = None
    telemetry: TelemetryFacts = field(default_factory=TelemetryFacts)
    expected: Expectation = field(default_factory=Expectation)
    """Expectations of the device's profile at the time of the run."""
    cooldown: CooldownFacts = field(default_factory=CooldownFacts)
    events: tuple[Event, ...] = field(default_factory=tuple)
    metered: MeterFacts | None = None
    """Facts of the meter at the device; None if the specification names no meter."""
    emulated: bool = False
    simulated: bool = False
    time_scale: float | None = None
    """Seconds of simulated heating and cooling per second of the run; None for real devices, and
    from older agents."""
    confinement: Confinement | None = None
    """Confinement of the worker; None if no worker was confined yet, or if the agent is too old to
    report it."""
    target: TargetRecord | None = None
    """Record of a device that timed its inferences itself; `worker` is None for such a device. None
    for all other devices."""

    @property
    def has_measured(self) -> bool:
        """Whether the record has measurements, of a worker or of a target."""
        return self.worker is not None or self.target is not None
