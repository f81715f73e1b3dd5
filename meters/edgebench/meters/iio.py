"""Power monitors by the Linux industrial I/O drivers: `ina2xx-adc`, and NVIDIA's of JetPack 4.

Theory of operation. A chip has either this driver or the one for hwmon. Of `ina2xx-adc` the raw
voltages across the shunt and of the bus are read, and multiplied here: they resolve what the
chip does, while its power register and hwmon's milliamperes are coarser. Scales make mV, mA and
mW of raw values. NVIDIA's ina3221x names its rails and has whole mV, mA and mW.

Source: linux, drivers/iio/adc/ina2xx-adc.c; NVIDIA's kernel 4.9, drivers/staging/iio/meter/
ina3221.c, by energymon, jetson/energymon-jetson.c
"""

from __future__ import annotations

from pathlib import Path

from edgebench.meters.chips import CHIPS, Fitted, voltage_when_on
from edgebench.meters.file_meter import folders_of, number_of, text_of
from edgebench.meters.jetson import NOT_CONNECTED
from edgebench.meters.options import Options
from edgebench.meters.rails import Plan, Rail, RailMeter

MICRO, MILLI = 1e-6, 1e-3
_FOLDERS = ("sys/bus/iio/devices/iio:device*", "sys/bus/i2c/drivers/ina3221x/*/iio:device*")
_JETSON_SHUNT_OHM = 0.005
"""NVIDIA, Jetson AGX Xavier Series Product DG-09840, figure 5-14; other modules: assumed."""
_RAILS_OF_JETSON = range(3)
_POWER_STEP_W = 1e-3
"""in_powerN_input holds whole mW."""


class Iio(RailMeter):
    """The power monitors of this machine."""

    name = "iio"

    def _find(self) -> list[Rail]:
        rails: list[Rail] = []
        for folder in folders_of(self._root, *_FOLDERS):
            rails += [rail for n in _RAILS_OF_JETSON if (rail := _jetson_rail(folder, n))]
            name = text_of(folder / "name").lower()
            if name in CHIPS and (rail := _raw_rail(folder, name)):
                rails.append(rail)
        return rails


def make_meter(options: Options) -> Iio:
    """From nothing, or the name of a chip or of a rail, or the chip's address on its bus."""
    root, choice = options.where()
    options.finish()
    return Iio(root, choice)


def _raw_rail(folder: Path, name: str) -> Rail | None:
    shunt, bus = folder / "in_voltage0_raw", folder / "in_voltage1_raw"
    shunt_mv, bus_mv = (_scale_of(path) for path in (shunt, bus))
    shunt_uohm = number_of(folder / "in_shunt_resistor")
    bus_raw = number_of(bus)
    if bus_raw is None or not (shunt_mv and bus_mv and shunt_uohm):
        return None
    fitted = Fitted(
        chip=CHIPS[name],
        shunt_ohm=shunt_uohm * MICRO,
        voltage_v=voltage_when_on(bus_raw * bus_mv * MILLI),
    )
    scales = [shunt_mv * MILLI / fitted.shunt_ohm, bus_mv * MILLI]
    return Rail(
        name=text_of(folder / "label") or name,
        chip=name,
        address=_address(folder),
        files=(shunt, bus),
        plan=Plan(kind="product", scales=scales, limit_a=fitted.limit_a),
        update_s=_update_s(folder, fitted),
        terms=fitted.terms(scales[0] * fitted.voltage_v),
    )


def _jetson_rail(folder: Path, n: int) -> Rail | None:
    label = text_of(folder / f"rail_name_{n}")
    files = tuple(folder / f"in_{kind}{n}_input" for kind in ("power", "current"))
    if not label or label == NOT_CONNECTED or not all(path.exists() for path in files):
        return None
    fitted = Fitted(
        chip=CHIPS["ina3221"],
        shunt_ohm=_JETSON_SHUNT_OHM,
        is_shunt_told=False,
        voltage_v=voltage_when_on((number_of(folder / f"in_voltage{n}_input") or 0) * MILLI),
    )
    step_w = max(_POWER_STEP_W, fitted.current_step_a * fitted.voltage_v)
    return Rail(
        name=label,
        chip="ina3221x",
        address=_address(folder),
        files=files,
        plan=Plan(kind="power", scales=[MILLI, MILLI]),
        update_s=fitted.chip.update_s,
        terms=fitted.terms(step_w),
    )


def _scale_of(raw: Path) -> float:
    """What one count is, in thousandths; 0: not told."""
    try:
        return float(text_of(raw.with_name(raw.name.replace("_raw", "_scale"))))
    except ValueError:
        return 0.0


def _update_s(folder: Path, fitted: Fitted) -> float:
    frequency_hz = number_of(folder / "in_sampling_frequency")
    return 1 / frequency_hz if frequency_hz and frequency_hz > 0 else fitted.chip.update_s


def _address(folder: Path) -> str:
    """The folder lies in that of the chip: .../i2c-1/1-0040/iio:device0."""
    parent = folder.resolve().parent.name
    return parent if "-" in parent else folder.name
