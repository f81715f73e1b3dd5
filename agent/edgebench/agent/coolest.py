"""The lowest idle temperature of this device, which is the reference for the cool-down.

The temperature is stored on disk, because an agent may start right after a run, when the device is
still hot. It is stored per machine, because machines may share a home directory. It expires after
`KEPT_FOR`, because a device in a warm summer room cannot become as cool as in winter, and a run
would wait in vain.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from edgebench.agent.cooldown import Thermometer
from edgebench.agent.files import write_private
from edgebench.agent.system import load_averages

logger = logging.getLogger(__name__)

COOLEST_FILE = "coolest.json"
SANE_C = (-30.0, 70.0)
"""Range of plausible idle temperatures; outside it, the sensor is broken or the device is hot."""
KEPT_FOR = timedelta(days=60)
START_READINGS = 3
START_PAUSE_S = 0.02
IDLE_LOAD_15M = 0.2
"""If the load average over 15 minutes is below this value, the device counts as idle."""


def settled_c(
    thermometer: Thermometer, pause: Callable[[float], None] = time.sleep
) -> float | None:
    """Highest of several readings, because a single one may be too low; None if one fails."""
    readings: list[float] = []
    while len(readings) < START_READINGS:
        if (temp_c := thermometer()) is None:
            return None
        readings.append(temp_c)
        pause(START_PAUSE_S)
    return max(readings)


def now_utc() -> datetime:
    """The current date and time, in UTC."""
    return datetime.now(timezone.utc)


class Coolest:
    """The lowest idle temperature of a machine, stored on disk unless `path` is None."""

    def __init__(
        self, path: Path | None, machine: str, now: Callable[[], datetime] = now_utc
    ) -> None:
        self._path = path
        self._machine = machine
        self._now = now
        self.temp_c = self._kept_c()

    def see(self, temp_c: float | None) -> None:
        """Record a temperature of the idle device; temperatures outside `SANE_C` are ignored."""
        if temp_c is None or not SANE_C[0] <= temp_c <= SANE_C[1]:
            return
        if self.temp_c is None or temp_c <= self.temp_c:
            self.temp_c = temp_c
            self._keep(temp_c)

    def see_at_start(
        self, temp_c: float | None, max_c: float | None, root: Path = Path("/")
    ) -> None:
        """Record the temperature at the start of the agent, if the device may be idle.

        Args:
            temp_c: Temperature now.
            max_c: Highest temperature at which the profile lets a run start. A higher temperature
                is recorded only if the load average shows that the device is idle. None: every
                temperature is recorded.
            root: Directory that replaces / for the load average.
        """
        if temp_c is None:
            return
        load = load_averages(root)
        is_idle = load is not None and load[2] < IDLE_LOAD_15M
        if max_c is None or temp_c <= max_c or is_idle:
            self.see(temp_c)

    def _kept_c(self) -> float | None:
        entry: Any = self._read().get(self._machine)
        try:
            temp_c, seen = entry["temp_c"], datetime.fromisoformat(entry["seen_utc"])
            # An entry from the far future, made while the clock was ahead, is not fresh either.
            is_fresh = abs(self._now() - seen) < KEPT_FOR
        except (TypeError, ValueError, LookupError):
            return None
        if type(temp_c) not in (int, float):
            return None
        return float(temp_c) if is_fresh and SANE_C[0] <= temp_c <= SANE_C[1] else None

    def _read(self) -> dict[str, Any]:
        """Stored temperatures of all machines; empty if the file is missing or damaged."""
        try:
            plain: Any = json.loads(self._path.read_bytes()) if self._path else {}
        except (OSError, ValueError, RecursionError):
            return {}
        return plain if isinstance(plain, dict) else {}

    def _keep(self, temp_c: float) -> None:
        if self._path is None:
            return
        entry = {"temp_c": temp_c, "seen_utc": self._now().isoformat(timespec="seconds")}
        try:
            write_private(self._path, json.dumps(self._read() | {self._machine: entry}))
        except OSError as exc:
            logger.warning("coolest temperature not stored: %s: %s", exc.strerror, self._path)
