"""Opens a Joulescope through the vendor's driver, and restores its settings after a recording.

A fixed voltage range would silently clip a higher supply voltage. So a recording sets the ranges to
automatic, and restores the previous ranges afterwards.

The device under test is never powered without the user's permission. If the range of current is
"off", the instrument cuts the device's supply, and any other range would power the device. So
recording with this range requires the option `power`; afterwards, restoring the range cuts the
supply again.

Source: pyjoulescope_driver: the topics, their metadata (0 is off) and entry_points/info.py (the
firmware's version); joulescope_driver, doc/js220.txt and doc/js320.json (modes 0 to 3 are off, 4 is
automatic, 5 is manual; in manual mode, the selected range 0 is off).
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from edgebench.meters.joulescope.stream import JoulescopeDriver, about
from edgebench.protocol.errors import TargetError, UsageError

_CHOICE = "s/i/range/select"
_RANGES = {"js110": {_CHOICE: "auto", "s/v/range/select": "15 V"}}
_RANGES_OTHERS = {"s/i/range/mode": "auto", "s/v/range/mode": "auto"}
"""Maps topics to the values that make the ranges of current and voltage automatic."""
_MANUAL = (5, "manual")
"""Values of the range mode for a fixed range; the topic `_CHOICE` contains the fixed range."""
_OFF = (0, "off")
_OFF_MODES = (*_OFF, 1, 2, 3)


class JoulescopeUnit:
    """Connection to one instrument, through a driver that may manage several instruments."""

    def __init__(self, driver: JoulescopeDriver) -> None:
        self.driver = driver
        self.path = ""
        """Path of the instrument in the driver, such as u/js220/002557; empty until opened."""
        self.ranges_before: dict[str, Any] = {}
        """Maps range topics to their values before the recording; contains only the topics whose
        value is not restored yet."""

    @property
    def model(self) -> str:
        """Model in lower case: js110, js220, js320."""
        return self.path.split("/")[1]

    @property
    def serial(self) -> str:
        """Serial number, from the path."""
        return self.path.split("/")[2]

    def take(self, serial: str) -> None:
        """Open the instrument without changing its state.

        Args:
            serial: Serial number of the instrument; empty: the only instrument.

        Raises:
            TargetError: no instrument is connected, or it cannot be opened.
            UsageError: the serial number is unknown, or several instruments are connected.
        """
        with about("here"):
            paths = [path for path in self.driver.device_paths() if len(path.split("/")) == 3]
        meant = [path for path in paths if serial in ("", path, path.split("/")[2])]
        names = ", ".join(sorted(path.split("/")[2] for path in paths))
        if not paths:
            raise TargetError("no Joulescope is connected")
        if not meant:
            raise UsageError(f"no Joulescope has the serial number {serial!r}; available: {names}")
        if len(meant) > 1:
            count = f"{len(meant)} Joulescopes are connected"
            raise UsageError(f"{count}, select a serial number: {names}")
        [path] = meant
        with about(path):
            self.driver.open(path, "restore")
        self.path = path

    def firmware(self) -> str:
        """Firmware version: 8 bits major, 8 minor, 16 patch; empty for a JS110."""
        try:
            number = int(self.driver.query(f"{self.path}/c/fw/version"))
        except (RuntimeError, OSError, ValueError, TypeError):  # a JS110 does not report it
            return ""
        return f"{number >> 24}.{number >> 16 & 0xFF}.{number & 0xFFFF}"

    def set_up(self, rate_hz: int, *, is_power_on: bool) -> None:
        """Set the sampling rate, and set the ranges to automatic.

        Raises:
            TargetError: a command fails, or the range of current is off and `is_power_on` is not
                set.
        """
        ranges = _RANGES.get(self.model, _RANGES_OTHERS)
        with about(self.path):
            settings = {topic: self.driver.query(f"{self.path}/{topic}") for topic in ranges}
            before = settings | self.ranges_before  # ignores ranges set by our last recording
            of_current = next(iter(ranges))
            is_cut = any(self._is_cut(state[of_current]) for state in (settings, before))
            if is_cut and not is_power_on:
                raise TargetError(
                    f"Joulescope {self.path} has cut the device's supply because the range of "
                    "current is off: add `power` to switch the supply on for a recording, as in "
                    f"joulescope:{self.serial},power"
                )
            # Stored before the commands: a command may take effect although its reply is lost.
            self.ranges_before = before
            for topic, wanted in ranges.items():
                self.driver.publish(f"{self.path}/{topic}", wanted)
            self.driver.publish(f"{self.path}/h/fs", rate_hz)

    def put_back(self) -> None:
        """Restore the previous ranges; if the range of current was off, this cuts the supply."""
        with about(self.path):
            for topic, value in tuple(self.ranges_before.items()):
                self.driver.publish(f"{self.path}/{topic}", value)
                del self.ranges_before[topic]

    def close(self) -> None:
        """Restore and release the instrument, and release USB."""
        with suppress(TargetError):  # a recording could not be ended
            self.put_back()
        with suppress(RuntimeError, OSError, ValueError):  # the instrument is gone
            if self.path:
                self.driver.close(self.path)
        with suppress(RuntimeError, OSError, ValueError):
            self.driver.finalize()

    def _is_cut(self, range_of_current: Any) -> bool:
        """Whether this range leaves the device without a supply."""
        if self.model == "js110":
            return range_of_current in _OFF
        if range_of_current in _MANUAL:
            return self.driver.query(f"{self.path}/{_CHOICE}") in _OFF
        return range_of_current in _OFF_MODES
