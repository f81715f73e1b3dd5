"""Smart plugs: wall power about once a second, over the local network.

A plug shows the power that its metering chip computed last. Cheap chips (HLW8012, BL0937) give a
pulse for some joules: at 12 W one a second, at 1.2 W one in ten. So a value is late by seconds
where the power is low, and what a plug shows of a small board is an average over them.

An answer that does not come is a missing value: a plug's radio may be busy. One that has not
answered five times is gone. Plugs are read and never switched.

Source: https://labparvum.com/shelly-power-plug-s-with-esphome (pulses of the HLW8012).
"""

from __future__ import annotations

import http.client
import json
import math
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from edgebench.meters.base import Capability, Channel, Header, MeterInfo
from edgebench.meters.instrument import InstrumentMeter
from edgebench.meters.options import Options
from edgebench.meters.polled import HOST_CLOCK, Point, PolledDecoder, PolledSession, Reading, timed
from edgebench.meters.transport import split_address
from edgebench.meters.uncertainty import Kind, Origin, Unit, term
from edgebench.protocol.errors import TargetError, UsageError
from edgebench.protocol.text import one_line

RATE_HZ = 1.0
RATE_LIMITS_HZ = (0.1, 5.0)
MIN_WINDOW_S = 60.0
"""As many seconds as values, at least; also many times what a plug may be late by."""
_HTTP_PORT = 80
"""Port of a web server where an address names none: RFC 9110, section 4.2.1."""
_ANSWER_S = 2.0
"""Assumed: longer than a plug's busy radio keeps an answer; five that do not come are 10 s."""
_ANSWER_MAX_BYTES = 1 << 16
_SILENT_ANSWERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PlugReading:
    """Values of one answer."""

    power_w: float
    current_a: float = math.nan
    voltage_v: float = math.nan
    step_w: float = 0.1
    """Step of the power, as it is written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlugTraits:
    """Errors of a family of plugs."""

    gain_ratio: float
    gain_reference: str
    gain_origin: Origin = Origin.ASSUMED
    offset_w: float
    lag_s: float
    """Time by which a value may be late."""


class PlugLink(Protocol):
    """Connection to one plug that has said who it is."""

    info: MeterInfo

    def ask(self) -> bytes:
        """One answer with a power.

        Raises:
            TargetError: there is none.
        """
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class Plug(InstrumentMeter[PlugLink]):
    """One plug."""

    def __init__(
        self,
        name: str,
        connect: Callable[[], PlugLink],
        read: Callable[[bytes], PlugReading | None],
        *,
        traits: PlugTraits,
        rate_hz: float,
    ) -> None:
        super().__init__(connect)
        self.name = name
        self._read = read
        self._traits = traits
        self._rate_hz = rate_hz
        self._silent_count = 0

    def _describe(self, connection: PlugLink) -> Header:
        """Read it once: an answer without a power is of a plug that measures none."""
        answer = connection.ask()
        reading = self._read(answer)
        if reading is None:
            raise TargetError(f"{connection.info.model} measures no power: {answer[:60]!r}")
        traits, assumed = self._traits, "assumed for plugs"
        return Header(
            driver=self.name,
            info=connection.info,
            capability=Capability(
                driver=self.name,
                channels=(Channel("plug", "wall"),),
                rate_hz=self._rate_hz,
                is_averaging=False,
                smoothing_s=traits.lag_s,
                clock_domain=HOST_CLOCK,
                loss_detection="wallclock",
                min_window_s=max(MIN_WINDOW_S, 20 / self._rate_hz),
            ),
            uncertainty=(
                term(
                    *(Kind.GAIN, traits.gain_ratio, traits.gain_reference),
                    origin=traits.gain_origin,
                ),
                term(Kind.OFFSET, traits.offset_w, f"{assumed}: below this, 0", Unit.WATT),
                term(Kind.RESOLUTION, reading.step_w / 2, "half a step as shown", Unit.WATT),
                term(
                    *(Kind.EDGE, max(traits.lag_s, 1 / self._rate_hz)),
                    f"{assumed}: the metering chip's average, and the poll",
                ),
            ),
        )

    def _record(self, connection: PlugLink, header: Header, path: Path) -> PolledSession:
        self._silent_count = 0
        return PolledSession(lambda: [timed(lambda: self._answer(connection))], header, path)

    def _answer(self, link: PlugLink) -> bytes | None:
        try:
            answer = link.ask()
        except TargetError as exc:
            self._silent_count += 1
            if self._silent_count >= _SILENT_ANSWERS:
                raise TargetError(f"{_SILENT_ANSWERS} times in a row: {exc}") from exc
            return None
        self._silent_count = 0
        return answer


class PlugDecoder(PolledDecoder, ABC):
    """One answer per point; one without a power is missing."""

    @staticmethod
    @abstractmethod
    def read(answer: bytes) -> PlugReading | None:
        """Values of an answer; None where it has none."""

    def points(self, readings: list[Reading]) -> list[Point]:
        """The one answer of a round."""
        [(time_ns, content)] = readings
        reading = None if content is None else self.read(content)
        if reading is None:
            return [Point.missing(time_ns)]
        return [
            Point(
                time_ns,
                reading.power_w,
                current_a=reading.current_a,
                voltage_v=reading.voltage_v,
            )
        ]


class HttpHost:
    """Web server of a plug; no proxy is asked, for it is in the same network."""

    def __init__(self, driver: str, address: str) -> None:
        """Nothing is connected yet.

        Args:
            driver: Who asks, for people.
            address: HOST or HOST:PORT.
        """
        self._name = f"{driver} at {address}"
        self._base = f"http://{address}"
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(self, path: str) -> bytes:
        """Content of a page.

        Raises:
            TargetError: there is none.
        """
        try:
            with self._opener.open(self._base + path, timeout=_ANSWER_S) as page:
                return bytes(page.read(_ANSWER_MAX_BYTES))
        except urllib.error.HTTPError as exc:
            why = (
                "asks for a password, which edgebench does not send: switch it off in the plug"
                if exc.code in (401, 403)
                else f"answers {path} with error {exc.code}"
            )
            raise TargetError(f"the {self._name} {why}") from exc
        except (OSError, ValueError) as exc:
            why = one_line(getattr(exc, "reason", None) or exc)
            raise TargetError(f"no {self._name}: {why}") from exc
        except http.client.HTTPException as exc:
            why = f"it does not answer like a web server: {one_line(exc)}"
            raise TargetError(f"no {self._name}: {why}") from exc

    def get_json(self, path: str) -> dict[str, Any]:
        """Content of a page that is a JSON object.

        Raises:
            TargetError: there is none.
        """
        document = object_of(self.get(path))
        if document is None:
            raise TargetError(f"no {self._name}: {path} is not what a {self._name.split()[0]} says")
        return document


def object_of(content: bytes) -> dict[str, Any] | None:
    """JSON object; None where it is none."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):  # RecursionError: nested too deeply
        return None
    return document if isinstance(document, dict) else None


def number_in(values: dict[str, Any], name: str) -> float:
    """A number, the sum of a list of them (phases), or NaN."""
    value = values.get(name)
    parts = value if isinstance(value, list) else [value]
    numbers = [one for one in parts if isinstance(one, (int, float)) and not isinstance(one, bool)]
    if not numbers or len(numbers) != len(parts):
        return math.nan
    try:
        total = float(sum(numbers))
    except OverflowError:  # an integer that no float holds
        return math.nan
    return total if math.isfinite(total) else math.nan


def refuse_nameless(driver: str, address: str) -> None:
    """Refuse a plug without an address: nobody searches for them.

    Raises:
        UsageError: there is none.
    """
    if not address:
        raise UsageError(f"name the plug, as in {driver}:192.168.1.20")


def web_address_of(options: Options) -> str:
    """Address of a plug's web server, as HttpHost takes it; nothing else may be left to say.

    Raises:
        UsageError: its port is no number of one, or an option is unknown.
    """
    address = options.finish().address
    split_address(address, _HTTP_PORT)  # refuses a port that is none
    return address


def rate_of(options: Options) -> float:
    """Polls per second.

    Raises:
        UsageError: a plug takes no such rate.
    """
    return options.within("rate", RATE_HZ, RATE_LIMITS_HZ)
