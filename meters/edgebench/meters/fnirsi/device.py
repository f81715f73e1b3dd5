"""An FNIRSI tester as a meter. A tester sends samples for a second after each start command.

    start    INIT · START
    session  START again every half second, so that the tester keeps sending
    stop     send nothing more, and read until the tester is silent

A tester that cannot send its last reports hangs until it is unplugged.

Source: see reports.py.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Header, MeterInfo
from edgebench.meters.cable import refuse_backwards, sign_of
from edgebench.meters.fnirsi.decoder import LIMIT_A, LIMIT_V, FnirsiSettings
from edgebench.meters.fnirsi.reports import INIT, START, ReportFramer, command, is_data, samples_of
from edgebench.meters.hid import HidDevice, HidTransport, choose_device
from edgebench.meters.instrument import InstrumentMeter
from edgebench.meters.options import Options
from edgebench.meters.stream import StreamSession
from edgebench.meters.transport import ByteStream, Dialog, run_dry
from edgebench.meters.uncertainty import CurrentLimit, Kind, Unit, term
from edgebench.protocol.errors import TargetError, UsageError
from edgebench.protocol.plain import to_plain

MODELS = {
    (0x0483, 0x003A): ("FNB48", 0.5),
    (0x0483, 0x003B): ("C1", 0.5),
    (0x2E3C, 0x0049): ("FNB48S", 0.12),
    (0x2E3C, 0x5558): ("FNB58", 0.12),
}
"""Maps each USB id to the model and to the seconds over which the tester smears a change of power.

Source: fqueze/usb-power-profiling, README: observed on a C1 and an FNB48S, assumed for the
others."""
RATE_HZ = 100.0
_RATE_LIMITS_HZ = (90.0, 110.0)
_SMOOTHING_MAX_S = 0.5
_AWAKE_S = 0.5
_QUIET_S = 0.1
_RESPONSE_S = 2.0
_ASSUMED = "assumed: no FNIRSI data sheet was available"
"""If a tester is less accurate than assumed, the stated uncertainty is too small."""


class KeepAlive(Dialog):
    """A transport that repeats the start command, so that the tester keeps sending."""

    def __init__(self, transport: ByteStream, device: HidDevice) -> None:
        super().__init__(transport)
        self.device = device
        self._kept_awake_s = 0.0

    def start(self) -> None:
        """Start the stream."""
        self.stop()
        self.write(command(INIT))
        self._keep_awake()

    def stop(self) -> None:
        """Wait until the stream has ended."""
        complaint = f"the FNIRSI tester still sends data {_RESPONSE_S:g} s after the last request"
        run_dry(self._transport, complaint, _RESPONSE_S)

    def read(self, timeout_s: float) -> bytes:
        """Return the bytes that have arrived; renew the start command every half second."""
        if time.monotonic() - self._kept_awake_s > _AWAKE_S:
            self._keep_awake()
        return super().read(timeout_s)

    def first_power_w(self) -> float:
        """Measure the present power in W; this also checks that the tester responds.

        Raises:
            TargetError: no samples arrive, or the device is not a tester.
        """
        self.start()
        framer, deadline_s, reports = ReportFramer(), time.monotonic() + _RESPONSE_S, 0
        byte_count = 0
        while (left_s := deadline_s - time.monotonic()) > 0:
            data = self.read(min(left_s, _QUIET_S))
            byte_count += len(data)
            for report, _ in framer.feed(data):
                reports += is_data(report)
                if reports > 1:  # the first report holds garbage
                    voltage_v, current_a = samples_of(report)
                    return float((voltage_v * current_a).mean())
        raise TargetError(
            f"no FNIRSI tester found: {byte_count} bytes in {_RESPONSE_S:g} s, without samples; "
            "very old firmware sends no samples"
        )

    def _keep_awake(self) -> None:
        self.write(command(START))
        self._kept_awake_s = time.monotonic()


class Fnirsi(InstrumentMeter[KeepAlive]):
    """An FNIRSI tester on USB."""

    name = "fnirsi"

    def __init__(
        self,
        find: Callable[[], HidDevice],
        *,
        connect: Callable[[str], ByteStream] = HidTransport,
        rate_hz: float = RATE_HZ,
        is_reversed: bool = False,
    ) -> None:
        super().__init__(lambda: _wake(find(), connect))
        self._rate_hz = rate_hz
        self._is_reversed = is_reversed

    def _describe(self, connection: KeepAlive) -> Header:
        """Check that the tester sends valid samples, and describe it."""
        try:
            power_w = connection.first_power_w() * sign_of(self._is_reversed)
        finally:
            connection.stop()
        refuse_backwards(power_w, is_reversed=self._is_reversed)
        device = connection.device
        model, smoothing_s = MODELS.get(
            (device.vendor, device.product), ("USB tester", _SMOOTHING_MAX_S)
        )
        smears = "the tester smooths changes of power (fqueze/usb-power-profiling, README)"
        settings = FnirsiSettings(is_reversed=self._is_reversed, limit_v=LIMIT_V, limit_a=LIMIT_A)
        return Header(
            driver=self.name,
            info=MeterInfo(
                vendor="FNIRSI", model=model, serial=device.serial, raw_metadata=device.name
            ),
            capability=Capability(
                driver=self.name,
                channels=(Channel("input", "USB cable to the device"),),
                rate_hz=self._rate_hz,
                is_averaging=False,
                is_uniform=True,
                smoothing_s=smoothing_s,
                clock_domain=f"meter:fnirsi:{device.serial or 'unknown'}",
                loss_detection="wallclock",
                min_window_s=10 * smoothing_s,
                current_limits=(CurrentLimit(limit_a=LIMIT_A, reference=_ASSUMED),),
            ),
            uncertainty=(
                term(Kind.GAIN, 0.01, _ASSUMED),
                term(Kind.OFFSET, 1e-3, _ASSUMED, Unit.AMPERE),
                term(Kind.TIMEBASE, 200e-6, "assumed: a larger error would show within a minute"),
                term(Kind.EDGE, smoothing_s, smears),
            ),
            facts=to_plain(settings),
        )

    def _record(self, connection: KeepAlive, header: Header, path: Path) -> StreamSession:
        return StreamSession(connection, header, path, start=connection.start, stop=connection.stop)


def make_meter(options: Options) -> Fnirsi:
    """Create the meter of the tester with this path or serial number, or of the only tester."""
    rate_hz = options.within("rate", RATE_HZ, _RATE_LIMITS_HZ)
    is_reversed = options.switch("reversed")
    address = options.finish().address
    return Fnirsi(lambda: choose_device(MODELS, address), rate_hz=rate_hz, is_reversed=is_reversed)


def _wake(device: HidDevice, connect: Callable[[str], ByteStream]) -> KeepAlive:
    """Connect to a device; reject a device that is not a tester, such as a keyboard."""
    if device.vendor and (device.vendor, device.product) not in MODELS:
        raise UsageError(
            f"{device.path} is not an FNIRSI tester but {device.name or 'another device'} "
            f"({device.vendor:04x}:{device.product:04x})"
        )
    return KeepAlive(connect(device.path), device)
