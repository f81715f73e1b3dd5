"""Facts of a run that only the host knows; kept with the raw files, so that it can be verified."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgebench.host.result.energy import SyncMethod
from edgebench.host.result.outputs import ReferenceAccuracy
from edgebench.meters.uncertainty import Unit

SET_PREFIX = "set-"
"""Ids of sets begin with it, except those of the sides of a comparison; no id of a run has it."""
PAIRS_PREFIX = "pairs-"
"""Ids of comparisons in pairs begin with it."""
BASELINE, CANDIDATE = "baseline", "candidate"
"""Sides of a comparison in pairs."""


def side_id(comparison_id: str, side: str) -> str:
    """Id of the set that the runs of one side of a comparison make.

    >>> side_id("pairs-1f2e3d4c", BASELINE)
    'pairs-1f2e3d4c-baseline'
    """
    return f"{comparison_id}-{side}"


def is_pairs_id(name: str) -> bool:
    """Whether a name is the id of a comparison in pairs, or of one of its sides."""
    return name.startswith(PAIRS_PREFIX)


@dataclass(frozen=True, slots=True)
class Pair:
    """Place of a run in a comparison."""

    comparison_id: str
    number: int
    """Position among the pairs, from 0."""
    side: str
    """`baseline` or `candidate`."""


@dataclass(frozen=True, slots=True)
class SetMember:
    """Place of a run in a set: the runs of one model that one command made."""

    set_id: str
    number: int
    """Position among the runs of the set, from 0."""
    count: int
    """Runs that the set was planned with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What the user says of a file of power, because the file itself does not."""

    time: str | None = None
    """Name of the column of the time; None: as the file has it."""
    power: str | None = None
    current: str | None = None
    voltage: str | None = None
    supply_v: float | None = None
    """Voltage of a file that has a current only."""
    rate_hz: float | None = None
    """Samples a second of a file without times."""
    is_averaging: bool | None = None
    """Whether samples are means over their intervals; None: as the kind of file is known for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRequest:
    """File of an instrument that edgebench did not drive, and how it is read and placed."""

    name: str
    sha256: str
    options: ImportOptions = field(default_factory=ImportOptions)
    gain_ratio: float | None = None
    """Largest error of the gain, as its data sheet has it; None: not stated."""
    offset: float | None = None
    """Largest offset, in `offset_unit`; None: not stated."""
    offset_unit: Unit = Unit.WATT
    instrument: str | None = None
    """Name of the instrument: two files that have the same name share its errors."""
    reference_ns: int = 0
    """Device time of the load codes' middle, where they were found in the file."""
    offset_ns: float = 0.0
    """File's clock less the device's at that place."""
    slope: float = 0.0
    """Rate of the file's clock relative to the device's, less 1."""
    smoothing_s: float = 0.0
    """Time constant by which the instrument smears changes, as its load codes show."""
    noise_w: float = 0.0
    """Standard deviation of a sample, as successive ones show while the device is idle."""
    resolution_w: float = 0.0
    """Smallest difference between two values of the power."""

    @property
    def folder(self) -> str:
        """Directory of the file under raw/, which is its own."""
        return f"trace-{self.sha256[:12]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnergyRequest:
    """Energy that the user wants: its meter, and how it is measured."""

    meter: str
    """Meter as the user wrote it; `agent:NAME` for one that the device's agent serves."""
    sync: SyncMethod | None = None
    """The only way in which the meter's clock may be aligned with the device's; None: the best."""
    battery_capacity_j: float | None = None
    """Capacity of a battery, to estimate its life."""
    idle_duration_s: float | None = None
    """Idle time before and after each run; None: as the meter needs it."""
    trace: TraceRequest | None = None
    """File that the power is read from; None: a meter that edgebench drove."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Facts that the host knows and the device does not."""

    dataset: str | None = None
    """Name of the labelled data set."""
    metric: str | None = None
    """Metric by which its labels judge the outputs."""
    reference: ReferenceAccuracy | None = None
    pair: Pair | None = None
    member: SetMember | None = None
    """Place in a set; None for a run on its own."""
    ambient_c: float | None = None
    """Temperature of the air, stated by the operator."""
    inputs: str | None = None
    """Name of the file with the inputs; None: they were drawn."""
    energy: EnergyRequest | None = None
    """Request for a meter; None where no energy was wanted."""
