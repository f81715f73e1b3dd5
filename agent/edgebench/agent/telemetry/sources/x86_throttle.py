"""Counters of thermal throttling on Intel CPUs: cpu*/thermal_throttle/*_throttle_count.

All CPUs of a package show the same value of the package counter, so the counter is read on only one
CPU of each package. Throttling by power limits is not counted. The kernel adds the duration of a
throttling episode to the total time only when the episode ends.

Source: torvalds/linux, drivers/thermal/intel/therm_throt.c
"""

from __future__ import annotations

from pathlib import Path

from edgebench.agent.telemetry.source import (
    FAST_HZ,
    FileSensors,
    NoData,
    numbered,
    read_text,
    scaled,
)


class X86ThrottleSource:
    """Counters of each core, and of each package."""

    name = "x86_throttle"
    rate_hz_max = FAST_HZ

    def open(self, root: Path, worker_pid: int) -> FileSensors | NoData:
        """Open the counters of CPUs that are online."""
        sensors = FileSensors()
        seen: set[str] = set()
        for cpu in numbered(root / "sys/devices/system/cpu", "cpu"):
            folder, topology = cpu / "thermal_throttle", cpu / "topology"
            package = read_text(topology / "physical_package_id") or "0"
            core = f"{package}.{read_text(topology / 'core_id') or cpu.name}"
            for kind, key in (("core", core), ("package", package)):
                if f"{kind}.{key}" in seen:  # the other thread of a core, or another core
                    continue
                name = f"x86.{kind}.{key}"
                path = folder / f"{kind}_throttle_count"
                if sensors.add(f"{name}.throttle_count", path, scaled()):
                    seen.add(f"{kind}.{key}")
                    total = folder / f"{kind}_throttle_total_time_ms"
                    sensors.add(f"{name}.throttle_s", total, scaled(1e-3))
        return sensors.or_no_data(
            "no thermal_throttle under /sys/devices/system/cpu", root / "sys/devices/system/cpu"
        )
