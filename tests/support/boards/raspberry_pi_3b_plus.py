"""Raspberry Pi 3 Model B+ at its soft temperature limit, with Raspberry Pi OS.

Quirks: the firmware runs the cores at 1.2 GHz while cpufreq reports 1.4 GHz; bit 3 of get_throttled
is set, but its counterpart in /sys still has the value of an earlier query; no cooling device and
only a critical trip; the clock's index is 48; /proc/cpuinfo names a wrong chip and has a serial
number; no pressure files, no memory controller.
"""

from __future__ import annotations

from collections.abc import Mapping

from support.boards import _parts as parts
from support.boards._videocore import firmware, vcgencmd

PROFILE = "raspberrypi-3b-plus"
IDENTITY: Mapping[str, str] = {"machine": "aarch64"}

_TAIL = (
    "Hardware\t: BCM2835\nRevision\t: a020d3\nSerial\t\t: 00000000deadbe3b\n"
    "Model\t\t: Raspberry Pi 3 Model B Plus Rev 1.3\n"
)

FILES, LINKS = parts.tree(
    parts.system("Debian GNU/Linux 12 (bookworm)", 3),
    parts.device_tree(
        "Raspberry Pi 3 Model B Plus Rev 1.3",
        "raspberrypi,3-model-b-plus",
        "brcm,bcm2837",
        serial="00000000deadbe3b",
    ),
    parts.arm_cpuinfo({"0xd03": 4}, "fp asimd evtstrm crc32 cpuid", _TAIL),
    parts.memory(926216, 640120, swap_kb=102396, swap_free_kb=101884, cma_kb=65536),
    parts.activity(range(4), load="3.98 2.71 1.20"),
    parts.cgroup("cpuset cpu io pids"),
    parts.clusters(4),
    parts.policy(0, range(4), (600000, 700000, 1200000, 1300000, 1400000), 1400000, "ondemand"),
    parts.zone(0, "cpu-thermal", 59615, trips=[("critical", 90000, 0)]),
    parts.hwmon(0, "cpu_thermal", {"temp1_input": 59615, "temp1_crit": 90000}),
    parts.hwmon(1, "rpi_volt", {"in0_lcrit_alarm": 0}),
    firmware(
        throttled=0x80008, throttled_sysfs=0x0, temp_c=59.6, arm_hz=1_200_000_000, core_v=1.3375
    ),
)
COMMANDS: Mapping[str, str] = vcgencmd(48)
