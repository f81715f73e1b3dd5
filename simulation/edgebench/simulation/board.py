"""The description of a simulated board."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from edgebench.simulation.controllers import Controller
from edgebench.simulation.heat import Body

Files = Mapping[str, str | bytes]


@dataclass(frozen=True, slots=True)
class Policy:
    """A cpufreq policy: CPUs that share a clock; the first CPU's number is the policy's number."""

    cpus: range
    highest_khz: int
    mode_khz: int | None = None
    """Highest clock that the power mode allows; None: `highest_khz`."""

    @property
    def nominal_khz(self) -> int:
        """Clock without throttling."""
        return self.mode_khz or self.highest_khz


@dataclass(frozen=True, slots=True)
class SimulatedZone:
    """A thermal zone; all zones of a board show the same temperature."""

    kind: str
    trip_c: float | None = None
    """Passive trip point, bound to the board's cooling devices; None: no trip point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedBoard:
    """A kind of board, with its files, thermal properties and controller."""

    name: str
    compatible: tuple[str, ...] = ()
    """`compatible` entries of the board's device tree, by which the board's profile is selected;
    empty without a device tree."""
    zones: tuple[SimulatedZone, ...]
    policies: tuple[Policy, ...]
    controller: Callable[[int], Controller]
    """Function that creates the board's controller from a seed."""
    cooling: tuple[str, ...] = ()
    """Types of the cooling devices; all are in the same state."""
    has_videocore: bool = False
    """Whether the board has the firmware that vcgencmd queries, and an alarm for low supply
    voltage."""
    has_soctherm: bool = False
    """Whether the board has counters of over-current events."""
    extra: Files = field(default_factory=dict[str, str | bytes])
    """Additional files with constant content."""
    body: Body
    ambient_c: float = 25.0
    idle_w: float = 2.0
    busy_w: float
    """Power at full clock, in addition to idle_w."""
    time_scale: float = 20.0
    """Simulated seconds per real second; lower for boards that are not throttled by heat."""
