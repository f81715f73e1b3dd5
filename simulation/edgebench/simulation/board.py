"""What a simulated board is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from edgebench.simulation.controllers import Controller
from edgebench.simulation.heat import Body

Files = Mapping[str, str | bytes]


@dataclass(frozen=True, slots=True)
class Policy:
    """CPUs that share a clock; named by the first of them."""

    cpus: range
    highest_khz: int
    mode_khz: int | None = None
    """What a power mode allows; None: the highest."""

    @property
    def nominal_khz(self) -> int:
        """What it runs at while nothing slows it down."""
        return self.mode_khz or self.highest_khz


@dataclass(frozen=True, slots=True)
class SimulatedZone:
    """A thermal zone; all zones of a board show the same temperature."""

    kind: str
    trip_c: float | None = None
    """Passive, bound to the board's cooling devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedBoard:
    """One board."""

    name: str
    compatible: tuple[str, ...] = ()
    """Of its device tree; decides which profile it has. Empty: it has none."""
    zones: tuple[SimulatedZone, ...]
    policies: tuple[Policy, ...]
    controller: Callable[[int], Controller]
    """From a seed."""
    cooling: tuple[str, ...] = ()
    """Types of the cooling devices; all are in the same state."""
    has_videocore: bool = False
    """Firmware that is asked by vcgencmd, and its alarm of the supply."""
    has_soctherm: bool = False
    """Counters of over-current events."""
    extra: Files = field(default_factory=dict[str, str | bytes])
    """What else it shows, and never changes."""
    body: Body
    ambient_c: float = 25.0
    idle_w: float = 2.0
    busy_w: float
    """On top of it, at full clock."""
    time_scale: float = 20.0
    """Simulated seconds in a real one; slower where it is not heat that slows the board down."""
