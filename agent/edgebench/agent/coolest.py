"""The lowest idle temperature of this device, the reference of the cool-down gate.

The temperature is stored on disk: an agent may start right after a hot run, and must not treat the
device as idle then. It is stored per machine, because homes may be shared. It expires, because in
summer a room never gets as cool as in winter, and the gate would wait in vain.
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
"""Range of plausible idle temperatures: outside, the sensor is broken or the device is hot."""
KEPT_FOR = timedelta(days=60)
START_READINGS = 3
START_PAUSE_S = 0.02
IDLE_LOAD_15M = 0.2
"""Load average below which nothing has heated the device for a quarter of an hour."""


def settled_c(
    thermometer: Thermometer, pause: Callable[[float], None] = time.sleep
) -> float | None:
    """Highest of several readings, to ignore readings that are too low; None if a reading fails."""
    readings: list[float] = []
    while len(readings) < START_READINGS:
        if (temp_c := thermometer()) is None:
            return None
        readings.append(temp_c)
        pause(START_PAUSE_S)
    return max(readings)


def now_utc() -> datetime:
    """The time of day, as stored in the file."""
    return datetime.now(timezone.utc)


class Coolest:
    """The lowest plausible temperature of a machine; stored on disk if there is a path."""

    def __init__(
        self, path: Path | None, machine: str, now: Callable[[], datetime] = now_utc
    ) -> None:
        self._path = path
        self._machine = machine
        self._now = now
        self.temp_c = self._kept_c()

    def see(self, temp_c: float | None) -> None:
        """Record a temperature of the idle device."""
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
            max_c: Limit of the profile's gate. A device above it counts as idle only by its load
                average; None: every temperature counts, because there is no limit to compare with.
            root: Directory that stands for / where the load is read.
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
        """Entries of all machines on disk; empty if the file is damaged."""
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
            logger.warning("coolest temperature not kept: %s: %s", exc.strerror, self._path)
