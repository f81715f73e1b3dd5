"""Frequencies of accelerators and of the memory: /sys/class/devfreq/*/cur_freq, Hz.

A Mali GPU with the vendor's driver has files in /sys/devices/platform instead, in kHz.

Source: https://docs.kernel.org/driver-api/devfreq.html
"""

from __future__ import annotations

from pathlib import Path

from edgebench.agent.telemetry.source import FAST_HZ, FileSensors, NoData, scaled


class DevfreqSource:
    """The current frequency of each device, and the highest frequency that is allowed now."""

    name = "devfreq"
    rate_hz_max = FAST_HZ

    def open(self, root: Path, worker_pid: int) -> FileSensors | NoData:
        """Open each device."""
        sensors = FileSensors()
        for device in sorted((root / "sys/class/devfreq").glob("*")):
            name = f"devfreq.{device.name}"
            sensors.add(f"{name}.freq_hz", device / "cur_freq", scaled())
            sensors.add(f"{name}.freq_hz_cap", device / "max_freq", scaled())
        for device in sorted((root / "sys/devices/platform").glob("*.mali")):
            name = f"devfreq.{device.name}"
            sensors.add(f"{name}.freq_hz", device / "cur_freq", scaled(1e3))
            sensors.add(f"{name}.freq_hz_cap", device / "scaling_max_freq", scaled(1e3))
        return sensors.or_no_data("no device under /sys/class/devfreq", root / "sys/class/devfreq")
