"""Instruments supported by sigrok: identification and recording.

    open     --show: name, channels, whether there is a sample rate · --get samplerate · some
             readings: units of the channels, and, without a sample rate, the rate of the readings
    session  --continuous --output-format analog, ended by a line on the program's standard input

`--output-format csv` is not used: sigrok-cli 0.7.2 mixes CSV with the lines of `analog`, and drops
values of channels whose packets differ in length. sigrok does not report losses of the device.

Source: sigrok-cli(1); tested with sigrok-cli 0.7.2: its demo device, an emulated multimeter
(scpi-dmm) and an emulated supply (scpi-pps).
"""

from __future__ import annotations

import re
import time
from functools import partial
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Header, MeterInfo
from edgebench.meters.instrument import InstrumentMeter
from edgebench.meters.options import MILLIVOLTS_FROM, Options, check_supply
from edgebench.meters.polled import HOST_CLOCK
from edgebench.meters.sigrok.channels import FirstReadings, SigrokSetup, settings_of
from edgebench.meters.sigrok.decoder import SigrokSettings
from edgebench.meters.sigrok.program import PROGRAM, Sigrok
from edgebench.meters.sigrok.readings import Reading, readings_of
from edgebench.meters.stream import StreamSession
from edgebench.meters.uncertainty import Kind, Origin, UncertaintyTerm, Unit, term
from edgebench.protocol.errors import TargetError, UsageError
from edgebench.protocol.plain import to_plain

RATE_MAX_HZ = 100_000
"""Highest accepted sample rate, at which the host must parse a few megabytes of text per second."""
SUPPLY_LIMITS_V = (0.1, MILLIVOLTS_FROM)
_SHOWN = re.compile(r"^(?P<driver>\S+) - (?P<name>.+) with \d+ channels?: (?P<channels>.+)$", re.M)
_SERIAL = re.compile(r" \[S/N: (\S+)\]")
_HAS_RATE = re.compile(r"^\s+samplerate\b", re.M)
_ROUNDS = 4
"""Number of rounds of readings over which the rate of the rounds is measured."""
_FIRST_S = 10.0
_ALL_S = 0.5
"""Assumed time within which values of all channels arrive from a device with a sample rate."""
_WINDOW_SAMPLES = 20
_LATE_S = 0.25
"""Assumed time for which a driver of sigrok collects samples before it passes them on."""
_GAPLESS_RATIO = 0.1
"""Maximum relative difference between the averaging time and the interval of readings. If the
difference is larger, readings do not count as means that follow each other without gaps."""
_GAIN_RATIO, _OFFSET_A, _OFFSET_W = 0.03, 5e-3, 25e-3
"""Assumed errors. Makers of small oscilloscopes state an error of 3 % for a direct voltage. The
offsets are the same as for any SCPI instrument (scpi/query.py)."""
_ASSUMED = "assumed for any instrument: add the value of your data sheet, as in"
_STATED = "as stated by the user"


class SigrokMeter(InstrumentMeter[Sigrok]):
    """A device found by sigrok-cli."""

    name = "sigrok"

    def __init__(self, setup: SigrokSetup) -> None:
        super().__init__(lambda: _connect(setup.driver))
        self._setup = setup
        self._options: tuple[str, ...] = ()
        """Options of sigrok-cli for a recording."""
        check_supply(setup.supply_v, SUPPLY_LIMITS_V, "meter sigrok: supply must be")

    def _describe(self, connection: Sigrok) -> Header:
        shown = connection.output_of("--show")
        device = _device_in(shown, self._setup.driver)
        is_paced = _HAS_RATE.search(shown) is None
        rate = [] if is_paced else self._rate_options(connection)
        if is_paced and self._setup.rate_hz is not None:
            raise UsageError(f"{device['name']} has no sample rate: leave out rate=")
        named = self._setup.named
        first = _first_readings(connection, [*rate, *_only(named)], named, is_paced=is_paced)
        settings = settings_of(self._setup, first, is_paced=is_paced)
        used = list(settings.channels)
        self._options = (*rate, *_only(used))
        if not is_paced:
            rate_hz = float(_rate_of(connection, rate))
        else:
            if set(used) != set(first.by_channel):  # fewer channels are faster
                first = _first_readings(connection, [*self._options], used, is_paced=True)
            rate_hz = first.rounds_per_s
        return self._header_of(device["name"], shown, settings, first, rate_hz)

    def _record(self, connection: Sigrok, header: Header, path: Path) -> StreamSession:
        start = partial(connection.start, *self._options)
        return StreamSession(connection, header, path, start=start, stop=connection.stop)

    def _rate_options(self, sigrok: Sigrok) -> list[str]:
        """Check that the device accepts the sample rate, and return the options that set it."""
        wanted = self._setup.rate_hz
        options = [] if wanted is None else ["--config", f"samplerate={wanted}"]
        rate = _rate_of(sigrok, options)
        if wanted not in (None, rate):
            raise UsageError(f"the device takes {rate} samples per second, got rate={wanted}")
        if rate > RATE_MAX_HZ:
            raise UsageError(
                f"the device takes {rate} samples per second, but {PROGRAM} prints samples as "
                f"text: use at most {RATE_MAX_HZ}, as in rate=20k"
            )
        return options

    def _header_of(
        self,
        name: str,
        shown: str,
        settings: SigrokSettings,
        first: FirstReadings,
        rate_hz: float,
    ) -> Header:
        mean_s = self._setup.mean_s
        # Only contiguous means without overlap add up to the energy.
        is_averaging = mean_s is not None and abs(mean_s * rate_hz - 1) <= _GAPLESS_RATIO
        is_paced = settings.is_paced
        longest_s = max(1 / rate_hz, mean_s or 0.0)
        serial_match = _SERIAL.search(name)
        serial = serial_match[1] if serial_match else ""
        driver = self._setup.driver.partition(":")[0]
        return Header(
            driver=self.name,
            info=MeterInfo(
                vendor="sigrok", model=_SERIAL.sub("", name), serial=serial, raw_metadata=shown
            ),
            capability=Capability(
                driver=self.name,
                channels=(Channel("input", "supply of the device, as wired"),),
                rate_hz=rate_hz,
                is_averaging=is_averaging,
                is_uniform=not is_paced,
                is_paced=is_paced,
                smoothing_s=mean_s,
                clock_domain=HOST_CLOCK if is_paced else f"meter:sigrok:{driver}:{serial}",
                loss_detection="wallclock",
                min_window_s=_WINDOW_SAMPLES * longest_s,
                arrival_error_s=_LATE_S,
            ),
            uncertainty=self._uncertainty(settings, first, longest_s),
            facts=to_plain(settings),
        )

    def _uncertainty(
        self, settings: SigrokSettings, first: FirstReadings, longest_s: float
    ) -> tuple[UncertaintyTerm, ...]:
        setup = self._setup
        channel, unit = settings.power or settings.current or "", Unit.WATT
        step, offset = first.by_channel[channel].step, _OFFSET_W
        if settings.power is None:
            step, offset, unit = step / (settings.shunt_ohm or 1.0), _OFFSET_A, Unit.AMPERE
        gain = (
            (setup.gain_ratio, _STATED, Origin.DATASHEET)
            if setup.gain_ratio is not None
            else (_GAIN_RATIO, f"{_ASSUMED} gain=0.1%", Origin.ASSUMED)
        )
        terms = [
            term(Kind.GAIN, gain[0], gain[1], origin=gain[2]),
            term(Kind.OFFSET, setup.offset, _STATED, unit, origin=Origin.DATASHEET)
            if setup.offset is not None
            else term(Kind.OFFSET, offset, f"{_ASSUMED} offset=0.001", unit),
            term(Kind.RESOLUTION, step, "last digit of the first reading", unit),
        ]
        if settings.power is None:
            voltage = (
                (0.01, "assumed: the supply voltage is stated, not measured", Origin.ASSUMED)
                if settings.voltage is None
                else gain
            )
            terms.append(term(Kind.VOLTAGE, voltage[0], voltage[1], origin=voltage[2]))
        if settings.is_paced:
            terms.append(term(Kind.EDGE, longest_s, "readings have only their arrival time"))
        else:
            terms.append(term(Kind.TIMEBASE, 100e-6, "assumed: a crystal"))
        return tuple(terms)


def make_meter(options: Options) -> SigrokMeter:
    """Create the meter of the device that a driver of sigrok finds with these options."""
    addresses = {name: options.text(name) for name in ("conn", "serialcomm")}
    driver = ":".join(
        [options.address, *(f"{name}={value}" for name, value in addresses.items() if value)]
    )
    rate = options.text("rate")
    setup = SigrokSetup(
        driver=driver,
        rate_hz=None if rate is None else options.rate("rate", 0),
        power=options.text("power"),
        current=options.text("current"),
        voltage=options.text("voltage"),
        supply_v=options.positive("supply"),
        shunt_ohm=options.positive("shunt"),
        mean_s=options.positive("mean"),
        gain_ratio=options.ratio("gain"),
        offset=options.positive("offset"),
    )
    options.finish()
    return SigrokMeter(setup)


def _connect(driver: str) -> Sigrok:
    if not driver or driver.startswith(":"):
        raise UsageError("name a driver of sigrok, as in sigrok:scpi-dmm,conn=/dev/ttyUSB0")
    return Sigrok(driver)


def _device_in(shown: str, driver: str) -> dict[str, str]:
    """Parse the output of --show, which must list one device.

    Raises:
        TargetError: no device is listed.
        UsageError: several devices are listed.
    """
    matches = list(_SHOWN.finditer(shown))
    if not matches:
        raise TargetError(f"{PROGRAM} finds no device with {driver}")
    if len(matches) > 1:
        raise UsageError(f"{len(matches)} devices with {driver}: select one, as in conn=1-5.3")
    return matches[0].groupdict()


def _rate_of(sigrok: Sigrok, options: list[str]) -> int:
    """Sample rate of the device with these options.

    Raises:
        TargetError: the device reports no sample rate.
    """
    response = sigrok.output_of(*options, "--get", "samplerate").strip()
    if not response.isdigit() or not int(response):
        raise TargetError(f"{PROGRAM} reports {response[:40]!r} as the sample rate")
    return int(response)


def _only(channels: list[str]) -> list[str]:
    return ["--channels", ",".join(channels)] if channels else []


def _first_readings(
    sigrok: Sigrok, options: list[str], channels: list[str], *, is_paced: bool
) -> FirstReadings:
    """Take readings of several rounds, or of one round if the device has a sample rate.

    Args:
        sigrok: The device.
        options: Options of sigrok-cli.
        channels: Channels whose readings must arrive; empty: unknown.
        is_paced: Whether the rate is measured over several rounds.

    Raises:
        TargetError: too few readings arrive in time.
    """
    times_s: dict[str, list[float]] = {}
    readings: dict[str, Reading] = {}
    count = _ROUNDS + 1 if is_paced else 1
    received, now_s = b"", time.monotonic()
    deadline_s = now_s + _FIRST_S
    sigrok.start(*options)
    try:
        while now_s < deadline_s:
            received += sigrok.read(deadline_s - now_s)
            now_s = time.monotonic()
            end = received.rfind(b"\n") + 1
            for reading in readings_of(received[:end]):
                readings.setdefault(reading.channel, reading)
                times_s.setdefault(reading.channel, []).append(now_s)
            received = received[end:]
            if not readings.keys() >= set(channels) or not readings:
                continue
            if min(map(len, times_s.values())) >= count:
                if channels or is_paced:
                    break
                deadline_s = min(deadline_s, min(times_s.values())[0] + _ALL_S)
    finally:
        sigrok.stop()
    if not readings:
        raise TargetError(f"the device sent no reading in {_FIRST_S:g} s")
    longest = max(times_s.values(), key=len)
    passed_s = longest[-1] - longest[0]
    if is_paced and not passed_s:
        raise TargetError(f"one reading in {_FIRST_S:g} s: too slow to measure its rate")
    # A few arrivals do not support more digits.
    rounds_per_s = (len(longest) - 1) / passed_s if passed_s else 0.0
    return FirstReadings(readings, float(f"{rounds_per_s:.3g}"))
