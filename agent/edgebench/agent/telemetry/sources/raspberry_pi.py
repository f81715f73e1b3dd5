"""State that only the Raspberry Pi's firmware reports: throttled bits and the real CPU frequency.

Each reading runs the command `vcgencmd`, which takes milliseconds. The bits are therefore read once
a second; the sticky bits also show events between two readings. The CPU frequency is read with
every second reading of the bits. Formats: `throttled=0x50005`; `frequency(48)=1200000000`, in which
the number in parentheses differs between boards.

Source: raspberrypi/documentation, os/graphics-utilities.adoc
"""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from edgebench.agent.telemetry.source import FileSensors, NoData

RATE_HZ = 1.0
CLOCK_EVERY = 2
_COMMANDS = ("usr/bin/vcgencmd", "opt/vc/bin/vcgencmd")
_TWIN = "sys/devices/platform/soc/soc:firmware/get_throttled"
"""File with the bits that the kernel's last request to the firmware returned, in hexadecimal
without a prefix. The bits may be out of date, and cannot show that a board is not throttled. They
are therefore stored under a separate name, which no verdict uses."""
_TIMEOUT_S = 2.0
_THROTTLED = re.compile(rb"throttled=0x([0-9a-fA-F]+)")
_FREQUENCY = re.compile(rb"frequency\(\d+\)=(\d+)")


class RaspberryPiSource:
    """The throttled bits, and the frequency of the ARM cores as measured by the firmware."""

    name = "raspberry_pi"
    rate_hz_max = RATE_HZ

    def open(self, root: Path, worker_pid: int) -> VcgencmdReader | FileSensors | NoData:
        """Find vcgencmd; without it, use the file with the bits of the kernel's last request."""
        command = next((root / path for path in _COMMANDS if (root / path).exists()), None)
        if command is not None:
            if not math.isnan(VcgencmdReader(command).read()[0]):
                return VcgencmdReader(command)
            return NoData(f"{command} does not respond; is the user in the group video?")
        twin = FileSensors()
        if twin.add("rpi.last_told_bits", root / _TWIN, lambda content: int(content, 16)):
            twin.absent["rpi.throttled_bits"] = f"no vcgencmd, and {_TWIN} may be out of date"
        return twin.or_no_data("no vcgencmd")


class VcgencmdReader:
    """Reads the firmware through its command."""

    sensors = ("rpi.throttled_bits", "rpi.arm_freq_hz")

    def __init__(self, command: Path) -> None:
        self._command = str(command)
        self._count = 0
        self.constants: dict[str, float] = {}
        self.absent: dict[str, str] = {}

    def read(self) -> Sequence[float]:
        """Throttled bits (0…3: now, 16…19: since boot), and frequency in Hz; NaN if not read."""
        bits = self._query("get_throttled", pattern=_THROTTLED, base=16)
        is_due = self._count % CLOCK_EVERY == 0
        self._count += 1
        if not is_due:
            return [bits, math.nan]
        return [bits, self._query("measure_clock", "arm", pattern=_FREQUENCY, base=10)]

    def _query(self, *words: str, pattern: re.Pattern[bytes], base: int) -> float:
        try:
            output = subprocess.run(
                [self._command, *words], capture_output=True, timeout=_TIMEOUT_S, check=False
            ).stdout
        except (OSError, subprocess.TimeoutExpired):
            return math.nan
        match = pattern.search(output)
        return float(int(match[1], base)) if match else math.nan
