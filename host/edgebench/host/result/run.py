"""The result of a run: these types define the schema of run.json.

A higher `SCHEMA_VERSION` may add keys; keys that scripts rely on are never renamed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from edgebench.host.result.facts import CommandFacts, Pair, SetMember, side_id
from edgebench.host.result.keys import key
from edgebench.host.result.marks import ResultMarks, marks_of
from edgebench.host.result.measured import Metrics
from edgebench.host.result.metrics import headline
from edgebench.host.result.settings import EffectiveSettings
from edgebench.host.result.verdict import State, Verdict
from edgebench.protocol.clock import ClockModel
from edgebench.protocol.device import DeviceDescription, Environment
from edgebench.protocol.record import (
    Confinement,
    FirmwareFacts,
    MeterFacts,
    ModelFacts,
    Moment,
    OperatorPlacement,
    Phase,
    RuntimeFacts,
    Scheduling,
    SyncFacts,
    TensorSpec,
    TimedPathFacts,
    Yardstick,
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
    """How the kernel scheduled the worker; None only in a failed run."""
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
    """Maps each missing sensor to the reason why it is missing."""
    clock: ClockModel | None
    yardstick: Yardstick | None = None
    """Speed of the device before and after the run, measured with a fixed amount of work. None in a
    failed run, for a target that timed itself, and from older agents."""
    marks: SyncFacts = field(default_factory=SyncFacts)
    metered: MeterFacts | None = None
    output_sha256: str | None
    """SHA-256 of the outputs; None only in a failed run."""
    inputs_file: str | None = None
    """Name of the input file; None if the inputs are random."""
    inputs: tuple[TensorSpec, ...]
    inputs_clipped_ratio: float | None = None
    """Fraction of values in the input file that quantisation clips. If there are several inputs,
    the largest fraction counts. None if no input was quantised."""
    outputs: tuple[TensorSpec, ...]
    timed_path: TimedPathFacts | None = None
    """Comparison of the outputs of timed calls with the outputs of the checks. None in a failed or
    stopped run, for a target that timed itself, and from older agents."""
    power_source: str | None
    ambient_c: float | None = None
    supply_v: float | None = None
    """Supply voltage that the meter set for the device, from --supply or from an option of the
    meter. None if the meter set no voltage."""
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
    """Position in a set; None for a run outside a set, and in schema version 6 and older."""
    command: CommandFacts | None = None
    """The command that made the run; None for a run of a campaign, and from older versions."""
    simulated: bool
    emulated: bool
    time_scale: float | None = None
    """Rate at which a simulated device heats up and cools down, relative to real time; None for
    other devices, and from older agents."""
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
    """SHA-256 of every other file of the run, keyed by the path relative to the run's directory."""
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
        """Verdict on the run's headline; the verdict on the run also includes all other numbers."""
        return self.verdict.state_of(headline(self).kind)

    @property
    def marks(self) -> ResultMarks:
        """Marks of the run's numbers; the state is that of its headline."""
        return marks_of(
            self.verdict,
            headline(self).kind,
            has_failed=self.failure is not None,
            simulated=self.simulated,
            emulated=self.emulated,
            energy=self.metrics.energy,
        )
