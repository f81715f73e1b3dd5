"""A KM003C: found, asked for readings, or for its own queue of them.

    readings   GET_DATA ADC for each, on the host's clock, to 500 a second
    queue      CONNECT · START_GRAPH · GET_DATA ADC_QUEUE, again and again · STOP_GRAPH

The queue is on the tester's own clock and numbers its samples, but a tester gives it only to a
program that proves to be its maker's. That proof is not ours to give: a tester that keeps its queue
to itself is told so in one line. Readings need none.

Source: okhsunrog/km003c-protocol-research, docs/protocol_reference.md, docs/usb_transport.md,
docs/features/authentication.md (without the proof START_GRAPH is accepted, and the queue empty).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Header, MeterInfo, MeterSession, Missing
from edgebench.meters.bulk import BulkTransport, find_device
from edgebench.meters.cable import refuse_backwards, sign_of
from edgebench.meters.km003c.decoder import LIMIT_A, Settings
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
    question,
    queued_of,
    values_of,
)
from edgebench.meters.options import Options
from edgebench.meters.polled import HOST_CLOCK, PolledSession, Reading
from edgebench.meters.stream import StreamSession
from edgebench.meters.uncertainty import CurrentLimit, Kind, UncertaintyTerm, Unit
from edgebench.protocol.codec import to_plain
from edgebench.protocol.errors import EdgebenchError, MeasurementError, TargetError, UsageError

MODELS = {(0x5FC9, 0x0061): "KM002C", (0x5FC9, 0x0063): "KM003C"}
RATE_HZ = 200.0
RATE_MAX_HZ = 500.0
_INTERFACE, _OUT, _IN = 0, 0x01, 0x81
_ANSWER_S = 1.0
_SILENT_ANSWERS = 5
_FETCH_S = 0.02
"""Of the queue: an answer holds 48 samples at most, so at 50 ms they would come too slowly."""
_FIRST_S = 2.0
_STALE_MESSAGES = 64
"""So many may be left of whoever asked before."""
_QUIET_S = 0.02
_ASSUMED = "assumed: what ChargerLAB says of it was not at hand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """As the user asked for."""

    rate_hz: float = RATE_HZ
    is_queue: bool = False
    is_reversed: bool = False


class Km003c:
    """One tester."""

    name = "km003c"

    def __init__(
        self,
        connect: Callable[[], BulkTransport],
        setup: Setup | None = None,
        *,
        answer_s: float = _ANSWER_S,
    ) -> None:
        self._connect = connect
        self.setup = setup or Setup()
        self._answer_s = answer_s
        self._dialog: Dialog | None = None
        self._header: Header | None = None

    def open(self) -> Header | Missing:
        """Find it, ask for a reading, and for its queue if that is wanted."""
        try:
            transport = self._connect()
            self._dialog = Dialog(transport, self._answer_s)
            voltage_v, current_a = self._dialog.first_reading()
            is_reversed = self.setup.is_reversed
            power_w = voltage_v * current_a * sign_of(is_reversed)
            refuse_backwards(power_w, is_reversed=is_reversed)
            if self.setup.is_queue:
                self._try_queue(self._dialog)
            self._header = self._describe(*transport.texts())
        except EdgebenchError as exc:
            self.close()
            return Missing(str(exc))
        return self._header

    def session(self, path: Path) -> MeterSession:
        """A recording."""
        dialog, header = self._dialog, self._header
        if dialog is None or header is None:
            raise MeasurementError("the KM003C is not open")
        if not self.setup.is_queue:
            return PolledSession(lambda: [dialog.reading()], header, path)
        return StreamSession(
            dialog, header, path, start=lambda: self._start(dialog), stop=dialog.stop_graph
        )

    def close(self) -> None:
        """Let go of it."""
        if self._dialog is not None:
            self._dialog.close()
            self._dialog = None

    def _start(self, dialog: Dialog) -> None:
        dialog.start_graph(QUEUE_RATES_HZ.index(round(self.setup.rate_hz)))

    def _try_queue(self, dialog: Dialog) -> None:
        """See whether it gives its queue to us."""
        try:
            self._start(dialog)
            deadline_s = time.monotonic() + _FIRST_S
            while not _has_samples(dialog.read(_FETCH_S)):
                if time.monotonic() > deadline_s:
                    raise TargetError(
                        "this tester gives its queue to its maker's programs only: leave out "
                        f"`queue`, and it is asked {RATE_MAX_HZ:g} times a second at most"
                    )
        finally:  # also where it falls silent: a queue that nobody empties goes on filling
            dialog.stop_graph()

    def _describe(self, product: str, serial: str) -> Header:
        setup = self.setup
        return Header(
            driver=self.name,
            info=MeterInfo(vendor="ChargerLAB", model=product or "POWER-Z KM003C", serial=serial),
            capability=Capability(
                driver=self.name,
                channels=(Channel("input", "USB cable to the device"),),
                rate_hz=setup.rate_hz,
                is_averaging=False,
                is_uniform=setup.is_queue,
                clock_domain=(
                    f"meter:km003c:{serial or 'unknown'}" if setup.is_queue else HOST_CLOCK
                ),
                loss_detection="counter" if setup.is_queue else "wallclock",
                min_window_s=20 / setup.rate_hz,
                arrival_error_s=_FETCH_S,
                current_limits=(CurrentLimit(limit_a=LIMIT_A, reference=_ASSUMED),),
            ),
            uncertainty=_uncertainty(setup),
            facts=to_plain(Settings(is_reversed=setup.is_reversed, is_queue=setup.is_queue)),
        )


class Dialog:
    """Questions, each with the answer that has its number."""

    def __init__(self, transport: BulkTransport, answer_s: float) -> None:
        self._transport = transport
        self._answer_s = answer_s
        self._number = 0
        self._silent_count = 0

    def ask(self, kind: int, attribute: int = 0) -> bytes:
        """The answer, or b"" where none comes in time; late ones to others are dropped."""
        self._number = (self._number + 1) % 256
        self._transport.write(question(kind, self._number, attribute))
        deadline_s = time.monotonic() + self._answer_s
        while (left_s := deadline_s - time.monotonic()) > 0:
            message = self._transport.read(left_s)
            if kind_of(message)[1] == self._number:
                self._silent_count = 0
                return message
        self._silent_count += 1
        if self._silent_count >= _SILENT_ANSWERS:
            raise TargetError(f"the tester did not answer {_SILENT_ANSWERS} times")
        return b""

    def first_reading(self) -> tuple[float, float]:
        """Voltage and current now.

        Raises:
            TargetError: it does not answer, or something else does.
        """
        for _ in range(_STALE_MESSAGES):
            if not self._transport.read(_QUIET_S):
                break
        message = self.ask(GET_DATA, ADC) or self.ask(GET_DATA, ADC)
        try:
            return values_of(message)
        except ValueError as exc:
            said = f"{len(message)} bytes" if message else "nothing"
            raise TargetError(f"no KM003C answers: {said} in {self._answer_s:g} s") from exc

    def reading(self) -> Reading:
        """One, with the middle of the time it took."""
        before_ns = time.perf_counter_ns()
        message = self.ask(GET_DATA, ADC)
        return (before_ns + time.perf_counter_ns()) // 2, message or None

    def start_graph(self, rate_number: int) -> None:
        """Have it fill its queue.

        Raises:
            TargetError: it refuses.
        """
        for kind, attribute in ((CONNECT, 0), (STOP_GRAPH, 0), (START_GRAPH, rate_number)):
            if kind_of(self.ask(kind, attribute))[0] != ACCEPT and kind != STOP_GRAPH:
                raise TargetError(f"the tester refuses command {kind:#04x}")
        self.ask(GET_DATA, ADC_QUEUE)  # what is left of an earlier recording

    def stop_graph(self) -> None:
        """Have it stop."""
        self.ask(STOP_GRAPH)

    def read(self, timeout_s: float) -> bytes:
        """Samples since the last time, as they came; b"" where there are none yet."""
        time.sleep(min(timeout_s, _FETCH_S))
        message = self.ask(GET_DATA, ADC_QUEUE)
        is_data = kind_of(message)[0] == PUT_DATA and len(message) > 4
        return message if is_data else b""

    def write(self, data: bytes) -> None:
        """Send one message."""
        self._transport.write(data)

    def close(self) -> None:
        """Let go."""
        self._transport.close()


def _has_samples(message: bytes) -> bool:
    try:
        return bool(message) and len(queued_of(message).sequence) > 0
    except ValueError:  # damaged on the way; there will be others
        return False


def make_meter(options: Options) -> Km003c:
    """From a serial number, if any, and options."""
    is_queue = options.switch("queue")
    rate_hz = options.number("rate", max(QUEUE_RATES_HZ) if is_queue else RATE_HZ) or 0.0
    if is_queue and rate_hz not in QUEUE_RATES_HZ:
        rates = ", ".join(map(str, QUEUE_RATES_HZ))
        raise UsageError(f"a KM003C's queue has a rate of {rates}, asked for {rate_hz:g}")
    if not is_queue and not 1 <= rate_hz <= RATE_MAX_HZ:
        raise UsageError(
            f"a KM003C is asked 1 to {RATE_MAX_HZ:g} times a second, asked for {rate_hz:g}"
        )
    setup = Setup(rate_hz=rate_hz, is_queue=is_queue, is_reversed=options.switch("reversed"))
    serial = options.finish().address
    return Km003c(lambda: connect(serial), setup)


def connect(serial: str = "", backend: object = None) -> BulkTransport:
    """A transport to the only tester, or to the one with this serial number."""
    return BulkTransport(
        find_device(MODELS, serial, backend),
        interface=_INTERFACE,
        out_endpoint=_OUT,
        in_endpoint=_IN,
    )


def _uncertainty(setup: Setup) -> tuple[UncertaintyTerm, ...]:
    own_clock = UncertaintyTerm(
        kind=Kind.TIMEBASE, value=100e-6, unit=Unit.RATIO, reference="assumed: a crystal"
    )
    return (
        *((own_clock,) if setup.is_queue else ()),
        UncertaintyTerm(kind=Kind.GAIN, value=5e-3, unit=Unit.RATIO, reference=_ASSUMED),
        UncertaintyTerm(kind=Kind.OFFSET, value=1e-3, unit=Unit.AMPERE, reference=_ASSUMED),
        UncertaintyTerm(
            kind=Kind.EDGE,
            value=1 / setup.rate_hz,
            unit=Unit.SECOND,
            is_common=False,
            reference="instants, that far apart",
        ),
    )
