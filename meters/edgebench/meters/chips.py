"""Power-monitor chips on I2C: what the numbers of their Linux drivers are worth.

Limits are those that the maker guarantees at 25 °C, where a data sheet was read; the others are
assumed, on the wide side, and say so. A step of power is the chip's multiple of its step of
current. Old kernels fix that at 1 mA and new ones derive it from the shunt: the value itself
tells which, and in doubt the step is the coarse one.

A converter that is at its end shows its highest code, one step below what is called its full
scale, and hwmon makes whole mA of that. So a current is at the end from half a step, or half a mA,
below the highest value that can be read.

Source: linux, drivers/hwmon/{ina2xx,ina238,ina3221,tsc1641}.c, for steps, codes, defaults and
averaging
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from edgebench.meters.uncertainty import Kind, Origin, UncertaintyTerm, Unit

DEFAULT_SHUNT_OHM = 0.010
"""INA2XX_RSHUNT_DEFAULT, INA238_RSHUNT_DEFAULT and INA3221_RSHUNT_DEFAULT of the kernel."""
SHUNT_TOLERANCE_RATIO = 0.01
"""Of the resistor that a board has; NVIDIA, Jetson AGX Xavier Series Product DG-09840, figure 5-14:
0.005 Ω, 1 %."""
SYSFS_CURRENT_STEP_A = 1e-3
"""curr*_input holds whole mA, whatever the chip resolves."""
_KERNEL_STEP_A = 1e-6
"""The hwmon drivers keep a step of current as whole uA."""

_OFF_V, _ASSUMED_V = 0.5, 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One kind of chip."""

    shunt_step_v: float
    highest_code: int
    """Of the current that is read, in such steps, as the kernel sets the chip up."""
    power_factor_v: float
    """Step of power over step of current."""
    gain_ratio: float
    offset_v: float
    bus_gain_ratio: float
    bus_offset_v: float
    update_s: float
    """Time for a new value, where the kernel has no update_interval."""
    reference: str
    origin: Origin = Origin.DATASHEET
    shunt_ohm: float | None = None
    """Of the one that is built in."""
    power_step_w: float | None = None
    """The same with any shunt."""
    kernel_steps: int = 1
    """Of current, that new kernels keep together as whole uA, and divide without a rest."""
    old_kernel_steps: int | None = None
    """That are whole mA with old ones, by a calibration that is a whole number."""
    voltage_file: str = "in1_input"
    """Of hwmon, for the voltage of the rail."""


_INA219 = Chip(
    shunt_step_v=10e-6,
    highest_code=32000,  # 320 mV: PGA /8, INA219_CONFIG_DEFAULT
    old_kernel_steps=4096,
    power_factor_v=20.0,
    gain_ratio=0.005,
    offset_v=200e-6,
    bus_gain_ratio=0.005,
    bus_offset_v=0.0,
    update_s=2 * 532e-6,
    reference="TI SBOS448G, 7.5, INA219A at PGA /8",
)
_INA226 = Chip(
    shunt_step_v=2.5e-6,
    highest_code=32767,
    old_kernel_steps=2048,
    power_factor_v=25.0,
    gain_ratio=0.001,
    offset_v=10e-6,
    bus_gain_ratio=0.001,
    bus_offset_v=7.5e-3,
    update_s=16 * 2.2e-3,
    reference="TI SBOS547B, electrical characteristics",
)
_INA230 = replace(
    _INA226,
    gain_ratio=0.005,
    offset_v=50e-6,
    bus_gain_ratio=0.005,
    bus_offset_v=15e-3,
    origin=Origin.ASSUMED,
    reference="steps of an INA226; limits assumed",
)
_INA238 = Chip(
    shunt_step_v=5e-6,
    highest_code=32764,  # 8191 of the coarse steps of older kernels, see below; 32767 of newer
    power_factor_v=0.8,  # 0.2, of a step that the kernel's calibration makes four times as coarse
    gain_ratio=0.001,
    offset_v=5e-6,
    bus_gain_ratio=0.001,
    bus_offset_v=5e-3,
    update_s=16 * 2 * 1052e-6,  # INA238_ADC_CONFIG_DEFAULT, without the temperature
    reference="TI SLYS026A, electrical characteristics",
)
_INA237 = replace(
    _INA238,
    gain_ratio=0.003,
    offset_v=50e-6,
    bus_gain_ratio=0.003,
    origin=Origin.ASSUMED,
    reference="as an INA238, less accurate; limits assumed",
)
CHIPS: dict[str, Chip] = {
    "ina219": _INA219,
    "ina220": replace(_INA219, origin=Origin.ASSUMED, reference="assumed to be as an INA219A"),
    "ina226": _INA226,
    "ina230": _INA230,
    "ina231": _INA230,
    "ina260": replace(
        _INA226,
        old_kernel_steps=None,  # its step is fixed
        power_factor_v=8.0,  # 10 mW for 1.25 mA
        gain_ratio=0.0015,
        shunt_ohm=0.002,
        reference="TI SBOS656C, electrical characteristics: 5 mA, 0.15 % with its own shunt",
    ),
    "ina228": replace(
        _INA238,
        shunt_step_v=312.5e-9,
        highest_code=524284,  # 20 bits; 131071 of the coarse steps
        kernel_steps=16,
        origin=Origin.ASSUMED,
        reference="limits of an INA238 assumed",
    ),
    "ina237": _INA237,
    "ina238": _INA238,
    "ina780": replace(
        _INA237,
        shunt_step_v=0.0004 * 2.4e-3,  # its step of current is fixed, without a calibration
        highest_code=32767,
        power_factor_v=0.2,
        gain_ratio=0.0075,
        shunt_ohm=0.0004,
        origin=Origin.ASSUMED,
        reference="steps of linux ina238.c; assumed to be as an INA745A, TI SBOSAC3A",
    ),
    "sq52206": replace(_INA237, reference="as an INA237; limits assumed"),
    "tsc1641": replace(
        _INA237,
        shunt_step_v=2.5e-6,
        highest_code=32767,
        gain_ratio=0.01,
        power_step_w=0.025,
        voltage_file="in0_input",  # has no file of the shunt's voltage
        update_s=1.024e-3,
        reference="steps of linux tsc1641.c; limits assumed",
    ),
    "ina3221": Chip(
        shunt_step_v=40e-6,
        highest_code=4095,
        power_factor_v=0.0,  # has no register of power
        gain_ratio=0.0025,
        offset_v=80e-6,
        bus_gain_ratio=0.0025,
        bus_offset_v=16e-3,
        update_s=3 * 2 * 1.1e-3,  # INA3221_CONFIG_DEFAULT
        reference="TI SBOS576A, electrical characteristics",
    ),
}
"""By the name that /sys/class/hwmon/hwmon*/name and .../iio:device*/name show, in small letters."""


def voltage_when_on(voltage_v: float) -> float:
    """Of a rail, to turn amperes of error into watts; one that is off now is taken for 5 V."""
    return voltage_v if voltage_v > _OFF_V else _ASSUMED_V


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A chip on its board."""

    chip: Chip
    shunt_ohm: float
    voltage_v: float
    """Of the rail, when the meter was opened: turns amperes of error into watts."""
    is_shunt_told: bool = True

    @property
    def limit_a(self) -> float | None:
        """From where on a current is at the converter's end, in its steps; None: not known."""
        return (self.chip.highest_code - 0.5) * self.current_step_a if self.is_shunt_told else None

    @property
    def sysfs_limit_a(self) -> float | None:
        """The same of curr*_input.

        Of kernels that round and that cut off, and of what they make of a step, the one that shows
        the least counts.
        """
        if not self.is_shunt_told:
            return None
        highest_a = self.chip.highest_code * min(self._kernel_steps_a())
        shown = math.floor(round(highest_a / SYSFS_CURRENT_STEP_A, 6))
        return (shown - 0.5) * SYSFS_CURRENT_STEP_A

    def _kernel_steps_a(self) -> Iterator[float]:
        """The step of current, as it is and as kernels round it."""
        exact_a, steps = self.current_step_a, self.chip.kernel_steps
        yield exact_a
        yield max(_nearest(exact_a * steps / _KERNEL_STEP_A) // steps, 1) * _KERNEL_STEP_A
        if old_steps := self.chip.old_kernel_steps:
            calibration = max(_nearest(exact_a * old_steps / SYSFS_CURRENT_STEP_A), 1)
            yield calibration / old_steps * SYSFS_CURRENT_STEP_A

    @property
    def current_step_a(self) -> float:
        """As the chip resolves it."""
        return self.chip.shunt_step_v / self.shunt_ohm

    def power_step_w(self, seen_w: float) -> float:
        """Step of the register of power, of which this value was seen."""
        if self.chip.power_step_w is not None:
            return self.chip.power_step_w
        fine_w = self.chip.power_factor_v * self.current_step_a
        coarse_w = self.chip.power_factor_v * SYSFS_CURRENT_STEP_A
        is_multiple = abs(seen_w / coarse_w - round(seen_w / coarse_w)) < 1e-6
        return max(fine_w, coarse_w) if is_multiple else fine_w

    def terms(self, step_w: float) -> tuple[UncertaintyTerm, ...]:
        """Everything but time."""
        chip, where = self.chip, f"at {self.voltage_v:g} V across {self.shunt_ohm:g} ohm"
        offset_w = chip.offset_v / self.shunt_ohm * self.voltage_v
        terms = [
            self._term(Kind.GAIN, chip.gain_ratio, Unit.RATIO),
            self._term(Kind.GAIN, chip.bus_gain_ratio, Unit.RATIO, "voltage"),
            self._term(Kind.GAIN, chip.bus_offset_v / self.voltage_v, Unit.RATIO, where),
            self._term(Kind.OFFSET, offset_w, Unit.WATT, where),
            # A half-width: the standard uncertainty of a step q is q / sqrt(12).
            replace(self._term(Kind.RESOLUTION, step_w / 2, Unit.WATT, where), is_common=False),
        ]
        if chip.shunt_ohm is None:
            terms.append(_SHUNT)
        return tuple(terms)

    def _term(self, kind: Kind, value: float, unit: Unit, note: str = "") -> UncertaintyTerm:
        is_sure = self.is_shunt_told or unit is Unit.RATIO
        reference = self.chip.reference if is_sure else f"shunt not told; {self.chip.reference}"
        return UncertaintyTerm(
            kind=kind,
            value=value,
            unit=unit,
            origin=self.chip.origin if is_sure else Origin.ASSUMED,
            reference=f"{reference}; {note}" if note else reference,
        )


def _nearest(value: float) -> int:
    """As the kernel's DIV_ROUND_CLOSEST."""
    return math.floor(value + 0.5)


_SHUNT = UncertaintyTerm(
    kind=Kind.GAIN,
    value=SHUNT_TOLERANCE_RATIO,
    unit=Unit.RATIO,
    reference="tolerance of the shunt resistor",
)
