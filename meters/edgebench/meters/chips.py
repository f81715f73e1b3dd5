"""Resolution and accuracy of the values that Linux drivers read from I2C power-monitor chips.

If a data sheet was available, the error limits are the maker's guaranteed limits at 25 °C.
Otherwise the limits are assumptions, chosen too wide rather than too narrow, and are marked as
assumed. fitted_chip.py derives the limits of a chip from its shunt and its board.

Source: linux, drivers/hwmon/{ina2xx,ina238,ina3221,tsc1641}.c, for steps, codes, defaults and
averaging
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from edgebench.meters.uncertainty import Origin

DEFAULT_SHUNT_OHM = 0.010
"""Default shunt of the kernel: INA2XX_RSHUNT_DEFAULT and INA3221_RSHUNT_DEFAULT."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """A type of chip, with the steps, limits and errors of its values."""

    shunt_step_v: float
    highest_code: int
    """Highest number of current steps that can be read with the kernel's settings of the chip."""
    power_factor_v: float
    """Ratio of the step of power to the step of current."""
    gain_ratio: float
    offset_v: float
    bus_gain_ratio: float
    bus_offset_v: float
    update_s: float
    """Conversion time, used if the kernel's driver has no file update_interval."""
    reference: str
    origin: Origin = Origin.DATASHEET
    shunt_ohm: float | None = None
    """Resistance of the built-in shunt; None: the shunt is external."""
    full_gain: int | None = None
    """`shunt_step_v` applies to this value of ti,shunt-gain in the device tree. Smaller gains have
    smaller steps. None if the steps are fixed."""
    least_gain: float | None = None
    """Lowest value of in_voltage0_hardwaregain. `highest_code` applies to this gain, and higher
    gains have fewer steps. None if the chip has no amplifier."""
    default_shunt_ohm: float = DEFAULT_SHUNT_OHM
    """Shunt that the kernel assumes if none is specified. If kernel versions assume different
    shunts, the smallest is given here."""
    power_step_w: float | None = None
    """Step of power; None: it depends on the shunt."""
    kernel_steps: int = 1
    """New kernels store the total of this number of current steps in whole uA. They divide this
    total by the number of steps, as integers, to derive one step."""
    old_kernel_steps: int | None = None
    """Old kernels round the total of this number of current steps to whole mA, because they store
    the chip's calibration as an integer. None if old kernels do not round the step."""
    voltage_file: str = "in1_input"
    """File of hwmon that holds the voltage of the rail."""


_INA219 = Chip(
    shunt_step_v=10e-6,
    highest_code=32000,  # 320 mV: PGA /8, INA219_CONFIG_DEFAULT
    least_gain=0.125,  # ina219_vshunt_gain_tab of ina2xx-adc.c, in thousandths: 125 to 1000
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
    reference="resolution of an INA226; the other limits are assumed",
)
_INA238 = Chip(
    shunt_step_v=5e-6,
    highest_code=32764,  # older kernels: 8191 of the coarse steps below; newer kernels: 32767
    power_factor_v=0.8,  # 0.2, of a step that older kernels' calibration makes four times as coarse
    full_gain=4,
    default_shunt_ohm=0.0025,  # INA238_RSHUNT_DEFAULT of newer kernels; 0.010 of older
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
    reference="as an INA238, but less accurate; the limits are assumed",
)
CHIPS: dict[str, Chip] = {
    "ina219": _INA219,
    "ina220": replace(
        _INA219, origin=Origin.ASSUMED, reference="the limits of an INA219A are assumed"
    ),
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
        power_factor_v=16 * 0.8,  # its power step is the same as an INA238's
        kernel_steps=16,
        origin=Origin.ASSUMED,
        reference="the limits of an INA238 are assumed",
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
        full_gain=None,
        origin=Origin.ASSUMED,
        reference="resolution from linux ina238.c; other limits as of an INA745A, TI SBOSAC3A",
    ),
    "sq52206": replace(
        _INA237, power_factor_v=4 * 0.24, reference="as an INA237; the limits are assumed"
    ),
    "tsc1641": replace(
        _INA237,
        shunt_step_v=2.5e-6,
        highest_code=32767,
        gain_ratio=0.01,
        power_step_w=0.025,
        full_gain=None,
        default_shunt_ohm=DEFAULT_SHUNT_OHM,
        voltage_file="in0_input",  # has no file of the shunt's voltage
        update_s=1.024e-3,
        reference="resolution from linux tsc1641.c; the limits are assumed",
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
"""Chips by the name in /sys/class/hwmon/hwmon*/name or .../iio:device*/name, in lower case."""
