"""The description of a simulated board."""

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
    """Highest clock that the power mode allows; None: `highest_khz`."""

    @property
    def nominal_khz(self) -> int:
        """Clock while nothing slows the CPUs down."""
        return self.mode_khz or self.highest_khz


@dataclass(frozen=True, slots=True)
class SimulatedZone:
    """A thermal zone; all zones of a board show the same temperature."""

    kind: str
    trip_c: float | None = None
    """Passive trip point, bound to the board's cooling devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedBoard:
    """One board."""

    name: str
    compatible: tuple[str, ...] = ()
    """`compatible` entries of its device tree, which choose its profile; empty: it has no tree."""
    zones: tuple[SimulatedZone, ...]
    policies: tuple[Policy, ...]
    controller: Callable[[int], Controller]
    """Maker of its controller, from a seed."""
    cooling: tuple[str, ...] = ()
    """Types of the cooling devices; all are in the same state."""
    has_videocore: bool = False
    """Whether it has the firmware behind vcgencmd, and its alarm of the supply."""
    has_soctherm: bool = False
    """Whether it has counters of over-current events."""
    extra: Files = field(default_factory=dict[str, str | bytes])
    """Further files, which never change."""
    body: Body
    ambient_c: float = 25.0
    idle_w: float = 2.0
    busy_w: float
    """Power in addition to it, at full clock."""
    time_scale: float = 20.0
    """Simulated seconds per real second; less where it is not heat that slows the board down."""
