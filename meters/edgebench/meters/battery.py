"""Battery of a phone or a laptop, read from its own gauge under /sys/class/power_supply.

Theory of operation. The sign and the unit of the gauge's current are determined before recording
starts (`gauge.py`) and stored with the recording. While a charger is connected, the battery current
is not the device's current: such values are flagged as missing.

With the option `discharge`, charging is suspended while the meter records (`charging.py`). The
gauge must then confirm that charging has stopped. The status must be Discharging. The current must
have the opposite sign of the current that was measured while charging. Gauges average, so the
present value still includes the time before charging stopped. Therefore the recording starts with
the gauge's next value.

Source: https://docs.kernel.org/power/power_supply_class.html
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Flag, Header, MeterInfo
from edgebench.meters.charging import ChargeSwitch
from edgebench.meters.file_meter import NS_PER_S, FileMeter, text_of, why_unreadable
from edgebench.meters.gauge import (
    DISCHARGING,
    NO_VALUE,
    STATUS,
    Gauge,
    GaugeHints,
    GaugeScale,
    files_of,
    read_gauge,
    sign_now,
)
from edgebench.meters.options import Options
from edgebench.meters.polled import (
    HOST_CLOCK,
    Clock,
    Files,
    Point,
    PolledDecoder,
    PolledSession,
    Reading,
    number,
)
from edgebench.meters.uncertainty import Kind, term
from edgebench.protocol.errors import TargetError
from edgebench.protocol.plain import from_plain, to_plain
from edgebench.system.android_settings import CHARGING_PROPERTY

RATE_HZ = 2.0
"""Polling rate. Perfetto polls gauges at most four times per second; most gauges have new values
less often."""
UPDATE_MAX_S = 10.0
"""Longest interval between two values of a gauge; gauges have a new value every 0.1 to 10 s."""
GAIN_RATIO = 0.05
PROOF_S = 15.0
"""Time within which a phone must discharge after charging is suspended. An agent waits for a meter
for longer than this time plus the time until the gauge has a new value."""
POLL_S = 0.25
_UNCERTAINTY = (
    term(Kind.GAIN, GAIN_RATIO, "assumed: gauges do not state their accuracy"),
    term(Kind.EDGE, UPDATE_MAX_S, "gauges average, and update their readings every 0.1 to 10 s"),
)


class BatteryMeter(FileMeter):
    """The battery of this machine."""

    name = "battery"

    def __init__(
        self,
        root: Path = Path("/"),
        supply: str = "",
        hints: GaugeHints | None = None,
        clock_ns: Clock = time.perf_counter_ns,
        switch: ChargeSwitch | None = None,
    ) -> None:
        super().__init__(root, clock_ns)
        self._supply = supply
        self._hints = hints or GaugeHints()
        self._switch = switch
        """Switch that suspends charging while the meter records. None if charging is never
        suspended."""
        self._gauge: Gauge | None = None
        """State of the gauge while discharging. None while unknown: with a switch, the battery may
        charge until the recording starts."""

    def _find(self) -> list[Path]:
        base = self._root / "sys/class/power_supply"
        supplies = sorted(base.glob("*"))
        # Mice have batteries too; those have the scope Device.
        folders = [
            folder
            for folder in supplies
            if text_of(folder / "type") == "Battery" and text_of(folder / "scope") != "Device"
        ]
        names = ", ".join(folder.name for folder in folders)
        if self._supply:
            folders = [folder for folder in folders if folder.name == self._supply]
            if not folders:
                raise TargetError(f"no battery {self._supply!r}; available: {names or 'none'}")
        if not folders:
            why = why_unreadable([base, *(folder / "type" for folder in supplies)])
            raise TargetError(f"no battery under /sys/class/power_supply{why}")
        if len(folders) > 1:
            raise TargetError(
                f"several batteries: {names}; select one, as in battery:{folders[0].name}"
            )
        self._folder = folders[0]
        # With a switch, the battery may charge until the recording starts: its sign is unknown.
        is_charging = text_of(self._folder / STATUS) != DISCHARGING
        self._gauge = None
        if self._switch is None or not is_charging:
            self._gauge = read_gauge(self._folder, self._hints)
        return [self._folder / file for file in files_of(self._folder)]

    def _describe(self, connection: Files) -> Header:
        supply, gauge = self._folder.name, self._gauge
        how = "charging is suspended while recording" if gauge is None else gauge.how
        info = MeterInfo(vendor="", model="battery gauge", serial=supply, raw_metadata=how)
        return Header(
            driver=self.name,
            info=info,
            capability=Capability(
                driver=self.name,
                channels=(Channel(supply, "battery"),),
                rate_hz=RATE_HZ,
                is_averaging=False,
                clock_domain=HOST_CLOCK,
                loss_detection="wallclock",
                min_window_s=10 * UPDATE_MAX_S,
            ),
            uncertainty=_UNCERTAINTY,
            facts={} if gauge is None else to_plain(gauge.scale),
        )

    def _record(self, connection: Files, header: Header, path: Path) -> PolledSession:
        if self._switch is None:
            return super()._record(connection, header, path)
        return PolledSession(
            connection.read, header, path, set_up=lambda: self._discharging(connection)
        )

    def _discharging(self, connection: Files) -> Header:
        """Suspend charging and return the header of the discharging battery.

        Raises:
            TargetError: the battery does not discharge although charging is suspended.
        """
        assert self._switch is not None
        folder = self._folder
        is_charging = text_of(folder / STATUS) != DISCHARGING
        charging_sign = sign_now(folder) if is_charging else 0
        self._switch.suspend()
        if not _waited(PROOF_S, lambda: _is_discharging(folder, charging_sign)):
            status = text_of(folder / STATUS) or "nothing"
            is_same = status == DISCHARGING
            raise TargetError(
                f"{PROOF_S:g} s after charging was suspended, the battery status is {status!r}"
                + (", and its current has the sign of charging" if is_same else "")
                + f": this device ignores {CHARGING_PROPERTY}; unplug the cable"
            )
        if is_charging:  # the gauge's average still covers the time before
            first = [text_of(folder / file) for file in files_of(folder)]
            _waited(
                UPDATE_MAX_S,
                lambda: [text_of(folder / file) for file in files_of(folder)] != first,
            )
        self._gauge = read_gauge(folder, self._hints)
        return self._describe(connection)

    def _release(self, connection: Files) -> None:
        if self._switch is not None:
            self._switch.resume()
        super()._release(connection)


def _is_discharging(folder: Path, charging_sign: int) -> bool:
    sign = sign_now(folder)
    return text_of(folder / STATUS) == DISCHARGING and sign != 0 and sign != charging_sign


def _waited(limit_s: float, condition: Callable[[], bool]) -> bool:
    """Wait for a condition; return whether it became true in time."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(POLL_S)
    return True


def make_meter(options: Options) -> BatteryMeter:
    """Create the meter of the named or only battery, with the user's hints."""
    root, supply = options.where()
    hints = GaugeHints(
        sign=options.text("sign"), unit=options.text("unit"), is_loaded=options.switch("loaded")
    )
    switch = ChargeSwitch(root) if options.switch("discharge") else None
    options.finish()
    return BatteryMeter(root, supply, hints, switch=switch)


class BatteryDecoder(PolledDecoder):
    """Turns current, voltage and status into the power that the battery delivers."""

    def __init__(self, header: Header) -> None:
        super().__init__(header)
        self._scale = from_plain(header.facts, GaugeScale)
        self._last: tuple[int, int, int] | None = None
        """Time and values of the gauge's last update."""

    def points(self, readings: list[Reading]) -> list[Point]:
        """Return the point of a polling round; it has no value unless the battery discharges."""
        time_ns, scale = readings[0][0], self._scale
        count, voltage = number(readings[0][1]), number(readings[1][1])
        is_discharging = (readings[2][1] or b"").strip() == DISCHARGING.encode()
        if count is None or count == NO_VALUE or voltage is None or not is_discharging:
            return [Point.missing(time_ns)]
        flags, last = Flag.NONE, self._last
        is_soon = last is not None and time_ns - last[0] < UPDATE_MAX_S * NS_PER_S
        if last is not None and is_soon and last[1:] == (count, voltage):
            flags = Flag.DUPLICATE
        else:
            self._last = time_ns, count, voltage
        count *= scale.sign
        voltage_v = voltage * scale.volt
        current_a = math.nan if scale.ampere is None else count * scale.ampere
        power_w = current_a * voltage_v if scale.watt is None else count * scale.watt
        return [Point(time_ns, power_w, flags=flags, current_a=current_a, voltage_v=voltage_v)]
