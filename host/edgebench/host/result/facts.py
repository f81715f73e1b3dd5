"""Facts about a run that only the host has; stored with the raw files for verification."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from edgebench.host.result.energy import SyncMethod
from edgebench.host.result.outputs import ReferenceAccuracy
from edgebench.meters.uncertainty import Unit

SET_PREFIX = "set-"
"""Prefix of the ids of sets, except the sides of a comparison; no run id starts with it."""
PAIRS_PREFIX = "pairs-"
"""Prefix of the ids of paired comparisons."""
BASELINE, CANDIDATE = "baseline", "candidate"
"""Sides of a paired comparison."""


def side_id(comparison_id: str, side: str) -> str:
    """Id of the set of runs on a side of a comparison.

    >>> side_id("pairs-1f2e3d4c", BASELINE)
    'pairs-1f2e3d4c-baseline'
    """
    return f"{comparison_id}-{side}"


def is_pairs_id(name: str) -> bool:
    """Whether a name is the id of a comparison in pairs, or of one of its sides."""
    return name.startswith(PAIRS_PREFIX)


@dataclass(frozen=True, slots=True)
class Pair:
    """Position of a run in a paired comparison."""

    comparison_id: str
    number: int
    """Position among the pairs, from 0."""
    side: str
    """`baseline` or `candidate`."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A disturbed run of a set, which an extra run of the set replaces."""

    run_id: str
    """Id of the disturbed run, which stays in the store."""
    rules: tuple[str, ...]
    """Rules that the disturbed run failed because of the disturbance."""


@dataclass(frozen=True, slots=True)
class SetMember:
    """Position of a run in its set; a set is the runs of a model that one command made."""

    set_id: str
    number: int
    """Position among the runs of the set, from 0; an extra run has the position of the run that it
    replaces."""
    count: int
    """Number of runs planned for the set; runs that replace disturbed runs are not counted."""
    replaces: Replacement | None = None
    """The disturbed run that this extra run replaces; None for a planned run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Properties of a power file that the user states because the file lacks them."""

    time: str | None = None
    """Name of the time column; None selects the usual column of the file's format."""
    power: str | None = None
    current: str | None = None
    voltage: str | None = None
    supply_v: float | None = None
    """Supply voltage, for a file that contains only a current."""
    rate_hz: float | None = None
    """Sampling rate of a file without times, samples per second."""
    is_averaging: bool | None = None
    """Whether samples are means over their intervals; None selects the default of the file's
    format."""
    begin: str | None = None
    """Begin of the part to read, as the user wrote it; None selects the begin of the file."""
    until: str | None = None
    """End of the part to read, as the user wrote it; None selects the end of the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstrumentErrors:
    """Largest errors of an instrument according to its data sheet, as the user states them."""

    gain_ratio: float | None = None
    """Largest gain error, as a ratio; None if not stated."""
    offset: float | None = None
    """Largest offset, in `offset_unit`; None if not stated."""
    offset_unit: Unit = Unit.WATT


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """Power file that edgebench did not record, with its alignment and the options to read it."""

    name: str
    sha256: str
    options: ImportOptions = field(default_factory=ImportOptions)
    gain_ratio: float | None = None
    """Largest gain error according to the data sheet; None if not stated."""
    offset: float | None = None
    """Largest offset, in `offset_unit`; None if not stated."""
    offset_unit: Unit = Unit.WATT
    instrument: str | None = None
    """Name of the instrument; files with the same name share its errors."""
    reference_ns: int = 0
    """Time in the middle of the load codes found in the file, nanoseconds of the device's clock."""
    offset_ns: float = 0.0
    """Difference of the file's clock and the device's clock at `reference_ns`, nanoseconds."""
    slope: float = 0.0
    """Relative difference of the rate of the file's clock from the rate of the device's clock."""
    smoothing_s: float = 0.0
    """Time constant of the instrument's smoothing, seconds, estimated from the load codes."""
    noise_w: float = 0.0
    """Largest standard deviation of the samples of a channel while the device is idle, watts."""
    resolution_w: float = 0.0
    """Smallest difference between two power values, watts."""
    reading: tuple[dict[str, Any], ...] = ()
    """Notes on how the file was read, in the format of the header of an import."""

    @property
    def folder(self) -> str:
        """Name of the file's own directory under raw/."""
        return f"trace-{self.sha256[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyRequest:
    """Requested energy measurement, with the meter and its settings."""

    meter: str
    """The meter as the user wrote it; `agent:NAME` for a meter that the device's agent serves."""
    sync: SyncMethod | None = None
    """The only allowed method of aligning the meter's clock with the device's clock; None allows
    the best available method."""
    battery_capacity_j: float | None = None
    """Capacity of a battery, for an estimate of its life."""
    idle_duration_s: float | None = None
    """Idle time before and after each run; None selects the time that the meter needs."""
    trace: TraceRequest | None = None
    """Power file; None if edgebench drives the meter."""
    supply_v: float | None = None
    """Supply voltage that the meter sets for the device, from --supply or from an option in
    `meter`. None if the meter sets no voltage."""


@dataclass(frozen=True, slots=True)
class CommandFacts:
    """The `bench` command, or the call of the Python API, that made a run."""

    id: str
    """Id that all runs of the command share."""
    arguments: tuple[tuple[str, ...], ...] = ()
    """Models as the user named them, then each given option with its values; defaults are left
    out."""

    def __post_init__(self) -> None:
        # A file that was edited may have an argument without words.
        object.__setattr__(self, "arguments", tuple(filter(None, self.arguments)))

    @property
    def words(self) -> list[str]:
        """The command line, after `edgebench bench`."""
        return [word for words in self.arguments for word in words]


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts that the host has and the device lacks."""

    dataset: str | None = None
    """Name of the labelled data set."""
    metric: str | None = None
    """Metric that compares the outputs with the labels."""
    reference: ReferenceAccuracy | None = None
    pair: Pair | None = None
    member: SetMember | None = None
    """Position in a set; None for a run outside of a set."""
    command: CommandFacts | None = None
    """Command that made the run; None for a run of a campaign, and for runs of older versions."""
    ambient_c: float | None = None
    """Ambient temperature stated by the operator."""
    inputs: str | None = None
    """Name of the input file; None if the inputs are random."""
    energy: EnergyRequest | None = None
    """Requested energy measurement; None if none was requested."""
