"""Raspberry Pi 4 Model B with 4 GB, idle, with Raspberry Pi OS.

Quirks: revision 1.4 with arm_boost, so 1.8 GHz instead of 1.5; an undervoltage since boot left
sticky bits 16 and 18 and the alarm of rpi_volt, though nothing is wrong now; rpi_volt is hwmon0
here, not hwmon1; no cooling device; no pressure files.
"""

from __future__ import annotations

from collections.abc import Mapping

from support.boards import _parts as parts
from support.boards._videocore import firmware, vcgencmd

PROFILE = "raspberrypi-4b"
IDENTITY: Mapping[str, str] = {"machine": "aarch64"}

_FREQS_KHZ = tuple(range(600000, 1800001, 100000))
_TAIL = (
    "Revision\t: c03114\nSerial\t\t: 10000000deadbe4b\nModel\t\t: Raspberry Pi 4 Model B Rev 1.4\n"
)

FILES, LINKS = parts.tree(
    parts.system("Debian GNU/Linux 12 (bookworm)", 4),
    parts.device_tree(
        "Raspberry Pi 4 Model B Rev 1.4",
        "raspberrypi,4-model-b",
        "brcm,bcm2711",
        serial="10000000deadbe4b",
    ),
    parts.arm_cpuinfo({"0xd08": 4}, "fp asimd evtstrm crc32 cpuid", _TAIL),
    parts.memory(3884180, 3401204, swap_kb=102396, swap_free_kb=102396, cma_kb=524288),
    parts.activity(range(4), load="0.04 0.05 0.01"),
    parts.cgroup("cpuset cpu io pids"),
    parts.clusters(4),
    parts.policy(0, range(4), _FREQS_KHZ, 600000, "ondemand"),
    parts.zone(0, "cpu-thermal", 43816, trips=[("critical", 90000, 0)]),
    parts.hwmon(0, "rpi_volt", {"in0_lcrit_alarm": 1}),
    parts.hwmon(1, "cpu_thermal", {"temp1_input": 43816, "temp1_crit": 90000}),
    firmware(
        throttled=0x50000, throttled_sysfs=0x50000, temp_c=43.8, arm_hz=600_117_184, core_v=0.8525
    ),
)
COMMANDS: Mapping[str, str] = vcgencmd(48)
