"""Registry of meters, which `--meter` names as NAME or NAME:ADDRESS.

An address may be followed by options: ppk2:/dev/ttyACM0,supply=3.3
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import cast

from edgebench.meters.base import Decoder, Header, Meter
from edgebench.meters.options import Options, split_name
from edgebench.protocol.errors import (
    MeasurementError,
    NoSuchMeter,
    RemoteProtocolError,
    UsageError,
    WrongMeterOption,
    with_meant,
)


@dataclass(frozen=True, slots=True)
class Driver:
    """Names the functions that create a meter and its decoder, and imports them on first use.

    Importing all drivers takes 0.1 s, and several times as long on a Raspberry Pi.
    """

    meter_factory: str
    """Function that creates the meter, as `module:function` in the package `edgebench.meters`."""
    decoder_factory: str
    summary: str
    """Description on a single line, for `edgebench meters`."""
    usage: str = ""
    """Syntax of the address and the options after the name; empty if the driver takes neither."""
    is_external: bool = False
    """Whether the meter is wired to a device and can measure any device. A meter that is not
    external only measures the machine on which its driver runs."""
    extra: str = ""
    """Extra of pyproject.toml that installs the driver's library; empty: none is needed."""
    sets_supply: bool = False
    """Whether the option `supply` sets the voltage of the meter's output. If not, the option only
    states the voltage of another power supply."""
    supply_switch: str = ""
    """Option with which `supply` sets a voltage; without this option, `supply` only states the
    voltage of another power supply. Empty if `supply` needs no other option."""

    @property
    def usage_parts(self) -> tuple[str, ...]:
        """Parts of `usage`: the address, then each option with its comma."""
        address, *options = self.usage.split("[,")
        return (address, *(f"[,{option}" for option in options))

    def make_meter(self, options: Options) -> Meter:
        """Create the meter without opening it.

        Raises:
            UsageError: an option is invalid.
        """
        return cast(Meter, resolve_name(f"edgebench.meters.{self.meter_factory}")(options))

    def make_decoder(self, header: Header) -> Decoder:
        """Create the decoder of a recording.

        Raises:
            LookupError, TypeError, ValueError, RemoteProtocolError: the header is damaged.
        """
        return cast(Decoder, resolve_name(f"edgebench.meters.{self.decoder_factory}")(header))


DRIVERS: dict[str, Driver] = {
    "joulescope": Driver(
        "joulescope.device:make_meter",
        "joulescope.decoder:make_decoder",
        "Joulescope JS110, JS220, JS320",
        usage="[:SERIAL][,rate=100k][,inputs=0..4][,power]",
        is_external=True,
        extra="joulescope",
    ),
    "lpm01a": Driver(
        "lpm01a.device:make_meter",
        "lpm01a.decoder:make_decoder",
        "ST X-NUCLEO-LPM01A (PowerShield)",
        usage="[:PORT][,supply=1.8..3.3][,rate=100k][,output=current|energy][,mode=dyn|stat]"
        "[,function=optim|high][,format=binary|ascii][,events=ris|fal][,power]",
        is_external=True,
        extra="serial",
        sets_supply=True,
    ),
    "ppk2": Driver(
        "ppk2.device:make_meter",
        "ppk2.decoder:make_decoder",
        "Nordic Power Profiler Kit II",
        usage="[:PORT],supply=0.8..5[,source][,power]",
        is_external=True,
        extra="serial",
        sets_supply=True,
        supply_switch="source",
    ),
    "scpi": Driver(
        "scpi.device:make_meter",
        "scpi.decoder:make_decoder",
        "bench supplies, power meters and multimeters over SCPI",
        usage=":VISA-ADDRESS[,channel=1][,rate=1000][,supply=3.3][,range=3] | :VISA-ADDRESS,"
        "query=MEAS:POW?[,answer=power|current|voltage+current][,rate=10][,mean=S][,supply=3.3]"
        "[,gain=0.5%][,offset=0.025]; each [,baud=9600]",
        is_external=True,
        extra="scpi",
    ),
    "monsoon": Driver(
        "monsoon.device:make_meter",
        "monsoon.decoder:MonsoonDecoder",
        "Monsoon HVPM (High Voltage Power Monitor)",
        usage="[:SERIAL][,supply=0.8..13.5][,power][,means]",
        is_external=True,
        extra="usb",
        sets_supply=True,
    ),
    "otii": Driver(
        "otii:make_meter",
        "otii:OtiiDecoder",
        "Qoitech Otii Arc and Ace, through Otii's server",
        usage="[:HOST[:1905]][,device=NAME]",
        is_external=True,
    ),
    "sigrok": Driver(
        "sigrok.device:make_meter",
        "sigrok.decoder:make_decoder",
        "multimeters, supplies and oscilloscopes supported by sigrok, through sigrok-cli",
        usage=":DRIVER[,conn=CONNECTION][,serialcomm=9600/8n1][,rate=20k][,power=CHANNEL | "
        ",current=CHANNEL[,shunt=OHM][,voltage=CHANNEL | ,supply=3.3]][,mean=S][,gain=0.5%]"
        "[,offset=0.025]",
        is_external=True,
    ),
    "ptdaemon": Driver(
        "ptdaemon:make_meter",
        "ptdaemon:PtDaemonDecoder",
        "power analysers behind SPEC PTDaemon, as used by MLPerf Power",
        usage=":HOST[:8888]",
        is_external=True,
    ),
    "shelly": Driver(
        "shelly:make_meter",
        "shelly:ShellyDecoder",
        "Shelly plugs and power meters, over HTTP",
        usage=":HOST[,channel=0][,rate=1]",
        is_external=True,
    ),
    "tasmota": Driver(
        "tasmota:make_meter",
        "tasmota:TasmotaDecoder",
        "plugs with Tasmota firmware, over HTTP",
        usage=":HOST[,rate=1]",
        is_external=True,
    ),
    "kasa": Driver(
        "kasa:make_meter",
        "kasa:KasaDecoder",
        "TP-Link Kasa plugs (HS110, HS300, KP115 and similar), without an account",
        usage=":HOST[,channel=0][,rate=1]",
        is_external=True,
    ),
    "fnirsi": Driver(
        "fnirsi.device:make_meter",
        "fnirsi.decoder:make_decoder",
        "FNIRSI USB testers FNB48, C1, FNB48S, FNB58",
        usage="[:PATH|SERIAL][,rate=100][,reversed]",
        is_external=True,
    ),
    "km003c": Driver(
        "km003c.device:make_meter",
        "km003c.decoder:make_decoder",
        "ChargerLAB USB testers POWER-Z KM003C and KM002C",
        usage="[:SERIAL][,rate=200][,reversed][,queue]",
        is_external=True,
        extra="usb",
    ),
    "um25c": Driver(
        "um25c:make_meter",
        "um25c:Um25cDecoder",
        "RuiDeng USB testers UM24C, UM25C, UM34C, over Bluetooth",
        usage=":PORT[,rate=2]",
        is_external=True,
        extra="serial",
    ),
    "rapl": Driver(
        "rapl:make_meter",
        "rapl:RaplDecoder",
        "energy counters of Intel and AMD processors",
        usage="[:ROOT]",
    ),
    "nvml": Driver(
        "nvml:make_meter",
        "nvml:NvmlDecoder",
        "energy counter of an NVIDIA GPU",
        usage="[:NUMBER|UUID]",
        extra="nvml",
    ),
    "hwmon": Driver(
        "hwmon:make_meter",
        "rail_decoder:RailDecoder",
        "power monitors on the board, INA2xx and similar",
        usage="[:CHIP|RAIL][,root=/]",
    ),
    "iio": Driver(
        "iio:make_meter",
        "rail_decoder:RailDecoder",
        "power monitors on the board, through industrial I/O; also Jetson with JetPack 4",
        usage="[:CHIP|RAIL][,root=/]",
    ),
    "rpi5": Driver(
        "rpi5:make_meter",
        "rpi5:Rpi5Decoder",
        "power management chip of a Raspberry Pi 5",
        usage="[:ROOT][,rate=10][,root=/]",
    ),
    "battery": Driver(
        "battery:make_meter",
        "battery:BatteryDecoder",
        "fuel gauge of a phone or laptop battery",
        usage="[:SUPPLY][,sign=negative|positive][,unit=ua|ma][,loaded][,discharge][,root=/]",
    ),
    "odpm": Driver(
        "odpm:make_meter",
        "odpm:OdpmDecoder",
        "rail monitors of a Google Pixel (requires root)",
        usage="[:ROOT][,root=/]",
    ),
    "synthetic": Driver(
        "synthetic.device:make_meter",
        "synthetic.decoder:SyntheticDecoder",
        "computed power for demos and tests; nothing is measured",
        usage="[:follow][,low=2][,high=4] | :constant[,power=1] | :square|ramp[,low=0][,high=1]"
        "[,period=1][,duty=0.5]; each [,rate=1000][,noise=W][,seed=0][,error=PPM]",
        is_external=True,
    ),
}


def find_meter(text: str) -> Meter:
    """Create the meter that this text names, without opening it.

    Raises:
        NoSuchMeter: no driver has that name.
        WrongMeterOption: an option is invalid.
    """
    name, rest = split_name(text)
    driver = _driver(name)
    try:
        return driver.make_meter(Options.parse(name, rest))
    except UsageError as exc:
        raise WrongMeterOption(str(exc)) from exc


def with_supply(text: str, supply_v: float) -> str:
    """The meter's text with the option that sets the device's supply voltage, in volts.

    >>> with_supply("ppk2:/dev/ttyACM0,source", 1.8), with_supply("lpm01a", 2.5)
    ('ppk2:/dev/ttyACM0,source,supply=1.8', 'lpm01a,supply=2.5')
    >>> with_supply("lpm01a,supply=2.50", 2.5)
    'lpm01a,supply=2.50'

    Raises:
        NoSuchMeter: no driver has that name.
        WrongMeterOption: the meter cannot set this voltage, or its text contains another voltage.
    """
    name, rest = split_name(text)
    driver, options = _driver(name), Options.parse(name, rest)
    if not driver.sets_supply:
        able = ", ".join(
            f"{name} with {other.supply_switch}" if other.supply_switch else name
            for name, other in DRIVERS.items()
            if other.sets_supply
        )
        raise WrongMeterOption(
            f"meter {name} cannot set the supply voltage to {supply_v:g} V; meters that can set a "
            f"supply voltage: {able}"
        )
    if driver.supply_switch and driver.supply_switch not in options.values:
        raise WrongMeterOption(
            f"meter {name} does not set the supply voltage ({supply_v:g} V) without the option "
            f"{driver.supply_switch}: {text},{driver.supply_switch}"
        )
    if (given := options.values.get("supply")) is None:
        complete = f"{text},supply={supply_v:g}"
    elif supply_of(text) == supply_v:
        complete = text
    else:
        raise WrongMeterOption(
            f"the supply voltage is set twice, {supply_v:g} V and supply={given} of meter {name}: "
            "omit either"
        )
    find_meter(complete)  # the driver checks its limits
    return complete


def supply_of(text: str) -> float | None:
    """Supply voltage in volts that a meter with this text sets; None if the meter sets no voltage.

    A text may also state the voltage of another supply. Such a voltage is not returned.

    >>> supply_of("ppk2:/dev/ttyACM0,source,supply=1.8"), supply_of("ppk2:/dev/ttyACM0,supply=1.8")
    (1.8, None)

    Raises:
        NoSuchMeter: no driver has that name.
        WrongMeterOption: the voltage is not a number.
    """
    name, rest = split_name(text)
    driver, options = _driver(name), Options.parse(name, rest)
    if not driver.sets_supply or driver.supply_switch not in ("", *options.values):
        return None
    try:
        return options.number("supply")
    except UsageError as exc:
        raise WrongMeterOption(str(exc)) from exc


def is_external(text: str) -> bool:
    """Whether the named meter can measure a machine on which its driver does not run.

    Raises:
        NoSuchMeter: no driver has that name.
    """
    return _driver(split_name(text)[0]).is_external


def extras_of(texts: Sequence[str]) -> tuple[str, ...]:
    """The extras that these meters require, sorted and without duplicates.

    >>> extras_of(["um25c:/dev/rfcomm0", "ppk2:,supply=3.3", "rapl"])
    ('serial',)

    Raises:
        NoSuchMeter: a name belongs to no driver.
    """
    return tuple(sorted({_driver(split_name(text)[0]).extra for text in texts} - {""}))


def _driver(name: str) -> Driver:
    if name not in DRIVERS:
        text = f"unknown meter {name!r}; available: {', '.join(DRIVERS)}"
        raise with_meant(NoSuchMeter(text), name, DRIVERS)
    return DRIVERS[name]


def find_decoder(header: Header) -> Decoder:
    """Create the decoder of a recording.

    Raises:
        MeasurementError: the recording's driver is unknown here, or its header is damaged.
    """
    if header.driver not in DRIVERS:
        raise MeasurementError(f"recording of a meter that is unknown here: {header.driver[:40]!r}")
    try:
        return DRIVERS[header.driver].make_decoder(header)
    except (LookupError, TypeError, ValueError, RemoteProtocolError) as exc:
        raise MeasurementError(f"recording of a {header.driver} is damaged: {exc}") from exc
