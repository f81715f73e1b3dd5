"""Raspberry Pi Zero 2 W, idle, with Raspberry Pi OS.

Quirks: 512 MB of which the graphics processor has a share, and swap almost used up, so that
latency may grow without any heat; /proc/cpuinfo has no half-precision and no cryptographic
features; no cpu_capacity, no cooling device, no pressure files.
"""

from __future__ import annotations

from collections.abc import Mapping

from support.boards import _parts as parts
from support.boards._videocore import firmware, vcgencmd

PROFILE = "raspberrypi-zero-2-w"
IDENTITY: Mapping[str, str] = {"machine": "aarch64"}

_TAIL = (
    "Hardware\t: BCM2835\nRevision\t: 902120\nSerial\t\t: 00000000deadbe02\n"
    "Model\t\t: Raspberry Pi Zero 2 W Rev 1.0\n"
)

FILES, LINKS = parts.tree(
    parts.system("Debian GNU/Linux 12 (bookworm)", 2),
    parts.device_tree(
        "Raspberry Pi Zero 2 W Rev 1.0",
        "raspberrypi,model-zero-2-w",
        "brcm,bcm2837",
        serial="00000000deadbe02",
    ),
    parts.arm_cpuinfo({"0xd03": 4}, "fp asimd evtstrm crc32 cpuid", _TAIL),
    parts.memory(437232, 96120, swap_kb=102396, swap_free_kb=3172, cma_kb=65536),
    parts.activity(range(4), load="1.31 0.90 0.44"),
    parts.cgroup("cpuset cpu io pids"),
    parts.clusters(4),
    parts.policy(0, range(4), tuple(range(600000, 1000001, 100000)), 600000, "ondemand"),
    parts.zone(0, "cpu-thermal", 47774, trips=[("critical", 90000, 0)]),
    parts.hwmon(0, "cpu_thermal", {"temp1_input": 47774, "temp1_crit": 90000}),
    parts.hwmon(1, "rpi_volt", {"in0_lcrit_alarm": 0}),
    firmware(throttled=0x0, throttled_sysfs=0x0, temp_c=47.8, arm_hz=600_000_000, core_v=1.2313),
)
COMMANDS: Mapping[str, str] = vcgencmd(48)
