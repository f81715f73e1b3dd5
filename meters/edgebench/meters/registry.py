"""The meters that there are, by the name that `--meter` takes: NAME, or NAME:ADDRESS.

An address may end in options: ppk2:/dev/ttyACM0,supply=3.3
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgebench.meters import battery, hwmon, iio, odpm, rpi5
from edgebench.meters.base import Decoder, Header, Meter
from edgebench.meters.joulescope import decoder as joulescope_decoder
from edgebench.meters.joulescope import device as joulescope_device
from edgebench.meters.lpm01a import decoder as lpm01a_decoder
from edgebench.meters.lpm01a import device as lpm01a_device
from edgebench.meters.options import Options
from edgebench.meters.ppk2 import decoder as ppk2_decoder
from edgebench.meters.ppk2 import device as ppk2_device
from edgebench.meters.rails import RailDecoder
from edgebench.meters.rapl import Rapl, RaplDecoder
from edgebench.meters.scpi import decoder as scpi_decoder
from edgebench.meters.scpi import device as scpi_device
from edgebench.meters.synthetic import decoder as synthetic_decoder
from edgebench.meters.synthetic import device as synthetic_device
from edgebench.protocol.errors import MeasurementError, NoSuchMeter, RemoteProtocolError


@dataclass(frozen=True, slots=True)
class Driver:
    """How to come by a meter and by what it recorded."""

    make: Callable[[Options], Meter]
    make_decoder: Callable[[Header], Decoder]
    summary: str
    """One line for people."""
    is_external: bool = False
    """It has wires of its own, to whatever device; the others measure the machine they run on."""


def _rapl(options: Options) -> Meter:
    return Rapl(Path(options.finish().address or "/"))


DRIVERS: dict[str, Driver] = {
    "joulescope": Driver(
        joulescope_device.make_meter,
        joulescope_decoder.make_decoder,
        "Joulescope JS110, JS220, JS320",
        is_external=True,
    ),
    "lpm01a": Driver(
        lpm01a_device.make_meter,
        lpm01a_decoder.make_decoder,
        "ST X-NUCLEO-LPM01A (PowerShield)",
        is_external=True,
    ),
    "ppk2": Driver(
        ppk2_device.make_meter,
        ppk2_decoder.make_decoder,
        "Nordic Power Profiler Kit II",
        is_external=True,
    ),
    "scpi": Driver(
        scpi_device.make_meter,
        scpi_decoder.make_decoder,
        "bench supplies, power meters and multimeters, by SCPI",
        is_external=True,
    ),
    "rapl": Driver(_rapl, RaplDecoder, "energy counters of Intel and AMD processors"),
    "hwmon": Driver(hwmon.make_meter, RailDecoder, "power monitors on the board, INA2xx and alike"),
    "iio": Driver(iio.make_meter, RailDecoder, "the same by industrial I/O, and JetPack 4"),
    "rpi5": Driver(rpi5.make_meter, rpi5.make_decoder, "power chip of a Raspberry Pi 5"),
    "battery": Driver(
        battery.make_meter, battery.BatteryDecoder, "gauge of a phone's or a laptop's battery"
    ),
    "odpm": Driver(odpm.make_meter, odpm.OdpmDecoder, "rail monitors of a Google Pixel, as root"),
    "synthetic": Driver(
        synthetic_device.make_meter,
        synthetic_decoder.make_decoder,
        "a computed waveform, for demos and tests; nothing is measured",
        is_external=True,
    ),
}


def find_meter(text: str) -> Meter:
    """The meter that this text names; it is not opened yet.

    Raises:
        NoSuchMeter: no driver has that name.
        UsageError: an option is wrong.
    """
    name, _, rest = text.partition(":")
    return _driver(name).make(Options.parse(name, rest))


def is_external(text: str) -> bool:
    """Whether the meter that this text names may measure another machine than the one it is on.

    Raises:
        NoSuchMeter: no driver has that name.
    """
    return _driver(text.partition(":")[0]).is_external


def _driver(name: str) -> Driver:
    if name not in DRIVERS:
        raise NoSuchMeter(f"unknown meter {name!r}: there are {', '.join(DRIVERS)}")
    return DRIVERS[name]


def find_decoder(header: Header) -> Decoder:
    """The decoder for a recording.

    Raises:
        MeasurementError: its driver is unknown here, or it is damaged.
    """
    if header.driver not in DRIVERS:
        raise MeasurementError(f"recording of a meter that is unknown here: {header.driver[:40]!r}")
    try:
        return DRIVERS[header.driver].make_decoder(header)
    except (LookupError, TypeError, ValueError, RemoteProtocolError) as exc:
        raise MeasurementError(f"recording of a {header.driver} is damaged: {exc}") from exc
