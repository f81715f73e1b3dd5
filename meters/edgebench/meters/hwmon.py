"""Power monitors of the INA2xx family, through the Linux hardware-monitoring drivers.

Theory of operation. A chip is identified by its `name`, because the numbers of hwmon folders change
with each boot. The best available quantity is read: an energy counter (uJ), otherwise power (uW),
otherwise current (whole mA) times voltage (whole mV). If energy or power is read, the current is
also read, because otherwise clipping of the converter would go unnoticed. ina238.c has no file for
the shunt's resistance. If the device tree does not state the resistance either, the voltage across
the shunt is read as well. With an energy counter, clipping that begins and ends between two reads
remains undetected. So less clipping is detected on a busy bus, where reads are late.

An INA3221 has three rails and no power values; its `in4` to `in6` are voltages across shunts and
`in7` is their sum. `in0` of a TSC1641 is the rail voltage; `in0` of other chips with a single rail
is the shunt voltage. Each read is a transfer on the I2C bus; a read of an INA3221 waits for the
conversion.

Source: https://docs.kernel.org/hwmon/ina2xx.html, ina238.html, ina3221.html and tsc1641.html
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

from edgebench.meters.base import AbsentMeter
from edgebench.meters.chips import CHIPS, Chip
from edgebench.meters.file_meter import is_there, number_of, text_of
from edgebench.meters.fitted_chip import (
    SYSFS_CURRENT_STEP_A,
    FittedChip,
    voltage_when_on,
    with_gain,
)
from edgebench.meters.jetson import NOT_CONNECTED
from edgebench.meters.options import Options
from edgebench.meters.rail_decoder import RailPlan
from edgebench.meters.rails import Rail, RailMeter
from edgebench.meters.uncertainty import UncertaintyTerm, Unit

MICRO, MILLI = 1e-6, 1e-3
_FOLDERS = (
    "sys/class/hwmon/hwmon*",
    # A container may see only the driver's folder, as on a Jetson.
    "sys/bus/i2c/drivers/*/*/hwmon/hwmon*",
)
_RAILS_OF_INA3221 = (1, 2, 3)
_SHUNT_VOLTAGE = "in0_input"
PRODUCT_RATIO = 5.0
"""Largest accepted ratio between power and the product of current and voltage. The ratio is an
assumption: a change of load between two readings rarely causes a larger ratio, while a wrong unit
causes a ratio of 1,000."""
_CONTRADICTIONS = 5
_LEAST_MA = 5
_UNWATCHED = "; the current is not readable, so values beyond its range are not detected"


class HwmonMeter(RailMeter):
    """The power monitors of this machine."""

    name = "hwmon"
    _patterns = _FOLDERS

    def _rails_in(self, folder: Path) -> list[Rail | AbsentMeter]:
        name = text_of(folder / "name").lower()
        if name == "ina3221":
            rails: list[Rail | AbsentMeter | None] = [
                _rail_of_three(folder, n) for n in _RAILS_OF_INA3221
            ]
        else:
            rails = [_only_rail(folder, name)] if name in CHIPS else []
        return [rail for rail in rails if rail is not None]


def make_meter(options: Options) -> HwmonMeter:
    """Create the meter of all rails, or of a chip or rail selected by name or by I2C address."""
    root, choice = options.where()
    options.finish()
    return HwmonMeter(root, choice)


def _only_rail(folder: Path, name: str) -> Rail | AbsentMeter | None:
    chip = CHIPS[name]
    fitted = _fitted(folder, chip, "shunt_resistor", chip.voltage_file)
    energy, power = folder / "energy1_input", folder / "power1_input"
    current, voltage = folder / "curr1_input", folder / chip.voltage_file
    power_uw = number_of(power)
    if number_of(energy) is not None:
        files, plan = _watched(folder, fitted, energy, "energy")
        note = "" if current in files else _UNWATCHED
        terms = fitted.terms(fitted.energy_step_j, Unit.JOULE, note=note)
    elif power_uw is not None:
        if contradiction := _contradiction(folder, chip):
            return AbsentMeter(f"{name} {folder.name}: {contradiction}")
        files, plan = _watched(folder, fitted, power, "power")
        terms = fitted.terms(fitted.power_step_w(power_uw * MICRO))
    elif is_there(current) and is_there(voltage):
        files = (current, voltage)
        plan, terms = _product(fitted)
    else:
        return None
    return _rail(folder, text_of(folder / "label") or name, files, plan, terms)


def _contradiction(folder: Path, chip: Chip) -> str | None:
    """Why the power of a chip contradicts its current and voltage; None if it does not.

    Power, current and voltage are read in succession, and the load may change in between. So a
    contradiction counts only if each of several readings shows it.
    """
    power_w = product_w = 0.0
    for _ in range(_CONTRADICTIONS):
        power_uw = number_of(folder / "power1_input")
        current_ma = number_of(folder / "curr1_input")
        voltage_mv = number_of(folder / chip.voltage_file)
        if power_uw is None or current_ma is None or voltage_mv is None:
            return None
        product_w = abs(current_ma * MILLI) * voltage_mv * MILLI
        power_w = abs(power_uw) * MICRO
        # Fewer milliamperes are too coarse for a comparison.
        is_within = power_w <= PRODUCT_RATIO * product_w and product_w <= PRODUCT_RATIO * power_w
        if abs(current_ma) < _LEAST_MA or is_within:
            return None
    factor = product_w / power_w if power_w else math.inf
    return (
        f"power1_input is {power_w:.3g} W, but {chip.voltage_file} times curr1_input is "
        f"{product_w:.3g} W, {factor:.4g} times as much: the driver's unit or its shunt is wrong"
    )


def _watched(
    folder: Path, fitted: FittedChip, file: Path, kind: Literal["energy", "power"]
) -> tuple[tuple[Path, ...], RailPlan]:
    """Return `file`, the files that show saturation, and the plan for decoding all of them."""
    current, shunt = folder / "curr1_input", folder / _SHUNT_VOLTAGE
    limit_a = fitted.sysfs_limit_a
    if not is_there(current):
        return (file,), RailPlan(kind=kind, scales=[MICRO])
    if limit_a is None and fitted.chip.voltage_file != _SHUNT_VOLTAGE and is_there(shunt):
        scales, limit_v = [MICRO, MILLI, MILLI], fitted.sysfs_limit_v
        return (file, current, shunt), RailPlan(kind=kind, scales=scales, limit_shunt_v=limit_v)
    return (file, current), RailPlan(kind=kind, scales=[MICRO, MILLI], limit_a=limit_a)


def _rail_of_three(folder: Path, n: int) -> Rail | AbsentMeter | None:
    label = text_of(folder / f"in{n}_label")
    files = (folder / f"curr{n}_input", folder / f"in{n}_input")
    is_off = text_of(folder / f"in{n}_enable") == "0"
    lacking = [file.name for file in files if not is_there(file)]
    if is_off or label == NOT_CONNECTED or len(lacking) == len(files):
        return None
    if lacking:
        return AbsentMeter(f"{label or f'ina3221.{n}'} (ina3221 {folder.name}) has no {lacking[0]}")
    fitted = _fitted(folder, CHIPS["ina3221"], f"shunt{n}_resistor", f"in{n}_input")
    return _rail(folder, label or f"ina3221.{n}", files, *_product(fitted))


def _rail(
    folder: Path,
    name: str,
    files: tuple[Path, ...],
    plan: RailPlan,
    terms: tuple[UncertaintyTerm, ...],
) -> Rail:
    chip = text_of(folder / "name").lower()
    device = folder / "device"
    interval_ms = number_of(folder / "update_interval") or 0
    return Rail(
        name=name,
        chip=chip,
        address=device.resolve().name if is_there(device) else folder.name,
        files=files,
        plan=plan,
        update_s=interval_ms * MILLI if interval_ms > 0 else CHIPS[chip].update_s,
        terms=terms,
    )


def _product(fitted: FittedChip) -> tuple[RailPlan, tuple[UncertaintyTerm, ...]]:
    """Decoding plan and uncertainty of a power that is computed as current times voltage."""
    plan = RailPlan(kind="product", scales=[MILLI, MILLI], limit_a=fitted.sysfs_limit_a)
    # The voltage's step is at most a thousandth of the voltage, which is below its gain error.
    step_a = max(SYSFS_CURRENT_STEP_A, fitted.current_step_a)
    return plan, fitted.terms(step_a * fitted.voltage_v)


def _fitted(folder: Path, chip: Chip, shunt: str, voltage: str) -> FittedChip:
    node = folder / "device/of_node"
    shunt_uohm = number_of(folder / shunt) or _cell(node / "shunt-resistor")
    voltage_mv = number_of(folder / voltage)
    stated_ohm = chip.shunt_ohm or (shunt_uohm or 0) * MICRO
    return FittedChip(
        chip=with_gain(chip, _cell(node / "ti,shunt-gain")),
        shunt_ohm=stated_ohm or chip.default_shunt_ohm,
        is_shunt_known=bool(stated_ohm),
        voltage_v=voltage_when_on((voltage_mv or 0) * MILLI),
    )


def _cell(path: Path) -> int | None:
    """Read a number of the device tree: four bytes, big-endian.

    Source: Documentation/devicetree/bindings/hwmon/ti,ina2xx.yaml: shunt-resistor (uohm) and
    ti,shunt-gain; linux, drivers/of/kobj.c exposes properties unchanged.
    """
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return int.from_bytes(content, "big") if len(content) == 4 else None
