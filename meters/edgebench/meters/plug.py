"""Smart plugs: wall power about once per second, over the local network.

A plug reports the power that its metering chip computed last. Cheap chips (HLW8012, BL0937) emit a
pulse for each fixed amount of energy: every second at 12 W, every ten seconds at 1.2 W. So at low
power, a value is some seconds late, and is an average over these seconds.

A missing response becomes a missing value, because a plug's radio may be busy. After five missing
responses in a row, the recording ends. Plugs are only read, never switched.

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
"""Shortest window whose energy is meaningful. The window contains 60 values at 1 Hz, and is much
longer than the lag of a plug."""
_HTTP_PORT = 80
"""Port of a plug's web server if the address contains no port. Source: RFC 9110, section 4.2.1."""
_RESPONSE_S = 2.0
"""Time to wait for a response; assumed to exceed the delay of a plug's busy radio. So five missing
responses end a recording after 10 s."""
_RESPONSE_MAX_BYTES = 1 << 16
_UNANSWERED_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PlugReading:
    """Values of a plug's response; NaN if the plug does not report the value."""

    power_w: float
    current_a: float = math.nan
    voltage_v: float = math.nan
    step_w: float = 0.1
    """Resolution of the power as transmitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlugTraits:
    """Measurement errors of a family of plugs."""

    gain_ratio: float
    gain_reference: str
    gain_origin: Origin = Origin.ASSUMED
    offset_w: float
    lag_s: float
    """Largest delay between a change of power and the value that shows it."""


class PlugLink(Protocol):
    """Connection to an identified plug."""

    info: MeterInfo

    def query(self) -> bytes:
        """Request the present power and return the undecoded response.

        Raises:
            TargetError: the plug does not respond.
        """
        ...

    def close(self) -> None:
        """Release the connection."""
        ...


class Plug(InstrumentMeter[PlugLink]):
    """A smart plug that measures power."""

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
        self._unanswered_count = 0

    def _describe(self, connection: PlugLink) -> Header:
        """Read the plug once, and reject it if its response contains no power."""
        response = connection.query()
        reading = self._read(response)
        if reading is None:
            raise TargetError(f"{connection.info.model} reports no power: {response[:60]!r}")
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
                term(
                    Kind.OFFSET,
                    traits.offset_w,
                    f"{assumed}: power below this value is shown as 0",
                    Unit.WATT,
                ),
                term(Kind.RESOLUTION, reading.step_w / 2, "half a step as shown", Unit.WATT),
                term(
                    *(Kind.EDGE, max(traits.lag_s, 1 / self._rate_hz)),
                    f"{assumed}: averaging of the metering chip, and the polling interval",
                ),
            ),
        )

    def _record(self, connection: PlugLink, header: Header, path: Path) -> PolledSession:
        self._unanswered_count = 0
        return PolledSession(lambda: [timed(lambda: self._response(connection))], header, path)

    def _response(self, link: PlugLink) -> bytes | None:
        try:
            response = link.query()
        except TargetError as exc:
            self._unanswered_count += 1
            if self._unanswered_count >= _UNANSWERED_MAX:
                raise TargetError(f"{_UNANSWERED_MAX} times in a row: {exc}") from exc
            return None
        self._unanswered_count = 0
        return response


class PlugDecoder(PolledDecoder, ABC):
    """Makes a point from each response; a response without a power becomes a missing value."""

    @staticmethod
    @abstractmethod
    def read(response: bytes) -> PlugReading | None:
        """Parse the values in a response; None if it contains no power."""

    def points(self, readings: list[Reading]) -> list[Point]:
        """Return the point of a polling round, which has a single response."""
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
    """Web server of a plug; requests bypass proxies, because plugs are on the local network."""

    def __init__(self, driver: str, address: str) -> None:
        """Prepare requests; nothing is connected yet.

        Args:
            driver: Name of the driver, used in messages.
            address: HOST or HOST:PORT.
        """
        self._name = f"{driver} at {address}"
        self._base = f"http://{address}"
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(self, path: str) -> bytes:
        """Load a page and return its content.

        Raises:
            TargetError: the page cannot be loaded.
        """
        try:
            with self._opener.open(self._base + path, timeout=_RESPONSE_S) as page:
                return bytes(page.read(_RESPONSE_MAX_BYTES))
        except urllib.error.HTTPError as exc:
            why = (
                "requires a password, which edgebench does not support: disable it in the plug"
                if exc.code in (401, 403)
                else f"rejected {path} with error {exc.code}"
            )
            raise TargetError(f"the {self._name} {why}") from exc
        except (OSError, ValueError) as exc:
            why = one_line(getattr(exc, "reason", None) or exc)
            raise TargetError(f"no {self._name}: {why}") from exc
        except http.client.HTTPException as exc:
            why = f"the response is not HTTP: {one_line(exc)}"
            raise TargetError(f"no {self._name}: {why}") from exc

    def get_json(self, path: str) -> dict[str, Any]:
        """Load a page that contains a JSON object, and return the object.

        Raises:
            TargetError: the page cannot be loaded, or is not a JSON object.
        """
        document = object_of(self.get(path))
        if document is None:
            raise TargetError(f"no {self._name}: {path} is not a page of {self._name.split()[0]}")
        return document


def object_of(content: bytes) -> dict[str, Any] | None:
    """Parse a JSON object; None if the content is something else."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):  # RecursionError: nested too deeply
        return None
    return document if isinstance(document, dict) else None


def number_in(values: dict[str, Any], name: str) -> float:
    """Number with this name, or the sum if it is a list of numbers (phases); NaN otherwise."""
    value = values.get(name)
    parts = value if isinstance(value, list) else [value]
    numbers = [
        part for part in parts if isinstance(part, (int, float)) and not isinstance(part, bool)
    ]
    if not numbers or len(numbers) != len(parts):
        return math.nan
    try:
        total = float(sum(numbers))
    except OverflowError:  # an integer too large for a float
        return math.nan
    return total if math.isfinite(total) else math.nan


def refuse_nameless(driver: str, address: str) -> None:
    """Reject an empty address, because drivers do not search for plugs.

    Raises:
        UsageError: the address is empty.
    """
    if not address:
        raise UsageError(f"plug address missing: add the address, as in {driver}:192.168.1.20")


def web_address_of(options: Options) -> str:
    """Address of a plug's web server for HttpHost; rejects any remaining options.

    Raises:
        UsageError: the port is not a number from 1 to 65535, or an option is unknown.
    """
    address = options.finish().address
    split_address(address, _HTTP_PORT)  # rejects an invalid port
    return address


def rate_of(options: Options) -> float:
    """Polls per second, from the option `rate`.

    Raises:
        UsageError: the rate is outside the limits of plugs.
    """
    return options.within("rate", RATE_HZ, RATE_LIMITS_HZ)
