"""Raspberry Pi 5: the converters in its power chip, by `vcgencmd pmic_read_adc`.

Theory of operation. The firmware prints a current and a voltage for each of twelve rails, which
belong together by their names, not by the numbers in parentheses:

     VDD_CORE_A current(7)=1.91102000A
     VDD_CORE_V volt(15)=0.87355220V

EXT5V and BATT have a voltage only. The rails are outputs of the chip: their sum is below what the
supply gives by the losses of converters and by all that hangs on 5 V, as USB and HATs do. It is
not scaled up here: there are fits, and none holds for another board. Every question starts a
process, which costs the board what it is to measure: it is asked ten times a second at most.

Source: raspberrypi/documentation, os/graphics-utilities.adoc; zeus#273; raspberrypi/linux#6473
"""

from __future__ import annotations

import math
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Flag, Header, MeterInfo, Missing
from edgebench.meters.file_meter import is_there
from edgebench.meters.options import Options
from edgebench.meters.polled import (
    HOST_CLOCK,
    Clock,
    Point,
    PolledDecoder,
    PolledSession,
    Reading,
)
from edgebench.meters.rails import TOTAL
from edgebench.meters.uncertainty import Kind, UncertaintyTerm, Unit
from edgebench.protocol.errors import MeasurementError, UsageError

RATE_MAX_HZ = 10.0
MODEL_RATIO = 0.1
"""Assumed: nobody says how good the converters are."""
_BUSY_RATIO = 0.1
"""Share of the time that questions may take: they keep a core busy."""
_COMMANDS = ("usr/bin/vcgencmd", "opt/vc/bin/vcgencmd")
_TIMEOUT_S = 2.0
_MIN_WINDOW_VALUES = 100
_LINE = re.compile(rb"(\w+)_([AV])\s+(?:current|volt)\(\d+\)=(-?\d+(?:\.\d+)?)[AV]")

Ask = Callable[[], bytes | None]
"""What the command says; None: it failed."""


class Rpi5:
    """The power chip of this board."""

    name = "rpi5"

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        rate_hz: float = RATE_MAX_HZ,
        clock_ns: Clock = time.perf_counter_ns,
    ) -> None:
        if not 0 < rate_hz <= RATE_MAX_HZ:
            raise UsageError(f"rpi5 takes a rate up to {RATE_MAX_HZ:g} Hz, asked for {rate_hz:g}")
        self._root = root
        self._rate_hz = rate_hz
        self._clock_ns = clock_ns
        self._ask: Ask | None = None
        self._header: Header | None = None

    def open(self) -> Header | Missing:
        """Ask once."""
        self.close()
        command = next((self._root / c for c in _COMMANDS if is_there(self._root / c)), None)
        if command is None:
            return Missing("no vcgencmd: this is no Raspberry Pi, or its tools are not installed")
        ask = command_runner(command)
        before_ns = self._clock_ns()
        said = ask()
        round_s = max((self._clock_ns() - before_ns) / 1e9, 1e-9)
        if said is None:
            return Missing(f"{command} does not answer; is the user in the group video?")
        rails = list(pairs_of(said))
        if not rails:
            return Missing(f"{command} pmic_read_adc names no rail: only a Raspberry Pi 5 has them")
        self._ask = ask
        self._header = _describe(rails, min(self._rate_hz, _BUSY_RATIO / round_s), said)
        return self._header

    def session(self, path: Path) -> PolledSession:
        """A recording of all rails."""
        if self._ask is None or self._header is None:
            raise MeasurementError("the meter rpi5 is not open")
        return PolledSession(self._read, self._header, path)

    def close(self) -> None:
        """Nothing is held."""
        self._ask = None

    def _read(self) -> list[Reading]:
        before_ns = self._clock_ns()
        said = self._ask() if self._ask is not None else None
        return [((before_ns + self._clock_ns()) // 2, said)]


def make_meter(options: Options) -> Rpi5:
    """From nothing, or a rate."""
    root = options.root()
    rate_hz = options.number("rate", RATE_MAX_HZ) or 0.0
    options.finish()
    return Rpi5(root, rate_hz=rate_hz)


def command_runner(command: Path) -> Ask:
    """Runs `vcgencmd pmic_read_adc`."""

    def ask() -> bytes | None:
        try:
            result = subprocess.run(
                [str(command), "pmic_read_adc"],
                capture_output=True,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return result.stdout if result.returncode == 0 else None

    return ask


def pairs_of(said: bytes) -> dict[str, tuple[float, float]]:
    r"""Amperes and volts of each rail that has both.

    >>> pairs_of(b" A_A current(7)=2.0A\n A_V volt(1)=1.5V\n EXT5V_V volt(24)=5.1V\n")
    {'A': (2.0, 1.5)}
    """
    found: dict[str, dict[str, float]] = {}
    for rail, quantity, value in _LINE.findall(said):
        found.setdefault(rail.decode(), {})[quantity.decode()] = float(value)
    return {rail: (one["A"], one["V"]) for rail, one in found.items() if len(one) == 2}


def _describe(rails: list[str], rate_hz: float, said: bytes) -> Header:
    return Header(
        driver=Rpi5.name,
        info=MeterInfo(
            vendor="Raspberry Pi",
            model="Raspberry Pi 5 power chip",
            raw_metadata=said.decode(errors="replace"),
        ),
        capability=Capability(
            driver=Rpi5.name,
            channels=tuple(Channel(rail, "pmic-rails") for rail in rails),
            rate_hz=rate_hz,
            is_averaging=False,
            clock_domain=HOST_CLOCK,
            loss_detection="wallclock",
            min_window_s=_MIN_WINDOW_VALUES / rate_hz,
        ),
        uncertainty=_uncertainty(rate_hz),
        facts={TOTAL: rails},
    )


def _uncertainty(rate_hz: float) -> tuple[UncertaintyTerm, ...]:
    model = UncertaintyTerm(
        kind=Kind.MODEL,
        value=MODEL_RATIO,
        unit=Unit.RATIO,
        reference="Raspberry Pi says nothing of its accuracy; USB and HATs are not inside",
    )
    edge = UncertaintyTerm(
        kind=Kind.EDGE,
        value=1 / rate_hz,
        unit=Unit.SECOND,
        is_common=False,
        reference="instants, that far apart",
    )
    return model, edge


class Rpi5Decoder(PolledDecoder):
    """What the command said to watts, rail by rail."""

    def points(self, readings: list[Reading]) -> list[Point]:
        """A point for each rail, in every round."""
        time_ns, said = readings[0]
        pairs = pairs_of(said or b"")
        names = [channel.name for channel in self._capability.channels]
        return [_point(channel, time_ns, pairs.get(name)) for channel, name in enumerate(names)]


def make_decoder(header: Header) -> Rpi5Decoder:
    """The decoder of a recording."""
    return Rpi5Decoder(header.capability)


def _point(channel: int, time_ns: int, pair: tuple[float, float] | None) -> Point:
    if pair is None:
        return Point(channel=channel, time_ns=time_ns, power_w=math.nan, flags=Flag.MISSING)
    current_a, voltage_v = pair
    return Point(
        channel=channel,
        time_ns=time_ns,
        power_w=current_a * voltage_v,
        current_a=current_a,
        voltage_v=voltage_v,
    )
