"""Types of the computed numbers of a run, which are under `metrics` in run.json."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgebench.host.result.energy import EnergyResult
from edgebench.host.result.keys import key
from edgebench.host.result.latency import (
    EarlyStopping,
    LatencySummary,
    LoadgenResult,
    Outliers,
    Stability,
    WarmupCut,
)
from edgebench.host.result.outputs import Accuracy, Agreement
from edgebench.host.result.thermal import ThermalResult
from edgebench.host.result.windows import TargetMemoryBytes, WindowSummary
from edgebench.protocol.record import OperatorTime


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
    """Time that loop and binding add to an invocation, computed as `p50` minus `c_p50`."""
    unavailable: str | None
    """Why there are no medians."""


@dataclass(frozen=True, slots=True)
class HarnessNs:
    """Overhead of the timed loop, measured with empty calls, nanoseconds."""

    p50: int
    per_query: float
    end_to_end_p50: int = 0
    binding: BindingNs | None = None
    """Overhead of the binding; None from older agents, and for interrupted runs."""
    clock_step: float | None = None
    """Step (resolution) of the clock, nanoseconds, from readings before the run
    (`environment.clock`) and from the durations. Each percentile may be wrong by up to a step; its
    interval allows for this error. Null if the step is below 8 ns."""


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """Time of each operator of the model, with the unprofiled latency for comparison."""

    run_count: int
    operators: tuple[OperatorTime, ...]
    sum_ns_per_inference: float | None
    unprofiled_p50_ns: int | None
    """Median latency of an inference without the profiler. If the target is emulated, this latency
    and the times of the operators are in virtual time."""
    error: str | None
    sum_instructions_per_inference: float | None = None
    """Instructions of an inference, summed over the operators; None unless the target is emulated
    and its instructions are counted."""
    unprofiled_instructions: float | None = None
    """Instructions of an inference on the same input without the profiler; None unless instructions
    are counted."""
    sum_cycles_per_inference: float | None = None
    """Cycles of an inference, summed over the operators; None unless the target counts cycles of
    its processor."""
    resolution_ns: float | None = None
    """Period of a target's counter, which is the largest error of an operator's time in a run."""
    reading_ns: float | None = None
    """Time that it takes to read the target's counter. The times of the operators do not include
    a reading; the time of each unprofiled inference includes one reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """The computed numbers; null if a quantity was not measured."""

    latency_ns: LatencySummary | None = None
    """Latency of invocations; None for a profile, because profiling slows the run down."""
    end_to_end_ns: LatencySummary | None = None
    """Latency of queries; None for a profile, and in scenarios in which a query is an
    invocation."""
    throughput_per_s: float | None
    early_stopping: EarlyStopping | None = None
    outliers: Outliers | None = None
    stability: Stability | None = None
    """Variation of the latencies; None for a profile, and in runs of schema version 6 and older."""
    warmup: WarmupCut | None
    """Excluded warm-up. This key and the next three are always present; they are null only in a
    failed run, or for a target that timed itself."""
    cold_start_ns: ColdStartNs | None
    memory_bytes: MemoryBytes | None
    harness_ns: HarnessNs | None
    accuracy: Accuracy | None = None
    agreement: Agreement | None = None
    loadgen: LoadgenResult | None = None
    thermal: ThermalResult | None = None
    profile: ProfileResult | None = None
    energy: EnergyResult | None = None
    """Energy of the run, or why it is refused; None if no energy measurement was requested."""
    instructions_per_inference: float | None = None
    """Instructions per inference, median over the windows of an emulated target; None for other
    devices."""
    windows: WindowSummary | None = None
    """Windows of a target that timed itself; None for a device that ran the timed loop."""
    target_memory_bytes: TargetMemoryBytes | None = None
    upload_s: float | None = None
    """Upload time of the model to the target; None if the model was there already."""
