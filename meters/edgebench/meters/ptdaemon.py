r"""Client of SPEC PTDaemon, which MLPerf Power and SPECpower use to read power analysers.

    →                  ←
    Hello              Hello, PTDaemon here!
    Identify           <analyser>,<averaging ms>,<can: W,V,A,PF,…>,version=…,…,mode=power,…
    RR                 Ranges,<A automatic>,<A>,<V automatic>,<V>        -1: unknown
    Go,1000,0,<mark>   Starting untimed measurement, …
    RL                 Last N samples, and N lines; or: No unread samples
    Stop               Stopping untimed measurement

    a sample           Time,28-12-2020 15:21:14.682,Watts,22.95,Volts,228.57,Amps,0.20643,…,Mark,x

Lines end with \r\n. A sample is the analyser's mean over its averaging interval. The time of a
sample is the end of this interval by the wall clock of the daemon's machine, in whole milliseconds
and without a time zone. RL returns all unread samples, so nothing is lost between two requests. A
power of -1 W means that the analyser supplied no value. The daemon of a direct-current analyser
supports DC-RL instead of RL.

Clocks. The daemon's clock and the host's clock are assumed to differ by a constant. A sample cannot
be read before it was taken, so the constant is estimated as the least difference between the time
of a response and the time of its newest sample. The daemon is polled until a new sample arrives, so
the error of this estimate is a few milliseconds.

Source: mlcommons/power-dev, ptd_client_server/lib/server.py and compliance/check.py (Hello, RR, Go,
RL, DC-RL, Stop); SPEC CPU 2017, power analyser client in Perl (fields of Identify, "No unread").
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Header, MeterInfo
from edgebench.meters.instrument import InstrumentMeter
from edgebench.meters.options import Options
from edgebench.meters.polled import HOST_CLOCK, Point, PolledDecoder, PolledSession, Reading
from edgebench.meters.transport import (
    ByteStream,
    Connect,
    Dialog,
    TcpTransport,
    read_until,
    split_address,
)
from edgebench.meters.uncertainty import Kind, UncertaintyTerm, Unit, term
from edgebench.protocol.errors import TargetError, UsageError

PORT = 8888
"""Default port of the daemon."""
MARK = "edgebench"
_LINE = re.compile(rb"\r?\n")
_COUNT = re.compile(r"Last (\d+) samples?")
_NO_SAMPLE = re.compile(r"(?:No|Insufficient) unread|No data|Last 0 ")
_RESPONSE_S = 5.0
"""Time to wait for a response. This time is long, because the daemon may delay its response to RL
until a sample is available."""
_PAUSE_S = 0.02
"""Time between two requests while no new sample is available. A sample may arrive later by up to
this time. 50 short requests per second are assumed to be a negligible load for the daemon's
machine."""
_SILENT_INTERVALS = 5
"""Number of averaging intervals without a sample after which the analyser counts as stopped."""
_SAMPLES_MAX = 1 << 16
_MIN_WINDOW_SAMPLES = 20
_LATE_RATIO = 1.9
"""Samples were missed if more than this many averaging intervals lie between two samples."""
_STEP_NS = 1_000_000_000
"""Minimum difference between two samples' distance by the daemon's clock and by the host's that
counts as a step of the daemon's clock. A smaller difference occurs if the first of the samples
arrived late."""
NOT_GIVEN_W = (-1.0, -2.0)
"""Powers that the daemon writes if the analyser supplies no value, or does not respond. Source:
mlcommons/power-dev#38."""
_EPOCH = datetime(1970, 1, 1)
_INTERVALS_S = (0.01, 4.0)
"""Shortest and longest averaging interval that is accepted. Longer intervals are rejected, because
a session waits for one more sample before it ends."""
_GAIN_RATIO = 0.01
_GAIN_SOURCE = (
    "SPEC Power and Performance Benchmark Methodology: 1 % or better, as MLPerf Power requires; "
    "the daemon's own figure is in its log"
)
_OF_RANGE = 1e-3
"""Error of a power as a share of the range. The total error also contains a share of the reading.

Source: Yokogawa IM WT310E-02EN, 7.3.2: 0.05 % at 45 to 66 Hz, and 0.1 % at crest factor 6; IM
WT310-02EN: 0.1 % for the WT310."""
_RANGE_MAX = 1e4
"""Highest plausible range in volts or amperes. A higher value in a response does not count as a
range. This limit is assumed: the ranges of a WT310E end at 600 V and 20 A, and a current
transformer multiplies the amperes."""
_LEAST_FIELDS = 12
"""Minimum number of fields in an analyser's Identify response. Source: the Perl client of SPEC
CPU 2017."""


class PtdLink(Dialog):
    """Sends requests to the daemon and receives its response lines."""

    def __init__(self, transport: ByteStream) -> None:
        super().__init__(transport)
        self._received = b""

    def query(self, command: str) -> str:
        """Send a command and return the first line of the response.

        Raises:
            TargetError: the daemon does not respond in time.
        """
        self.write(command.encode("ascii") + b"\r\n")
        return self.line(command)

    def line(self, command: str) -> str:
        """Read the next line.

        Raises:
            TargetError: no line arrives in time.
        """
        self._received = read_until(self._transport, _LINE, _RESPONSE_S, self._received)
        end = _LINE.search(self._received)
        if end is None:
            raise TargetError(f"PTDaemon did not respond to `{command}` within {_RESPONSE_S:g} s")
        line, self._received = self._received[: end.start()], self._received[end.end() :]
        return line.decode("ascii", "replace")


class PtDaemon(InstrumentMeter[PtdLink]):
    """The power analyser of a PTDaemon."""

    name = "ptdaemon"

    def __init__(self, connect: Connect) -> None:
        super().__init__(lambda: PtdLink(connect()))

    def _describe(self, connection: PtdLink) -> Header:
        """Identify the analyser without disturbing a measurement of another client."""
        hello = connection.query("Hello")
        if not hello.startswith("Hello, PTDaemon"):
            raise TargetError(f"not a PTDaemon: it replied {hello[:40]!r} to `Hello`")
        identity = connection.query("Identify")
        interval_s = _interval_s(identity)
        fields = identity.split(",")
        version = next((field[8:] for field in fields if field.startswith("version=")), "")
        ranges = connection.query("RR")
        return Header(
            driver=self.name,
            info=MeterInfo(
                vendor="PTDaemon", model=fields[0], firmware=version, raw_metadata=identity
            ),
            capability=Capability(
                driver=self.name,
                channels=(Channel("analyser", "what the power analyser feeds, as wired"),),
                rate_hz=1 / interval_s,
                is_averaging=True,
                smoothing_s=interval_s,
                clock_domain=HOST_CLOCK,
                loss_detection="device_timestamps",
                min_window_s=_MIN_WINDOW_SAMPLES * interval_s,
            ),
            uncertainty=_uncertainty(interval_s, ranges),
            facts={"ranges": ranges},
        )

    def _record(self, connection: PtdLink, header: Header, path: Path) -> PolledSession:
        return PtdSession(connection, header, path)


class PtdSession(PolledSession):
    """Starts a measurement on the daemon, reads its samples as they arrive, and stops it."""

    def __init__(self, link: PtdLink, header: Header, path: Path) -> None:
        super().__init__(self._samples, header, path)
        self._link = link
        self._sample_s = 1 / header.capability.rate_hz
        self._command = "RL"
        self._is_begun = False

    def _begin(self) -> None:
        response = self._link.query(f"Go,{round(1000 * self._sample_s)},0,{MARK}")
        if not response.startswith("Starting"):
            raise TargetError(f"PTDaemon did not start a measurement: {response[:80]}")
        self._is_begun = True
        super()._begin()

    def _finish(self) -> None:
        if self._is_begun:  # otherwise another client is measuring, and continues
            super()._finish()
            self._link.query("Stop")

    def _samples(self) -> list[Reading]:
        """Wait for a new sample; return all responses until then, each with its arrival time."""
        silent_s = _SILENT_INTERVALS * self._sample_s + _RESPONSE_S
        deadline_s = time.monotonic() + silent_s
        readings = self._response()  # may be old: the samples waited for this request
        while not (readings and self._is_over.is_set()):
            time.sleep(_PAUSE_S)
            if newer := self._response():
                return readings + newer
            if time.monotonic() > deadline_s:
                raise TargetError(f"PTDaemon delivered no sample for {silent_s:g} s")
        return readings

    def _response(self) -> list[Reading]:
        """Response to a request; empty if no sample is available."""
        head = self._link.query(self._command)
        if head.startswith("Unknown command") and self._command == "RL":
            self._command = "DC-RL"  # as mlcommons/power-dev does
            head = self._link.query(self._command)
        if _NO_SAMPLE.match(head):
            return []
        match = _COUNT.match(head)
        if match is None or int(match[1]) > _SAMPLES_MAX:
            raise TargetError(f"PTDaemon replied {head[:60]!r} to `{self._command}`")
        lines = [self._link.line(self._command) for _ in range(int(match[1]))]
        return [(time.perf_counter_ns(), "\n".join(lines).encode())]


class PtDaemonDecoder(PolledDecoder):
    """Converts the daemon's samples to the host's clock."""

    def __init__(self, header: Header) -> None:
        super().__init__(header)
        self._interval_ns = round(1e9 / header.capability.rate_hz)
        self._offset_ns: int | None = None
        """Lowest value so far of host time minus daemon time."""
        self._newest_ns: int | None = None
        """Daemon time of the last sample."""
        self._placed_ns: int | None = None
        """Daemon time of the last sample that has a point."""
        self._end_ns: int | None = None
        """Host time of this sample."""

    def points(self, readings: list[Reading]) -> list[Point]:
        """Return a point for each sample in the responses, and points without a value for gaps."""
        return [point for reading in readings for point in self._answered(*reading)]

    def _answered(self, rx_ns: int, content: bytes | None) -> Iterator[Point]:
        samples = [sample for line in (content or b"").splitlines() if (sample := sample_of(line))]
        if not samples:
            return
        newest_ns = samples[-1][0]
        if self._newest_ns is not None and newest_ns < self._newest_ns:
            # The daemon's clock was set back.
            self._offset_ns = self._newest_ns = self._placed_ns = None
        least_ns = rx_ns - newest_ns
        self._offset_ns = min(least_ns, least_ns if self._offset_ns is None else self._offset_ns)
        for taken_ns, power_w in samples:
            if self._newest_ns is None or taken_ns > self._newest_ns:
                self._newest_ns = taken_ns
                yield from self._placed(taken_ns, taken_ns + self._offset_ns, power_w)

    def _placed(self, taken_ns: int, end_ns: int, power_w: float) -> Iterator[Point]:
        """Yield points without a value for a gap, then the point that ends at this time.

        The daemon's clock counts the missed samples, because host times move if the last sample
        arrived late. A sample that would end before the last point has no point, and is one of the
        missed samples before the next point.

        Args:
            taken_ns: Daemon time of the sample.
            end_ns: Host time of the sample.
            power_w: NaN if the sample has no value.
        """
        begin_ns = end_ns - self._interval_ns if self._end_ns is None else self._end_ns
        if end_ns <= begin_ns:
            return
        passed_ns = end_ns - begin_ns
        if self._placed_ns is not None and taken_ns - self._placed_ns - passed_ns <= _STEP_NS:
            passed_ns = taken_ns - self._placed_ns
        self._placed_ns = taken_ns
        missed = max(0, math.ceil(passed_ns / self._interval_ns - _LATE_RATIO))
        step_ns = min(self._interval_ns, (end_ns - begin_ns) // (missed + 1))
        for _ in range(missed):
            yield Point.missing(begin_ns + step_ns, begin_ns=begin_ns)
            begin_ns += step_ns
        self._end_ns = end_ns
        if math.isnan(power_w):
            yield Point.missing(end_ns, begin_ns=begin_ns)
        else:
            yield Point(end_ns, power_w, begin_ns=begin_ns)


def sample_of(line: bytes) -> tuple[int, float] | None:
    """Daemon time in nanoseconds, and power of all channels; None if the line is not a sample.

    >>> sample_of(b"Time,01-01-1970 00:00:01.500,Watts,22.95,Volts,228.57,Amps,0.2,PF,0.48,Mark,x")
    (1500000000, 22.95)
    """
    words = line.decode("ascii", "replace").strip().split(",")
    values = dict(reversed(list(zip(words[0::2], words[1::2], strict=False))))  # first value wins
    try:
        sample_time = datetime.strptime(values["Time"], "%d-%m-%Y %H:%M:%S.%f")
        power_w = power_of(values)
    except (KeyError, ValueError):
        return None
    return (sample_time - _EPOCH) // timedelta(microseconds=1) * 1000, power_w


def power_of(values: Mapping[str, str]) -> float:
    """Power of a sample in watts; NaN if the analyser supplied no value.

    Without a value, the daemon writes -1 or -2 for voltage and current, too. The importer of
    PTDaemon's logs also uses this function.

    Args:
        values: Values of a line by name.

    Raises:
        KeyError: the line has no power.
        ValueError: a value is not a number.

    >>> power_of({"Watts": "3.44", "Volts": "229.8", "Amps": "0.031"})
    3.44
    >>> power_of({"Watts": "-2.000000", "Volts": "-2.0", "Amps": "-2.0"})
    nan
    """
    power_w = float(values["Watts"])
    sides = [float(values[name]) for name in ("Volts", "Amps") if name in values]
    is_given = math.isfinite(power_w) and power_w not in NOT_GIVEN_W
    return power_w if is_given and not any(side in NOT_GIVEN_W for side in sides) else math.nan


def make_meter(options: Options) -> PtDaemon:
    """Create the meter of the daemon at an address."""
    host, port = split_address(options.finish().address, PORT)

    def connect() -> ByteStream:
        if not host:  # daemons are not searched for
            raise UsageError(
                "name the machine that PTDaemon runs on, as in ptdaemon:192.168.1.9 or "
                f"ptdaemon:localhost:{PORT}"
            )
        return TcpTransport(host, port, "PTDaemon")

    return PtDaemon(connect)


def _interval_s(identity: str) -> float:
    """Averaging interval of the power analyser, from the Identify response.

    Raises:
        TargetError: the daemon has no power analyser, or the interval is invalid.
    """
    fields = identity.split(",")
    if len(fields) < _LEAST_FIELDS:
        raise TargetError(f"PTDaemon replied {identity[:60]!r} to `Identify`: not an analyser")
    if "mode=temperature" in fields or fields[2] != "1":
        raise TargetError(
            f"this PTDaemon has {fields[0]}, not a power analyser: name the daemon that has one"
        )
    interval_s = float(fields[1]) / 1000 if fields[1].strip().isdigit() else 0.0
    low_s, high_s = _INTERVALS_S
    if not low_s <= interval_s <= high_s:
        raise TargetError(f"PTDaemon reports an invalid averaging interval: {fields[1][:20]!r} ms")
    return interval_s


def _uncertainty(interval_s: float, ranges: str) -> tuple[UncertaintyTerm, ...]:
    gain = term(Kind.GAIN, _GAIN_RATIO, _GAIN_SOURCE)
    edge = term(Kind.EDGE, interval_s, "assumed: a sample may be of the previous interval")
    words = ranges.split(",")
    try:
        range_a, range_v = float(words[2]), float(words[4])
    except (IndexError, ValueError):
        return (gain, edge)
    if not (0 < range_a <= _RANGE_MAX and 0 < range_v <= _RANGE_MAX):  # -1, inf, nan
        return (gain, edge)
    where = f"assumed, as for a WT310E: initial range {words[4]} V, {words[2]} A"
    return (gain, term(Kind.OFFSET, _OF_RANGE * range_a * range_v, where, Unit.WATT), edge)
