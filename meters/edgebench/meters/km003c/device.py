"""The KM003C as a meter. The tester is polled for readings, or its own queue is read.

    readings   GET_DATA ADC for each reading, with the host's clock, up to 500 per second
    queue      CONNECT · START_GRAPH · GET_DATA ADC_QUEUE, repeatedly · STOP_GRAPH

Samples in the queue are numbered, and timed by the tester's own clock. But a tester supplies its
queue only to a program that authenticates as a program of the maker. edgebench does not
authenticate. If a tester withholds its queue, edgebench reports the reason. Readings need no
authentication.

Source: okhsunrog/km003c-protocol-research, docs/protocol_reference.md, docs/usb_transport.md,
docs/features/authentication.md (without authentication, START_GRAPH is accepted, but the queue is
empty).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Header, MeterInfo
from edgebench.meters.bulk import BulkTransport, find_device
from edgebench.meters.cable import refuse_backwards, sign_of
from edgebench.meters.instrument import InstrumentMeter
from edgebench.meters.km003c.decoder import LIMIT_A, Km003cSettings
from edgebench.meters.km003c.messages import (
    ACCEPT,
    ADC,
    ADC_QUEUE,
    CONNECT,
    GET_DATA,
    PUT_DATA,
    QUEUE_RATES_HZ,
    START_GRAPH,
    STOP_GRAPH,
    kind_of,
    request,
    samples_of,
    values_of,
)
from edgebench.meters.options import Options
from edgebench.meters.polled import HOST_CLOCK, PolledSession, Reading, timed
from edgebench.meters.stream import StreamSession
from edgebench.meters.transport import Dialog
from edgebench.meters.uncertainty import CurrentLimit, Kind, Unit, term
from edgebench.protocol.errors import TargetError, UsageError
from edgebench.protocol.plain import to_plain

MODELS = {(0x5FC9, 0x0061): "KM002C", (0x5FC9, 0x0063): "KM003C"}
RATE_HZ = 200.0
RATE_MAX_HZ = 500.0
_INTERFACE, _OUT, _IN = 0, 0x01, 0x81
_RESPONSE_S = 1.0
_UNANSWERED_MAX = 5
_FETCH_S = 0.02
"""Time between two fetches of the queue. The queue fills with up to 1000 samples per second, and a
response holds up to 48 samples."""
_FIRST_S = 2.0
_STALE_MESSAGES = 64
"""Largest number of messages that an earlier client may have left unread."""
_QUIET_S = 0.02
_ASSUMED = "assumed: no ChargerLAB data sheet was available"
"""If a tester is less accurate than assumed, the stated uncertainty is too small."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Km003cSetup:
    """The user's options for a KM003C."""

    rate_hz: float = RATE_HZ
    is_queue: bool = False
    is_reversed: bool = False


class Km003cDialog(Dialog):
    """Sends requests, and matches each response with its request by number."""

    def __init__(self, transport: BulkTransport, response_s: float) -> None:
        super().__init__(transport)
        self.texts = transport.texts
        self._response_s = response_s
        self._number = 0
        self._unanswered_count = 0

    def query(self, kind: int, attribute: int = 0) -> bytes:
        """Send a request and return its response, or b"" on timeout; discard late responses.

        Raises:
            TargetError: the tester did not respond to several requests in a row.
        """
        self._number = (self._number + 1) % 256
        self._transport.write(request(kind, self._number, attribute))
        deadline_s = time.monotonic() + self._response_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            message = self._transport.read(left_s)
            if kind_of(message)[1] == self._number:
                self._unanswered_count = 0
                return message
        self._unanswered_count += 1
        if self._unanswered_count >= _UNANSWERED_MAX:
            raise TargetError(f"the tester did not respond {_UNANSWERED_MAX} times in a row")
        return b""

    def first_reading(self) -> tuple[float, float]:
        """Read the present voltage in V and current in A.

        Raises:
            TargetError: the device does not respond, or is not a KM003C.
        """
        for _ in range(_STALE_MESSAGES):
            if not self._transport.read(_QUIET_S):
                break
        message = self.query(GET_DATA, ADC) or self.query(GET_DATA, ADC)
        try:
            return values_of(message)
        except ValueError as exc:
            received = f"{len(message)} bytes" if message else "nothing"
            raise TargetError(f"no KM003C found: {received} in {self._response_s:g} s") from exc

    def reading(self) -> Reading:
        """Take a reading; its time is the middle of the request."""
        return timed(lambda: self.query(GET_DATA, ADC) or None)

    def start_graph(self, rate_number: int) -> None:
        """Start filling the tester's queue.

        Raises:
            TargetError: the tester rejects a command.
        """
        for kind, attribute in ((CONNECT, 0), (STOP_GRAPH, 0), (START_GRAPH, rate_number)):
            if kind_of(self.query(kind, attribute))[0] != ACCEPT and kind != STOP_GRAPH:
                raise TargetError(f"the tester rejected command {kind:#04x}")
        self.query(GET_DATA, ADC_QUEUE)  # discards the rest of an earlier recording

    def stop_graph(self) -> None:
        """Stop filling the tester's queue."""
        self.query(STOP_GRAPH)

    def read(self, timeout_s: float) -> bytes:
        """Fetch new samples as an undecoded message; b"" if none are available yet."""
        time.sleep(min(timeout_s, _FETCH_S))
        message = self.query(GET_DATA, ADC_QUEUE)
        is_data = kind_of(message)[0] == PUT_DATA and len(message) > 4
        return message if is_data else b""


class Km003c(InstrumentMeter[Km003cDialog]):
    """A KM003C or KM002C on USB."""

    name = "km003c"

    def __init__(
        self,
        connect: Callable[[], BulkTransport],
        setup: Km003cSetup | None = None,
        *,
        response_s: float = _RESPONSE_S,
    ) -> None:
        super().__init__(lambda: Km003cDialog(connect(), response_s))
        self.setup = setup or Km003cSetup()

    def _describe(self, connection: Km003cDialog) -> Header:
        """Request a reading, and check the queue if it is enabled."""
        setup = self.setup
        voltage_v, current_a = connection.first_reading()
        power_w = voltage_v * current_a * sign_of(setup.is_reversed)
        refuse_backwards(power_w, is_reversed=setup.is_reversed)
        if setup.is_queue:
            self._try_queue(connection)
        product, serial = connection.texts()
        own_clock = f"meter:km003c:{serial or 'unknown'}"
        crystal = (term(Kind.TIMEBASE, 100e-6, "assumed: a crystal"),)
        return Header(
            driver=self.name,
            info=MeterInfo(vendor="ChargerLAB", model=product or "POWER-Z KM003C", serial=serial),
            capability=Capability(
                driver=self.name,
                channels=(Channel("input", "USB cable to the device"),),
                rate_hz=setup.rate_hz,
                is_averaging=False,
                is_uniform=setup.is_queue,
                clock_domain=own_clock if setup.is_queue else HOST_CLOCK,
                loss_detection="counter" if setup.is_queue else "wallclock",
                min_window_s=20 / setup.rate_hz,
                arrival_error_s=_FETCH_S,
                current_limits=(CurrentLimit(limit_a=LIMIT_A, reference=_ASSUMED),),
            ),
            uncertainty=(
                *(crystal if setup.is_queue else ()),
                term(Kind.GAIN, 5e-3, _ASSUMED),
                term(Kind.OFFSET, 1e-3, _ASSUMED, Unit.AMPERE),
                term(Kind.EDGE, 1 / setup.rate_hz, "interval between the instantaneous samples"),
            ),
            facts=to_plain(Km003cSettings(is_reversed=setup.is_reversed, is_queue=setup.is_queue)),
        )

    def _record(
        self, connection: Km003cDialog, header: Header, path: Path
    ) -> PolledSession | StreamSession:
        if not self.setup.is_queue:
            return PolledSession(lambda: [connection.reading()], header, path)
        start, stop = partial(self._start, connection), connection.stop_graph
        return StreamSession(connection, header, path, start=start, stop=stop)

    def _start(self, dialog: Km003cDialog) -> None:
        dialog.start_graph(QUEUE_RATES_HZ.index(round(self.setup.rate_hz)))

    def _try_queue(self, dialog: Km003cDialog) -> None:
        """Check that the tester supplies its queue without authentication."""
        try:
            self._start(dialog)
            deadline_s = time.monotonic() + _FIRST_S
            while not _has_samples(dialog.read(_FETCH_S)):
                if time.monotonic() > deadline_s:
                    raise TargetError(
                        "this tester provides its sample queue only to its maker's programs: "
                        "leave out "
                        f"`queue` to poll it up to {RATE_MAX_HZ:g} times per second"
                    )
        finally:  # even after an error: an abandoned queue would keep filling
            dialog.stop_graph()


def _has_samples(message: bytes) -> bool:
    try:
        return bool(message) and len(samples_of(message).sequence) > 0
    except ValueError:  # damaged on the way; more will follow
        return False


def make_meter(options: Options) -> Km003c:
    """Create the meter of the tester with this serial number, or of the only tester."""
    is_queue = options.switch("queue")
    rate_hz = options.number("rate", max(QUEUE_RATES_HZ) if is_queue else RATE_HZ) or 0.0
    if is_queue and rate_hz not in QUEUE_RATES_HZ:
        rates = ", ".join(map(str, QUEUE_RATES_HZ))
        raise UsageError(f"KM003C queue rate must be {rates}, got {rate_hz:g}")
    if not is_queue and not 1 <= rate_hz <= RATE_MAX_HZ:
        raise UsageError(f"KM003C rate must be 1 to {RATE_MAX_HZ:g} Hz, got {rate_hz:g}")
    setup = Km003cSetup(rate_hz=rate_hz, is_queue=is_queue, is_reversed=options.switch("reversed"))
    serial = options.finish().address
    return Km003c(lambda: connect(serial), setup)


def connect(serial: str = "", backend: object = None) -> BulkTransport:
    """Open the only tester, or the tester with this serial number."""
    return BulkTransport(
        find_device(MODELS, serial, backend),
        interface=_INTERFACE,
        out_endpoint=_OUT,
        in_endpoint=_IN,
    )
