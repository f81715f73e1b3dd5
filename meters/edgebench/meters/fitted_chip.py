"""Steps, limits and uncertainty of a power-monitor chip with its shunt on a board.

The step of power is a multiple of the chip's step of current. Old kernels fix the step of current
at 1 mA, new kernels derive it from the shunt. A value of power that was read shows which of the two
steps applies. If the value is a multiple of the step of old kernels, the coarser of the two steps
is assumed.

A saturated converter shows its highest code, which is one step below its nominal full scale. hwmon
rounds the current of this code to whole mA. So a current counts as saturated if it is at most half
a step, or half a mA, below the highest value that can be read.

Source: linux, drivers/hwmon/{ina2xx,ina238,ina3221,tsc1641}.c
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from edgebench.meters.chips import Chip
from edgebench.meters.uncertainty import Kind, Origin, UncertaintyTerm, Unit, term

_POWERS_PER_ENERGY = 16
"""Steps of power per step of energy: energy_lsb of linux ina238.c."""
SHUNT_TOLERANCE_RATIO = 0.01
"""Tolerance of a board's resistor; NVIDIA, Jetson AGX Xavier Series Product DG-09840, figure 5-14:
0.005 Ω, 1 %."""
SYSFS_CURRENT_STEP_A = 1e-3
"""curr*_input is in whole mA, regardless of the chip's resolution."""
SYSFS_VOLTAGE_STEP_V = 1e-3
"""in*_input is in whole mV."""
_KERNEL_STEP_A = 1e-6
"""Resolution in which the hwmon drivers store the step of current: whole uA."""

_OFF_V, _ASSUMED_V = 0.5, 5.0
_SHUNT = term(Kind.GAIN, SHUNT_TOLERANCE_RATIO, "tolerance of the shunt resistor")


def voltage_when_on(voltage_v: float) -> float:
    """Voltage for converting errors from A to W; 5 V is assumed if the rail is off now."""
    return voltage_v if voltage_v > _OFF_V else _ASSUMED_V


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedChip:
    """A chip with its shunt on a board."""

    chip: Chip
    shunt_ohm: float
    voltage_v: float
    """Voltage of the rail when the meter was opened; converts errors from A to W."""
    is_shunt_known: bool = True

    @property
    def limit_a(self) -> float | None:
        """Current at which the converter saturates; None: unknown."""
        return (self.chip.highest_code - 0.5) * self.current_step_a if self.is_shunt_known else None

    @property
    def sysfs_limit_a(self) -> float | None:
        """Current at which curr*_input shows a saturated converter; None: unknown.

        Kernels show different values for a saturated converter. Some kernels round the current,
        others truncate it, and the rounding of the step also differs. The result is half a mA below
        the lowest of these values.
        """
        if not self.is_shunt_known:
            return None
        highest_a = self.chip.highest_code * min(self._kernel_steps_a())
        shown = math.floor(round(highest_a / SYSFS_CURRENT_STEP_A, 6))
        return (shown - 0.5) * SYSFS_CURRENT_STEP_A

    @property
    def sysfs_limit_v(self) -> float:
        """Voltage across the shunt at which in*_input, in whole mV, shows a saturated converter."""
        highest_v = self.chip.highest_code * self.chip.shunt_step_v
        return (math.floor(round(highest_v / SYSFS_VOLTAGE_STEP_V, 6)) - 0.5) * SYSFS_VOLTAGE_STEP_V

    @property
    def energy_step_j(self) -> float:
        """Step of the energy counter, for chips that have an energy counter."""
        return _POWERS_PER_ENERGY * self.chip.power_factor_v * self.current_step_a

    def _kernel_steps_a(self) -> Iterator[float]:
        """Yield the exact step of current, then the step as rounded by new and by old kernels."""
        exact_a, steps = self.current_step_a, self.chip.kernel_steps
        yield exact_a
        yield max(_nearest(exact_a * steps / _KERNEL_STEP_A) // steps, 1) * _KERNEL_STEP_A
        if old_steps := self.chip.old_kernel_steps:
            calibration = max(_nearest(exact_a * old_steps / SYSFS_CURRENT_STEP_A), 1)
            yield calibration / old_steps * SYSFS_CURRENT_STEP_A

    @property
    def current_step_a(self) -> float:
        """Step of current that the chip resolves."""
        return self.chip.shunt_step_v / self.shunt_ohm

    def power_step_w(self, seen_w: float) -> float:
        """Step of the power register, inferred from a value that was read from it."""
        if self.chip.power_step_w is not None:
            return self.chip.power_step_w
        fine_w = self.chip.power_factor_v * self.current_step_a
        coarse_w = self.chip.power_factor_v * SYSFS_CURRENT_STEP_A
        is_multiple = abs(seen_w / coarse_w - round(seen_w / coarse_w)) < 1e-6
        return max(fine_w, coarse_w) if is_multiple else fine_w

    def terms(
        self, step: float, unit: Unit = Unit.WATT, *, note: str = ""
    ) -> tuple[UncertaintyTerm, ...]:
        """Uncertainty of the values, without the uncertainty of their timing.

        Args:
            step: Step of the values that are read.
            unit: Unit of the step: W, or J for an energy counter. An energy counter is read at the
                start and at the end of a measurement, and each reading is off by up to a step.
            note: Text to append to the reference of the resolution.
        """
        chip, where = self.chip, f"at {self.voltage_v:g} V across {self.shunt_ohm:g} ohm"
        offset_w = chip.offset_v / self.shunt_ohm * self.voltage_v
        terms = [
            self._term(Kind.GAIN, chip.gain_ratio),
            self._term(Kind.GAIN, chip.bus_gain_ratio, "voltage"),
            self._term(Kind.GAIN, chip.bus_offset_v / self.voltage_v, where),
            self._term(Kind.OFFSET, offset_w, where, Unit.WATT),
            # A half-width: the standard uncertainty of a step q is q / sqrt(12).
            self._term(Kind.RESOLUTION, step / 2, where + note, unit),
        ]
        if chip.shunt_ohm is None:
            terms.append(_SHUNT)
        return tuple(terms)

    def _term(
        self, kind: Kind, value: float, note: str = "", unit: Unit | None = None
    ) -> UncertaintyTerm:
        """Make a term from the data sheet.

        If the shunt is unknown, an absolute term is marked as assumed.
        """
        reference, origin = self.chip.reference, self.chip.origin
        if unit is not None and not self.is_shunt_known:
            reference, origin = f"shunt unknown; {reference}", Origin.ASSUMED
        return term(kind, value, f"{reference}; {note}" if note else reference, unit, origin=origin)


def with_gain(chip: Chip, gain: int | None) -> Chip:
    """Copy of the chip with the step size for a gain of its converter; None: full range."""
    if gain is None or chip.full_gain is None:
        return chip
    return replace(chip, shunt_step_v=chip.shunt_step_v * gain / chip.full_gain)


def with_amplifier(chip: Chip, gain: float) -> Chip:
    """Copy of the chip with the highest code for a gain of its amplifier.

    At a higher gain, the same steps cover a smaller range.
    """
    if chip.least_gain is None or gain <= chip.least_gain:
        return chip
    return replace(chip, highest_code=round(chip.highest_code * chip.least_gain / gain))


def _nearest(value: float) -> int:
    """Nearest whole number, rounded like the kernel's DIV_ROUND_CLOSEST."""
    return math.floor(value + 0.5)
