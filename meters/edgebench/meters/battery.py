"""Battery of a phone or a laptop: its own gauge, under /sys/class/power_supply.

Theory of operation. How the gauge counts is settled before anything is recorded (`gauge.py`), and
kept with the recording. While a charger is connected the current is not what the device takes: such
values are missing.

Source: https://docs.kernel.org/power/power_supply_class.html
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from edgebench.meters.base import Capability, Channel, Flag, Header, MeterInfo
from edgebench.meters.file_meter import NS_PER_S, FileMeter, text_of, why_unreadable
from edgebench.meters.gauge import DISCHARGING, NO_VALUE, GaugeHints, GaugeScale, read_gauge
from edgebench.meters.options import Options
from edgebench.meters.polled import HOST_CLOCK, Clock, Files, Point, PolledDecoder, Reading, number
from edgebench.meters.uncertainty import Kind, term
from edgebench.protocol.errors import TargetError
from edgebench.protocol.plain import from_plain, to_plain

RATE_HZ = 2.0
"""Perfetto asks four times a second at most; gauges are slower than that."""
UPDATE_MAX_S = 10.0
"""Gauges have something new every 0.1 to 10 s."""
GAIN_RATIO = 0.05
_UNCERTAINTY = (
    term(Kind.GAIN, GAIN_RATIO, "no gauge says"),
    term(Kind.EDGE, UPDATE_MAX_S, "gauges average, and have something new every 0.1 to 10 s"),
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
    ) -> None:
        super().__init__(root, clock_ns)
        self._supply = supply
        self._hints = hints or GaugeHints()

    def _find(self) -> list[Path]:
        base = self._root / "sys/class/power_supply"
        supplies = sorted(base.glob("*"))
        # A mouse has a battery too; its scope is that of a device.
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
                f"several batteries: {names}: choose, as in battery:{folders[0].name}"
            )
        self._gauge = read_gauge(folders[0], self._hints)
        return [folders[0] / file for file in self._gauge.files]

    def _describe(self, connection: Files) -> Header:
        supply = self._gauge.folder.name
        info = MeterInfo(
            vendor="", model="battery gauge", serial=supply, raw_metadata=self._gauge.how
        )
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
            facts=to_plain(self._gauge.scale),
        )


def make_meter(options: Options) -> BatteryMeter:
    """Meter by the supply's name, if any, and the user's hints."""
    root, supply = options.where()
    hints = GaugeHints(
        sign=options.text("sign"), unit=options.text("unit"), is_loaded=options.switch("loaded")
    )
    options.finish()
    return BatteryMeter(root, supply, hints)


class BatteryDecoder(PolledDecoder):
    """Turns current, voltage and status into the watts that the battery delivers."""

    def __init__(self, header: Header) -> None:
        super().__init__(header)
        self._scale = from_plain(header.facts, GaugeScale)
        self._last: tuple[int, int, int] | None = None
        """Time of the gauge's last new value, and the value."""

    def points(self, readings: list[Reading]) -> list[Point]:
        """One point per round."""
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
