"""The Joulescope itself: found, taken, set, and given back.

    open     device_paths · open (as it is)
    session  ranges? · ranges auto · h/fs, the rate · ctrl of each signal on … off · ranges as they
             were
    close    close · finalize

A range of the voltage that somebody chose would clip a supply of more, and nothing would show it.

Opening changes nothing, and nothing switches the device under test unless it is told to: a current
range "off" has cut its supply, and any other range would power it. A session of such an instrument
is refused without the option `power`; with it, what puts the range back cuts the supply again.

Source: pyjoulescope_driver: the topics, their metadata (rates, ranges; 0 is off) and
entry_points/measure.py; joulescope_driver, doc/js220.txt and doc/js320.json (modes 0 to 3 are off,
4 is automatic, 5 manual, and the choice 0 is off).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgebench.meters.base import Capability, Channel, Header, MeterInfo, Missing
from edgebench.meters.joulescope.blocks import CURRENT, INPUT_COUNT, POWER, VOLTAGE, input_topic
from edgebench.meters.joulescope.decoder import Settings
from edgebench.meters.joulescope.stream import BlockStream, Driver, about
from edgebench.meters.options import Options, install
from edgebench.meters.stream import StreamSession
from edgebench.meters.uncertainty import CurrentLimit, Kind, UncertaintyTerm, Unit
from edgebench.protocol.codec import to_plain
from edgebench.protocol.errors import EdgebenchError, MeasurementError, TargetError, UsageError

INSTALL = install("joulescope")
RATES_HZ = (*(m * 10**e for e in range(6) for m in (1, 2, 5)), 1_000_000)
RATE_HZ = 100_000
LIMIT_A, LIMIT_V = 10.0, 15.0
_CHOICE = "s/i/range/select"
_RANGES = {"js110": {_CHOICE: "auto", "s/v/range/select": "15 V"}}
_RANGES_OTHERS = {"s/i/range/mode": "auto", "s/v/range/mode": "auto"}
"""Of current and voltage: what a session sets."""
_MANUAL = (5, "manual")
"""Of the mode: the choice says which."""
_OFF = (0, "off")
_OFF_MODES = (*_OFF, 1, 2, 3)
_INPUTS = {"js110": 2}
_GAIN = {"js110": 0.01}
_GAIN_OTHERS = 0.005
_ASSUMED = "assumed for any of its ranges: see the data sheet of yours"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What is asked for."""

    serial: str = ""
    """Of the one that is meant; empty: the only one."""
    rate_hz: int = RATE_HZ
    input_count: int | None = None
    """Digital inputs to record; None: all."""
    is_power_on: bool = False
    """Switch the supply of a device on whose range is off, for the session, and off after it."""


class Joulescope:
    """One instrument."""

    name = "joulescope"

    def __init__(self, connect: Callable[[], Driver], setup: Setup) -> None:
        self._connect = connect
        self._setup = setup
        self._driver: Driver | None = None
        self._path = ""
        self._settings: Settings | None = None
        self._header: Header | None = None
        self._found: dict[str, Any] = {}
        """The ranges before a session, by topic, that are not put back yet."""

    def open(self) -> Header | Missing:
        """Find it, and take it as it is; a session is what sets range and rate."""
        try:
            self._driver = self._connect()
            with about("here"):
                path = _choose(self._driver.device_paths(), self._setup.serial)
            with about(path):
                self._driver.open(path, "restore")
                self._path = path
            self._settings = self._choose_settings()
            self._header = self._describe(self._driver)
        except EdgebenchError as exc:
            self.close()
            return Missing(str(exc))
        return self._header

    def session(self, path: Path) -> StreamSession:
        """A recording."""
        if self._driver is None or self._header is None or self._settings is None:
            raise MeasurementError("the Joulescope is not open")
        inputs = [input_topic(place) for place in range(self._settings.input_count)]
        driver = self._driver
        stream = BlockStream(driver, self._path, (CURRENT, VOLTAGE, POWER, *inputs))

        def start() -> None:
            self._set_up(driver)
            stream.start()

        def stop() -> None:
            try:
                stream.stop()
            finally:
                self._put_back(driver)

        return StreamSession(stream, self._header, path, start=start, stop=stop)

    def close(self) -> None:
        """Give it back; may be called twice."""
        if self._driver is None:
            return
        driver, self._driver = self._driver, None
        with suppress(TargetError):  # a session could not be ended
            self._put_back(driver)
        with suppress(RuntimeError, OSError, ValueError):  # it is gone: nothing to give back
            if self._path:
                driver.close(self._path)
        with suppress(RuntimeError, OSError, ValueError):
            driver.finalize()
        self._path, self._found = "", {}

    @property
    def _model(self) -> str:
        return self._path.split("/")[1]

    def _is_cut(self, driver: Driver, found: Any) -> bool:
        """Whether the range that was found leaves the device without a supply."""
        if self._model == "js110":
            return found in _OFF
        if found in _MANUAL:
            return driver.query(f"{self._path}/{_CHOICE}") in _OFF
        return found in _OFF_MODES

    def _set_up(self, driver: Driver) -> None:
        ranges = _RANGES.get(self._model, _RANGES_OTHERS)
        with about(self._path):
            found = {topic: driver.query(f"{self._path}/{topic}") for topic in ranges}
            before = found | self._found  # what our last session set is nobody's choice
            is_cut = any(self._is_cut(driver, one[next(iter(ranges))]) for one in (found, before))
            if is_cut and not self._setup.is_power_on:
                raise TargetError(
                    f"Joulescope {self._path} has cut the device's supply, its current range is "
                    "off: say `power`, which switches it on for a recording, as in "
                    f"joulescope:{self._path.split('/')[2]},power"
                )
            self._found = before  # also where only an answer is lost
            for topic, wanted in ranges.items():
                driver.publish(f"{self._path}/{topic}", wanted)
            driver.publish(f"{self._path}/h/fs", self._setup.rate_hz)

    def _put_back(self, driver: Driver) -> None:
        """The ranges as they were; where that of the current was off, the supply is cut again."""
        with about(self._path):
            for topic, found in tuple(self._found.items()):
                driver.publish(f"{self._path}/{topic}", found)
                del self._found[topic]

    def _choose_settings(self) -> Settings:
        most = _INPUTS.get(self._model, INPUT_COUNT)
        wanted = self._setup.input_count
        return Settings(
            input_count=most if wanted is None else min(wanted, most),
            limit_a=LIMIT_A,
            limit_v=LIMIT_V,
        )

    def _describe(self, driver: Driver) -> Header:
        assert self._settings is not None, "open has made them"
        serial = self._path.split("/")[2]
        return Header(
            driver=self.name,
            info=MeterInfo(
                vendor="Jetperch",
                model=f"Joulescope {self._model.upper()}",
                serial=serial,
                firmware=_firmware(driver, self._path),
                raw_metadata=self._path,
            ),
            capability=Capability(
                driver=self.name,
                channels=(Channel("power", "supply of the device, as wired"),),
                rate_hz=self._setup.rate_hz,
                is_averaging=False,
                is_uniform=True,
                clock_domain=f"meter:joulescope:{serial}",
                digital_count=self._settings.input_count,
                loss_detection="counter",
                min_window_s=max(1e-4, 10 / self._setup.rate_hz),
                current_limits=(
                    CurrentLimit(limit_a=LIMIT_A, reference=f"{_ASSUMED}, auto range"),
                ),
            ),
            uncertainty=_uncertainty(self._model),
            facts=to_plain(self._settings),
        )


def make_meter(options: Options) -> Joulescope:
    """From `002557,rate=100k,inputs=1,power`; without a serial number, the only one there is."""
    setup = Setup(
        rate_hz=_rate_hz(options.text("rate")),
        input_count=_input_count(options.number("inputs")),
        is_power_on=options.switch("power"),
        serial=options.address,
    )
    options.finish()
    return Joulescope(load_driver, setup)


def load_driver() -> Driver:
    """The vendor's driver.

    Raises:
        TargetError: it is not installed.
    """
    try:
        import pyjoulescope_driver
    except ImportError:
        raise TargetError(
            f"pyjoulescope_driver is not installed, Joulescopes need it: {INSTALL}"
        ) from None
    made: Any = pyjoulescope_driver.Driver()
    driver: Driver = made
    return driver


def _choose(paths: list[str], serial: str) -> str:
    """The device that is meant, of paths like u/js220/002557."""
    known = [path for path in paths if len(path.split("/")) == 3]
    found = [path for path in known if serial in ("", path, path.split("/")[2])]
    if len(found) == 1:
        return found[0]
    if not known:
        raise TargetError("no Joulescope is connected")
    names = ", ".join(sorted(path.split("/")[2] for path in known))
    if not found:
        raise UsageError(f"no Joulescope has the serial number {serial!r}: there are {names}")
    raise UsageError(f"{len(found)} Joulescopes are connected, name one: {names}")


def _firmware(driver: Driver, path: str) -> str:
    """Source: pyjoulescope_driver, entry_points/info.py: 8 bits major, 8 minor, 16 patch."""
    try:
        number = int(driver.query(f"{path}/c/fw/version"))
    except (RuntimeError, OSError, ValueError, TypeError):  # a JS110 does not tell
        return ""
    return f"{number >> 24}.{number >> 16 & 0xFF}.{number & 0xFFFF}"


def _uncertainty(model: str) -> tuple[UncertaintyTerm, ...]:
    return (
        UncertaintyTerm(
            kind=Kind.GAIN,
            value=_GAIN.get(model, _GAIN_OTHERS),
            unit=Unit.RATIO,
            reference=f"{_ASSUMED}: current and voltage together",
        ),
        UncertaintyTerm(
            kind=Kind.OFFSET, value=1e-4, unit=Unit.AMPERE, reference=f"{_ASSUMED}, auto range"
        ),
        UncertaintyTerm(kind=Kind.TIMEBASE, value=50e-6, unit=Unit.RATIO, reference="a crystal"),
    )


def _rate_hz(text: str | None) -> int:
    if text is None:
        return RATE_HZ
    number, factor = (text[:-1], 1000) if text.endswith("k") else (text, 1)
    rate_hz = int(number) * factor if number.isascii() and number.isdigit() else 0
    if rate_hz not in RATES_HZ:
        raise UsageError(
            f"meter joulescope: rate must be 1, 2 or 5 times a power of ten, to 1000k, got {text!r}"
        )
    return rate_hz


def _input_count(number: float | None) -> int | None:
    if number is not None and number not in range(INPUT_COUNT + 1):
        raise UsageError(f"meter joulescope: inputs must be 0 to {INPUT_COUNT}, got {number:g}")
    return None if number is None else int(number)
