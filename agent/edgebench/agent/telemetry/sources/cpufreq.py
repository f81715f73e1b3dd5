"""CPU frequency: /sys/devices/system/cpu/cpufreq/policy*, kHz.

Frequencies are read per policy, not per CPU, because the CPUs of a policy share their frequency.
Five values are read, because each alone is incomplete:

    freq_hz             `scaling_cur_freq`: on most drivers the last request, not the real frequency
    freq_hz_average     `cpuinfo_avg_freq`: measured by the hardware, if the kernel has it
    freq_hz_hardware    `cpuinfo_cur_freq`: read from the hardware by the driver, for root only.
                        It is not read if `cpuinfo_avg_freq` exists, because on some drivers the
                        reading interrupts the CPU.
    freq_hz_cap         `scaling_max_freq`: lowered by the kernel's cooling, and by power modes
    cycles              `time_in_state`: the integral of frequency over time since boot. The mean
                        frequency is the difference between two readings, divided by the time
                        between them. This holds at any sampling rate.

Source: https://docs.kernel.org/admin-guide/pm/cpufreq.html; cpufreq-stats, which counts in units of
10 ms.
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

_TICK_S = 0.01
"""Length of a tick, because USER_HZ is 100 on all current architectures of Linux."""


class CpufreqSource:
    """Frequencies of each policy."""

    name = "cpufreq"
    rate_hz_max = FAST_HZ

    def open(self, root: Path, worker_pid: int) -> FileSensors | NoData:
        """Open each policy."""
        sensors = FileSensors()
        for policy in numbered(root / "sys/devices/system/cpu/cpufreq", "policy"):
            name = f"cpufreq.{policy.name}"
            sensors.add(f"{name}.freq_hz", policy / "scaling_cur_freq", scaled(1e3))
            if not sensors.add(f"{name}.freq_hz_average", policy / "cpuinfo_avg_freq", scaled(1e3)):
                sensors.add(f"{name}.freq_hz_hardware", policy / "cpuinfo_cur_freq", scaled(1e3))
            sensors.add(f"{name}.freq_hz_cap", policy / "scaling_max_freq", scaled(1e3))
            sensors.add(f"{name}.cycles", policy / "stats/time_in_state", _cycles)
            sensors.add_constant(f"{name}.freq_hz_max", policy / "cpuinfo_max_freq", scaled(1e3))
            sensors.add_constant(f"{name}.freq_hz_min", policy / "cpuinfo_min_freq", scaled(1e3))
            # A bit for each CPU, so that it is a number like the other constants.
            cpus = [
                int(cpu) for cpu in read_text(policy / "related_cpus").split() if cpu.isdecimal()
            ]
            if cpus:
                sensors.constants[f"{name}.cpu_mask"] = float(sum(1 << cpu for cpu in cpus))
        return sensors.or_no_data(
            "no policy under /sys/devices/system/cpu/cpufreq",
            root / "sys/devices/system/cpu/cpufreq",
        )


def _cycles(content: bytes) -> float:
    """Number of clock cycles since boot, from lines of `<kHz> <ticks>`."""
    pairs = (line.split() for line in content.splitlines())
    return sum(int(khz) * 1e3 * int(ticks) * _TICK_S for khz, ticks in pairs)
