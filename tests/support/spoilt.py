"""What an instrument reports of a run, and the ways in which such a report is spoilt.

A fault changes the readings before they are encoded as the instrument does (meter_bytes.py,
meter_texts.py). A source has traits; a fault applies to the sources that have what it spoils.

Left out is what no reader could see, because a good recording may have the same values:

    a plug in steps of 0.1 W that ends at 1.8 W    a steady load of 1.8 W
    an offset that leaves the idle power positive  a device with another idle power
    a microcontroller's power by 1,000             one of the microwatts that slow ones take
    a counter at the end of its range              a counter has none but the one at which it wraps
    a current at full scale below the end that     a load of this current: the end of the range is
    the driver declares                            known
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Trait(Enum):
    """What a source has that can be spoilt."""

    COUNTER = "energy counter"
    POWER = "power of its own"
    CURRENT = "current and voltage"
    REDUNDANT = "power beside current and voltage"
    UNIT = "unit that a firmware, a file or a user states"
    ERROR = "value that means no value"
    ROWS = "rows that can be lost or doubled"
    RAILS = "rails behind its input"
    SIGN = "sign"
    NOISE = "values that scatter by more than a digit"
    TINY = "power of which another device of the class takes a thousandth"


def trait_set(*traits: Trait) -> frozenset[Trait]:
    """Traits of a source."""
    return frozenset(traits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Report of an instrument, before it is encoded; every array has the shape (n,)."""

    time_s: Floats
    """Ends of the intervals, or the instants, on the device's clock."""
    power_w: Floats
    current_a: Floats
    voltage_v: Floats
    energy_j: Floats
    """Energy since the beginning."""
    is_error: NDArray[np.bool_]
    """Whether the instrument reports that it has no value."""
    rows: NDArray[np.int64]
    """Rows in the order in which they arrive."""
    part_ratio: float = 0.3
    """Share of the power that each rail behind the input takes."""

    @classmethod
    def of(cls, time_s: Floats, power_w: Floats, energy_j: Floats, supply_v: float) -> Readings:
        """Readings of an instrument that works."""
        count = len(time_s)
        return cls(
            time_s=time_s,
            power_w=power_w,
            current_a=power_w / supply_v,
            voltage_v=np.full(count, supply_v),
            energy_j=energy_j,
            is_error=np.zeros(count, np.bool_),
            rows=np.arange(count),
        )

    def scaled(self, factors: Floats | float) -> Readings:
        """Readings with this multiple of power and current."""
        return replace(self, power_w=self.power_w * factors, current_a=self.current_a * factors)

    def at(self, place: NDArray[np.int64]) -> Readings:
        """Readings with the values of these rows; times and energies stay."""
        return replace(
            self,
            power_w=self.power_w[place],
            current_a=self.current_a[place],
            voltage_v=self.voltage_v[place],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """The run beside which a spoilt instrument records, and the limits of the instrument."""

    loop_s: tuple[float, float]
    """Begin and end of the timed loop."""
    idle_w: float
    work_w: float
    full_w: float
    """Power at the end of the instrument's range."""
    has_ranges: bool = False
    """Whether the end of each of several ranges is known: it clips nowhere else."""
    counter_range_j: float
    """Energy at which the counter wraps by its own statement."""

    def rows(self, readings: Readings, share: float, begin: float = 0.4) -> NDArray[np.bool_]:
        """Rows in a share of the loop, from this part of it on; at least one."""
        first_s, last_s = self.loop_s
        from_s = first_s + begin * (last_s - first_s)
        is_in = (readings.time_s > from_s) & (
            readings.time_s <= from_s + share * (last_s - first_s)
        )
        if not is_in.any():
            is_in[np.searchsorted(readings.time_s, from_s) % len(is_in)] = True
        return is_in


@dataclass(frozen=True, slots=True)
class Fault:
    """A way to spoil readings."""

    name: str
    traits: frozenset[Trait]
    """Traits of which a source needs one."""
    spoil: Callable[[Readings, Scene], Readings]
    unseen_with: frozenset[Trait] = frozenset()
    """Traits of sources in which no reader could see the fault."""

    def applies_to(self, traits: frozenset[Trait]) -> bool:
        """Whether a source with these traits can have the fault, and a reader could see it."""
        return bool(self.traits & traits) and not self.unseen_with & traits


ANY_POWER = (Trait.POWER, Trait.CURRENT)


def _zeros(share: float) -> Callable[[Readings, Scene], Readings]:
    return lambda readings, scene: readings.scaled(np.where(scene.rows(readings, share), 0.0, 1.0))


def _scaled(factor: float) -> Callable[[Readings, Scene], Readings]:
    return lambda readings, scene: replace(
        readings.scaled(factor), energy_j=readings.energy_j * factor
    )


def _power_scaled(factor: float) -> Callable[[Readings, Scene], Readings]:
    return lambda readings, scene: replace(readings, power_w=readings.power_w * factor)


def _offset(readings: Readings, scene: Scene) -> Readings:
    """An offset by which the idle power seems negative; a smaller one cannot be seen."""
    offset_w = 1.2 * scene.idle_w
    return replace(
        readings,
        power_w=readings.power_w - offset_w,
        current_a=readings.current_a - offset_w / readings.voltage_v,
    )


def _frozen(begin_share: float) -> Callable[[Readings, Scene], Readings]:
    """Values that never change from this part of the recording on, the counter's too."""

    def spoil(readings: Readings, scene: Scene) -> Readings:
        first = round(begin_share * (len(readings.time_s) - 1))
        place = np.minimum(np.arange(len(readings.time_s)), first)
        return replace(readings.at(place), energy_j=readings.energy_j[place])

    return spoil


def _held(begin: float, end: float) -> Callable[[Readings, Scene], Readings]:
    """Rows between these parts of the loop repeat the last value before them.

    A value that is held from before the loop on is one of the idle time; the warm-up is before it.
    """

    def spoil(readings: Readings, scene: Scene) -> Readings:
        first_s, last_s = scene.loop_s
        length_s = last_s - first_s
        edges_s = (first_s + begin * length_s, first_s + end * length_s)
        first, last = np.searchsorted(readings.time_s, edges_s).tolist()
        place = np.arange(len(readings.time_s))
        place[first:last] = max(0, first - 1)
        return readings.at(place)

    return spoil


def _clipped(ratio: float) -> Callable[[Readings, Scene], Readings]:
    def spoil(readings: Readings, scene: Scene) -> Readings:
        end_w = ratio * scene.work_w
        if scene.has_ranges:  # the device takes as much more
            readings, end_w = readings.scaled(scene.full_w / end_w), scene.full_w
        return replace(
            readings,
            power_w=np.minimum(readings.power_w, end_w),
            current_a=np.minimum(readings.current_a, end_w / readings.voltage_v),
        )

    return spoil


def _full_scale(share: float) -> Callable[[Readings, Scene], Readings]:
    def spoil(readings: Readings, scene: Scene) -> Readings:
        is_stuck = scene.rows(readings, share)
        full_a = scene.full_w / readings.voltage_v
        return replace(
            readings,
            power_w=np.where(is_stuck, scene.full_w, readings.power_w),
            current_a=np.where(is_stuck, full_a, readings.current_a),
        )

    return spoil


def _swapped(readings: Readings, scene: Scene) -> Readings:
    return replace(readings, current_a=readings.voltage_v, voltage_v=readings.current_a)


def _errors(share: float) -> Callable[[Readings, Scene], Readings]:
    return lambda readings, scene: replace(readings, is_error=scene.rows(readings, share))


def _lost(share: float) -> Callable[[Readings, Scene], Readings]:
    return lambda readings, scene: replace(
        readings, rows=readings.rows[~scene.rows(readings, share)]
    )


def _doubled(share: float) -> Callable[[Readings, Scene], Readings]:
    return lambda readings, scene: replace(
        readings, rows=np.repeat(readings.rows, 1 + scene.rows(readings, share))
    )


def _part_of(ratio: float) -> Callable[[Readings, Scene], Readings]:
    """The input's place has one of the rails behind it, which take more than it."""
    return lambda readings, scene: replace(
        readings.scaled(ratio), part_ratio=readings.part_ratio / ratio
    )


def _from_the_middle(
    change: Callable[[Floats, float, Scene], Floats],
) -> Callable[[Readings, Scene], Readings]:
    """A counter that is changed in the middle of the loop, where it has this value."""

    def spoil(readings: Readings, scene: Scene) -> Readings:
        middle_s = sum(scene.loop_s) / 2
        middle_j = float(np.interp(middle_s, readings.time_s, readings.energy_j))
        return replace(readings, energy_j=change(readings.energy_j, middle_j, scene))

    return spoil


def _wrapping(ratio: float) -> Callable[[Floats, float, Scene], Floats]:
    """A counter that wraps in the middle, at this multiple of the range that it states."""

    def change(energy_j: Floats, middle_j: float, scene: Scene) -> Floats:
        end_j = ratio * scene.counter_range_j
        wrapped: Floats = (energy_j - middle_j + end_j) % end_j
        return wrapped

    return change


def _restarted(energy_j: Floats, middle_j: float, scene: Scene) -> Floats:
    return np.where(energy_j < middle_j, energy_j, energy_j - middle_j)


def _jumping(jump_j: float) -> Callable[[Floats, float, Scene], Floats]:
    return lambda energy_j, middle_j, scene: energy_j + jump_j * (energy_j >= middle_j)


def _fault(
    name: str,
    traits: tuple[Trait, ...],
    spoil: Callable[[Readings, Scene], Readings],
    unseen_with: tuple[Trait, ...] = (),
) -> Fault:
    return Fault(name, frozenset(traits), spoil, frozenset(unseen_with))


FAULTS = (
    _fault("dead from the beginning", (*ANY_POWER, Trait.COUNTER), _frozen(0.0)),
    _fault("dead from the middle on", (*ANY_POWER, Trait.COUNTER), _frozen(0.5)),
    _fault("zeros, all", ANY_POWER, _scaled(0.0)),
    _fault("zeros, 2.5 % of the loop", ANY_POWER, _zeros(0.025)),
    _fault("zeros, 10 % of the loop", ANY_POWER, _zeros(0.1)),
    _fault("held, 10 % of the loop", (Trait.NOISE,), _held(0.4, 0.5)),
    _fault("held from before the loop on", (Trait.NOISE,), _held(-0.25, 0.2)),
    _fault("unit, times 1,000", (Trait.UNIT,), _scaled(1000.0)),
    _fault("unit, by 1,000", (Trait.UNIT,), _scaled(1e-3), (Trait.TINY,)),
    _fault("unit of the power alone, times 1,000", (Trait.REDUNDANT,), _power_scaled(1000.0)),
    _fault("unit of the power alone, by 1,000", (Trait.REDUNDANT,), _power_scaled(1e-3)),
    _fault("another rail than the input", (Trait.RAILS,), _part_of(0.3)),
    _fault("clipped at 90 %", (Trait.NOISE,), _clipped(0.9)),
    _fault("clipped at 60 %", (Trait.NOISE,), _clipped(0.6)),
    _fault("reversed", (Trait.SIGN,), _scaled(-1.0)),
    _fault("current and voltage swapped", (Trait.CURRENT,), _swapped),
    _fault("offset below zero", (Trait.SIGN,), _offset),
    _fault("error value, 5 % of the loop", (Trait.ERROR,), _errors(0.05)),
    _fault("error value, 50 % of the loop", (Trait.ERROR,), _errors(0.5)),
    _fault("rows lost, 5 % of the loop", (Trait.ROWS,), _lost(0.05)),
    _fault("rows lost, 30 % of the loop", (Trait.ROWS,), _lost(0.3)),
    _fault("rows doubled, all of the loop", (Trait.ROWS,), _doubled(1.0)),
    _fault("rows doubled, 10 % of the loop", (Trait.ROWS,), _doubled(0.1)),
    _fault("at full scale, 10 % of the loop", (Trait.CURRENT,), _full_scale(0.1)),
    _fault("at full scale, the second half", (Trait.CURRENT,), _full_scale(0.6)),
    _fault("counter wraps early", (Trait.COUNTER,), _from_the_middle(_wrapping(0.524))),
    _fault("counter wraps late", (Trait.COUNTER,), _from_the_middle(_wrapping(2.0))),
    _fault("counter restarts", (Trait.COUNTER,), _from_the_middle(_restarted)),
    _fault("counter jumps by 2^32 uJ", (Trait.COUNTER,), _from_the_middle(_jumping(4294.967))),
)
