"""Power monitors through Linux industrial I/O: `ina2xx-adc`, and NVIDIA's driver of JetPack 4.

Theory of operation. A chip is bound either to an IIO driver or to the hwmon driver. With
`ina2xx-adc`, the raw voltages of shunt and bus are read, and edgebench computes the power. The raw
voltages have the chip's full resolution, while the chip's power register and hwmon's values in mA
are coarser. Scales convert raw values to mV, mA and mW. NVIDIA's driver ina3221x provides names of
the rails, and values in whole mV, mA and mW.

Source: linux, drivers/iio/adc/ina2xx-adc.c; NVIDIA's kernel 4.9, drivers/staging/iio/meter/
ina3221.c, as quoted by energymon, jetson/energymon-jetson.c
"""

from __future__ import annotations

import math
from pathlib import Path

from edgebench.meters.base import AbsentMeter
from edgebench.meters.chips import CHIPS
from edgebench.meters.file_meter import is_there, number_of, text_of, why_unreadable
from edgebench.meters.fitted_chip import FittedChip, voltage_when_on, with_amplifier
from edgebench.meters.jetson import NOT_CONNECTED
from edgebench.meters.options import Options
from edgebench.meters.rail_decoder import RailPlan
from edgebench.meters.rails import Rail, RailMeter

MICRO, MILLI = 1e-6, 1e-3
_FOLDERS = ("sys/bus/iio/devices/iio:device*", "sys/bus/i2c/drivers/ina3221x/*/iio:device*")
_JETSON_SHUNT_OHM = 0.005
"""Shunt of a Jetson AGX Xavier (NVIDIA, Jetson AGX Xavier Series Product DG-09840, figure 5-14);
assumed for other modules."""
_RAILS_OF_JETSON = range(3)
_SHUNT = "in_shunt_resistor"
_VOLTAGES = ("in_voltage0_raw", "in_voltage0_scale", "in_voltage1_raw", "in_voltage1_scale")
_POWER_STEP_W = 1e-3
"""in_powerN_input is in whole mW."""


class IioMeter(RailMeter):
    """The power monitors of this machine."""

    name = "iio"
    _patterns = _FOLDERS

    def _rails_in(self, folder: Path) -> list[Rail | AbsentMeter]:
        name = text_of(folder / "name").lower()
        rails = [_raw_rail(folder, name)] if name in CHIPS else []
        of_jetson = (_jetson_rail(folder, n) for n in _RAILS_OF_JETSON)
        return [*(rail for rail in of_jetson if rail is not None), *rails]


def make_meter(options: Options) -> IioMeter:
    """Create the meter of all rails, or of a chip or rail selected by name or by I2C address."""
    root, choice = options.where()
    options.finish()
    return IioMeter(root, choice)


def _raw_rail(folder: Path, name: str) -> Rail | AbsentMeter:
    shunt, bus = folder / "in_voltage0_raw", folder / "in_voltage1_raw"
    shunt_mv, bus_mv = (_number_or_0(folder / f"in_voltage{n}_scale") for n in (0, 1))
    shunt_ohm = _shunt_ohm(folder / _SHUNT)
    bus_raw = number_of(bus)
    if bus_raw is None or not (shunt_mv and bus_mv and shunt_ohm):
        what, lacking = ("shunt", [_SHUNT]) if shunt_ohm is None else ("voltages", _VOLTAGES)
        why = why_unreadable(folder / file for file in lacking)
        which = f"{name} {_address(folder)} has no readable {what}"
        return AbsentMeter(f"{which} ({', '.join(lacking)}){why}")
    fitted = FittedChip(
        chip=with_amplifier(CHIPS[name], _number_or_0(folder / "in_voltage0_hardwaregain")),
        shunt_ohm=shunt_ohm,
        voltage_v=voltage_when_on(bus_raw * bus_mv * MILLI),
    )
    scales = [shunt_mv * MILLI / fitted.shunt_ohm, bus_mv * MILLI]
    frequency_hz = number_of(folder / "in_sampling_frequency") or 0
    return Rail(
        name=text_of(folder / "label") or name,
        chip=name,
        address=_address(folder),
        files=(shunt, bus),
        plan=RailPlan(kind="product", scales=scales, limit_a=fitted.limit_a),
        update_s=1 / frequency_hz if frequency_hz > 0 else fitted.chip.update_s,
        terms=fitted.terms(scales[0] * fitted.voltage_v),
    )


def _shunt_ohm(path: Path) -> float | None:
    """Resistance of the shunt; old kernels report whole uohm, new kernels ohms.

    Source: Documentation/ABI/testing/sysfs-bus-iio; ina2xx-adc.c, ina2xx_shunt_resistor_show
    """
    text = text_of(path)
    try:
        ohm = float(text) if "." in text else int(text) * MICRO
    except ValueError:
        return None
    return ohm if 0 < ohm < math.inf else None


def _jetson_rail(folder: Path, n: int) -> Rail | None:
    label = text_of(folder / f"rail_name_{n}")
    files = tuple(folder / f"in_{kind}{n}_input" for kind in ("power", "current"))
    if not label or label == NOT_CONNECTED or not all(map(is_there, files)):
        return None
    fitted = FittedChip(
        chip=CHIPS["ina3221"],
        shunt_ohm=_JETSON_SHUNT_OHM,
        is_shunt_known=False,
        voltage_v=voltage_when_on((number_of(folder / f"in_voltage{n}_input") or 0) * MILLI),
    )
    step_w = max(_POWER_STEP_W, fitted.current_step_a * fitted.voltage_v)
    return Rail(
        name=label,
        chip="ina3221x",
        address=_address(folder),
        files=files,
        plan=RailPlan(kind="power", scales=[MILLI, MILLI]),
        update_s=fitted.chip.update_s,
        terms=fitted.terms(step_w),
    )


def _number_or_0(path: Path) -> float:
    try:
        return float(text_of(path))
    except ValueError:
        return 0.0


def _address(folder: Path) -> str:
    """Address of a chip, from its IIO folder: 1-0040 for .../i2c-1/1-0040/iio:device0."""
    parent = folder.resolve().parent.name
    return parent if "-" in parent else folder.name
