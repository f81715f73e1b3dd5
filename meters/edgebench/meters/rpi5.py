"""Converters in the power management chip of a Raspberry Pi 5, read by `vcgencmd pmic_read_adc`.

Theory of operation. The firmware prints a current and a voltage for each of twelve rails. The
current and the voltage of a rail are matched by the rail's name, not by the numbers in parentheses:

     VDD_CORE_A current(7)=1.91102000A
     VDD_CORE_V volt(15)=0.87355220V

EXT5V and BATT have only a voltage. The rails are outputs of the chip. So the sum of their powers
includes neither the losses of the regulators nor the loads on 5 V, such as USB and HATs. The sum is
therefore less than the power of the supply. The sum is not scaled up, because published scale
factors do not apply to other boards. Each query starts a process, which costs power on the measured
board. So there are at most ten queries per second.

Source: raspberrypi/documentation, os/graphics-utilities.adoc; zeus#273; raspberrypi/linux#6473
"""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Header, MeterInfo
from edgebench.meters.file_meter import is_there
from edgebench.meters.instrument import InstrumentMeter
from edgebench.meters.options import Options
from edgebench.meters.polled import (
    HOST_CLOCK,
    Clock,
    Point,
    PolledDecoder,
    PolledSession,
    Reading,
    timed,
)
from edgebench.meters.rails import TOTAL
from edgebench.meters.uncertainty import Kind, term
from edgebench.protocol.errors import TargetError, UsageError

RATE_MAX_HZ = 10.0
MODEL_RATIO = 0.1
"""Assumed error, because the accuracy of the converters is undocumented."""
_BUSY_RATIO = 0.1
"""Maximum share of the time that queries may take, because a query keeps a core busy."""
_COMMANDS = ("usr/bin/vcgencmd", "opt/vc/bin/vcgencmd")
_TIMEOUT_S = 2.0
_MIN_WINDOW_VALUES = 100
_LINE = re.compile(rb"(\w+)_([AV])\s+(?:current|volt)\(\d+\)=(-?\d+(?:\.\d+)?)[AV]")
_NO_ACCURACY = "assumed: Raspberry Pi states no accuracy; USB and HATs are not included"


class Vcgencmd:
    """The command that queries the firmware."""

    def __init__(self, command: Path, clock_ns: Clock) -> None:
        self.command = command
        self._clock_ns = clock_ns

    def read(self) -> list[Reading]:
        """Query once, and return the output with its time."""
        return [timed(self.query, self._clock_ns)]

    def close(self) -> None:
        """Do nothing: no resource is held between two queries."""

    def query(self) -> bytes | None:
        """Run `pmic_read_adc` and return its output; None if the command failed."""
        words = [str(self.command), "pmic_read_adc"]
        try:
            result = subprocess.run(words, capture_output=True, timeout=_TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return result.stdout if result.returncode == 0 else None


class Rpi5Meter(InstrumentMeter[Vcgencmd]):
    """The power management chip of this board."""

    name = "rpi5"

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        rate_hz: float = RATE_MAX_HZ,
        clock_ns: Clock = time.perf_counter_ns,
    ) -> None:
        if not 0 < rate_hz <= RATE_MAX_HZ:
            raise UsageError(
                f"rpi5 rate must be above 0 and at most {RATE_MAX_HZ:g} Hz, got {rate_hz:g}"
            )
        super().__init__(self._find)
        self._root = root
        self._rate_hz = rate_hz
        self._clock_ns = clock_ns

    def _find(self) -> Vcgencmd:
        command = next((self._root / c for c in _COMMANDS if is_there(self._root / c)), None)
        if command is None:
            raise TargetError(
                "vcgencmd not found: not a Raspberry Pi, or its tools are not installed"
            )
        return Vcgencmd(command, self._clock_ns)

    def _describe(self, connection: Vcgencmd) -> Header:
        """Query once, to find the rails and measure the duration of a query."""
        before_ns = self._clock_ns()
        content = connection.query()
        round_s = max((self._clock_ns() - before_ns) / 1e9, 1e-9)
        command = connection.command
        if content is None:
            raise TargetError(f"{command} failed: check that the user is in the group video")
        rails = list(pairs_of(content))
        if not rails:
            raise TargetError(
                f"{command} pmic_read_adc lists no rail: it requires a Raspberry Pi 5"
            )
        rate_hz = min(self._rate_hz, _BUSY_RATIO / round_s)
        return Header(
            driver=self.name,
            info=MeterInfo(
                vendor="Raspberry Pi",
                model="Raspberry Pi 5 power chip",
                raw_metadata=content.decode(errors="replace"),
            ),
            capability=Capability(
                driver=self.name,
                channels=tuple(Channel(rail, "pmic-rails") for rail in rails),
                rate_hz=rate_hz,
                is_averaging=False,
                clock_domain=HOST_CLOCK,
                loss_detection="wallclock",
                min_window_s=_MIN_WINDOW_VALUES / rate_hz,
            ),
            uncertainty=(
                term(Kind.MODEL, MODEL_RATIO, _NO_ACCURACY),
                term(Kind.EDGE, 1 / rate_hz, "interval between the instantaneous samples"),
            ),
            facts={TOTAL: rails},
        )

    def _record(self, connection: Vcgencmd, header: Header, path: Path) -> PolledSession:
        return PolledSession(connection.read, header, path)


def make_meter(options: Options) -> Rpi5Meter:
    """Create the meter of this board; without the option `rate`, the rate is the highest one."""
    root = options.root()
    rate_hz = options.number("rate", RATE_MAX_HZ) or 0.0
    options.finish()
    return Rpi5Meter(root, rate_hz=rate_hz)


def pairs_of(content: bytes) -> dict[str, tuple[float, float]]:
    r"""Current in A and voltage in V of each rail for which both values are printed.

    >>> pairs_of(b" A_A current(7)=2.0A\n A_V volt(1)=1.5V\n EXT5V_V volt(24)=5.1V\n")
    {'A': (2.0, 1.5)}
    """
    rails: dict[str, dict[str, float]] = {}
    for rail, quantity, value in _LINE.findall(content):
        rails.setdefault(rail.decode(), {})[quantity.decode()] = float(value)
    return {rail: (values["A"], values["V"]) for rail, values in rails.items() if len(values) == 2}


class Rpi5Decoder(PolledDecoder):
    """Turns the command's output into power per rail."""

    def points(self, readings: list[Reading]) -> list[Point]:
        """Return a point for each rail from the output of one query."""
        [(time_ns, content)] = readings
        pairs = pairs_of(content or b"")
        points = []
        for place, channel in enumerate(self._capability.channels):
            if channel.name not in pairs:
                points.append(Point.missing(time_ns, place))
                continue
            current_a, voltage_v = pairs[channel.name]
            power_w = current_a * voltage_v
            points.append(Point(time_ns, power_w, place, current_a=current_a, voltage_v=voltage_v))
        return points
