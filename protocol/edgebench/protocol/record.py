"""What an agent records of one run; the host computes everything else from it and the traces."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from edgebench.protocol.device import DeviceDescription, Environment
from edgebench.protocol.spec import RunSpec

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

    STARTING = "starting"
    LOADING = "loading"
    WARMING_UP = "warming_up"
    MEASURING = "measuring"
    SPOOLING = "spooling"


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Name, shape and element type of a model input or output."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The artifact that was measured."""

    name: str
    sha256: str
    format: str
    size_bytes: int
    precision: str | None = None
    """int8, uint8, fp32, …, or None where the file does not tell."""


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


@dataclass(frozen=True, slots=True)
class HarnessFacts:
    """Cost of the timed loop itself, measured with a call that does nothing, nanoseconds."""

    p50_ns: int
    """Median of what the loop reports as latency for a call that does nothing."""
    per_query_ns: float
    """Wall time of the loop per query for a call that does nothing."""


@dataclass(frozen=True, slots=True)
class OutputFacts:
    """What the model answered."""

    sha256: str
    """Digest over the bytes of all outputs after the timed loop."""
    is_finite: bool
    """No NaN and no infinity in any output, before and after the timed loop."""


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
    cpu_affinity: tuple[int, ...]
    monotonic_ns: tuple[int, int]
    """Monotonic clock around the timed loop."""
    wall_ns: tuple[int, int]
    """Wall clock at the same two moments, to check one against the other."""
    involuntary_switch_count: int
    """Context switches forced on the worker during the timed loop."""
    background_busy_ratio: float | None
    """Share of all CPU time during the timed loop that others took, 0…1; None where the kernel
    does not tell."""


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
    """One line, when the outcome is failed."""
    load_1m_after: float | None = None
    telemetry_absent: tuple[AbsentSensor, ...] = ()
    events: tuple[Event, ...] = field(default_factory=tuple)
    emulated: bool = False
    simulated: bool = False
