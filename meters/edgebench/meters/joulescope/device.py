"""The Joulescope as a meter.

    open     device_paths · open (with the mode "restore", which leaves the state unchanged)
    session  ranges? · ranges auto · h/fs, the rate · ctrl of each signal on … off · previous ranges
    close    close · finalize

Source: pyjoulescope_driver: the topics, their metadata (rates) and entry_points/measure.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.meters.base import Capability, Channel, Header, MeterInfo
from edgebench.meters.instrument import InstrumentMeter
from edgebench.meters.joulescope.blocks import CURRENT, INPUT_COUNT, POWER, VOLTAGE, input_topic
from edgebench.meters.joulescope.decoder import LIMIT_A, LIMIT_V, JoulescopeSettings
from edgebench.meters.joulescope.stream import BlockStream, JoulescopeDriver
from edgebench.meters.joulescope.unit import JoulescopeUnit
from edgebench.meters.options import Options
from edgebench.meters.stream import StreamSession
from edgebench.meters.uncertainty import CurrentLimit, Kind, Unit, term
from edgebench.protocol.distributions import install_command
from edgebench.protocol.errors import TargetError, UsageError
from edgebench.protocol.plain import to_plain

INSTALL = install_command("joulescope")
RATES_HZ = (*(m * 10**e for e in range(6) for m in (1, 2, 5)), 1_000_000)
RATE_HZ = 100_000
UNFILTERED_HZ = 1_000_000
"""Rate at which samples come directly from the converter. At lower rates, samples are the output of
a low-pass filter, so that activity between two samples is included.

Source: joulescope_driver, src/downsample.c (filters of 39 and 89 taps, or means) and its callers in
js110_usb.c and js220_usb.c, on_sampling_frequency."""
_INPUTS = {"js110": 2}
_GAIN = {"js110": 0.01}
_GAIN_OTHERS = 0.005
_ASSUMED = "assumed for all ranges: see your instrument's data sheet"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoulescopeSetup:
    """The user's options for a Joulescope."""

    serial: str = ""
    """Serial number of the instrument to use; empty: the only instrument."""
    rate_hz: int = RATE_HZ
    input_count: int | None = None
    """Number of digital inputs to record; None for all inputs."""
    is_power_on: bool = False
    """Whether to switch the device's supply on for the session, and off again afterwards, if the
    range of current is "off". This range cuts the device's supply."""


class Joulescope(InstrumentMeter[JoulescopeUnit]):
    """A JS110, JS220 or JS320."""

    name = "joulescope"

    def __init__(self, connect: Callable[[], JoulescopeDriver], setup: JoulescopeSetup) -> None:
        super().__init__(lambda: JoulescopeUnit(connect()))
        self._setup = setup

    def _describe(self, connection: JoulescopeUnit) -> Header:
        """Identify the instrument without changing it; only a session sets range and rate."""
        setup, unit = self._setup, connection
        unit.take(setup.serial)
        input_count = _INPUTS.get(unit.model, INPUT_COUNT)
        if setup.input_count is not None:
            input_count = min(setup.input_count, input_count)
        settings = JoulescopeSettings(input_count=input_count, limit_a=LIMIT_A, limit_v=LIMIT_V)
        gain, auto = _GAIN.get(unit.model, _GAIN_OTHERS), f"{_ASSUMED}, auto range"
        return Header(
            driver=self.name,
            info=MeterInfo(
                vendor="Jetperch",
                model=f"Joulescope {unit.model.upper()}",
                serial=unit.serial,
                firmware=unit.firmware(),
                raw_metadata=unit.path,
            ),
            capability=Capability(
                driver=self.name,
                channels=(Channel("power", "supply of the device, as wired"),),
                rate_hz=setup.rate_hz,
                is_averaging=False,
                is_uniform=True,
                smoothing_s=1 / setup.rate_hz if setup.rate_hz < UNFILTERED_HZ else None,
                clock_domain=f"meter:joulescope:{unit.serial}",
                digital_count=input_count,
                loss_detection="counter",
                min_window_s=max(1e-4, 10 / setup.rate_hz),
                current_limits=(CurrentLimit(limit_a=LIMIT_A, reference=auto),),
            ),
            uncertainty=(
                term(Kind.GAIN, gain, f"{_ASSUMED}: current and voltage together"),
                term(Kind.OFFSET, 1e-4, auto, Unit.AMPERE),
                term(Kind.TIMEBASE, 50e-6, "a crystal"),
            ),
            facts=to_plain(settings),
        )

    def _record(self, connection: JoulescopeUnit, header: Header, path: Path) -> StreamSession:
        unit, setup = connection, self._setup
        inputs = [input_topic(place) for place in range(header.capability.digital_count)]
        stream = BlockStream(unit.driver, unit.path, (CURRENT, VOLTAGE, POWER, *inputs))

        def start() -> None:
            unit.set_up(setup.rate_hz, is_power_on=setup.is_power_on)
            stream.start()

        def stop() -> None:
            try:
                stream.stop()
            finally:
                unit.put_back()

        return StreamSession(stream, header, path, start=start, stop=stop)


def make_meter(options: Options) -> Joulescope:
    """Create the meter for options like `002557,rate=100k,inputs=1,power`; 002557 is optional."""
    rate_hz = options.rate("rate", RATE_HZ)
    if rate_hz not in RATES_HZ:
        raise UsageError(
            "meter joulescope: rate must be 1, 2 or 5 times a power of ten, up to 1000k, got "
            f"{rate_hz}"
        )
    inputs = options.number("inputs")
    if inputs is not None and inputs not in range(INPUT_COUNT + 1):
        raise UsageError(f"meter joulescope: inputs must be 0 to {INPUT_COUNT}, got {inputs:g}")
    setup = JoulescopeSetup(
        rate_hz=rate_hz,
        input_count=None if inputs is None else int(inputs),
        is_power_on=options.switch("power"),
        serial=options.finish().address,
    )
    return Joulescope(load_driver, setup)


def load_driver() -> JoulescopeDriver:
    """Load the vendor's driver.

    Raises:
        TargetError: the vendor's driver is not installed.
    """
    try:
        import pyjoulescope_driver
    except ImportError:
        raise TargetError(
            f"pyjoulescope_driver is not installed, Joulescopes need it: {INSTALL}"
        ) from None
    made: Any = pyjoulescope_driver.Driver()
    driver: JoulescopeDriver = made
    return driver
