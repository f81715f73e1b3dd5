"""Khadas VIM3 (A311D): two little cores, then four big ones.

Quirks: the second policy is policy2; CPU 5 is isolated; zones are numbered 0 and 2, since a driver
was loaded again; the fan's cooling device is neither a pwm-fan nor a gpio-fan, and it runs.
"""

from __future__ import annotations

from collections.abc import Mapping

from support.boards import _parts as parts

PROFILE = "khadas-vim3"
IDENTITY: Mapping[str, str] = {"machine": "aarch64"}

_LITTLE_KHZ = (500000, 667000, 1000000, 1200000, 1398000, 1512000, 1608000, 1800000)
_BIG_KHZ = (500000, 667000, 1000000, 1200000, 1398000, 1608000, 1800000, 2016000, 2208000)
_TRIPS = (("passive", 85000, 5000), ("hot", 95000, 5000), ("critical", 110000, 1000))

FILES, LINKS = parts.tree(
    parts.system("Debian GNU/Linux 12 (bookworm)", 311),
    parts.device_tree("Khadas VIM3", "khadas,vim3", "amlogic,a311d", "amlogic,g12b"),
    parts.arm_cpuinfo({"0xd03": 2, "0xd09": 4}, parts.A53_FEATURES),
    parts.memory(3937448, 3410220, cma_kb=524288),
    parts.activity(range(6)),
    parts.pressure(),
    parts.cgroup(),
    parts.clusters(2, 4, capacities=[482, 1024], isolated="5"),
    parts.policy(0, (0, 1), _LITTLE_KHZ, 1000000, "schedutil"),
    parts.policy(2, range(2, 6), _BIG_KHZ, 1000000, "schedutil"),
    parts.zone(0, "cpu-thermal", 48200, trips=_TRIPS, maps=[(0, 0), (0, 1), (1, 2)]),
    parts.zone(
        2, "ddr-thermal", 49600, trips=[("passive", 85000, 5000), ("critical", 110000, 1000)]
    ),
    parts.cooling(0, "cpufreq-cpu0", 0, len(_LITTLE_KHZ) - 1),
    parts.cooling(1, "cpufreq-cpu2", 0, len(_BIG_KHZ) - 1),
    parts.cooling(2, "khadas-mcu-fan", 1, 3),
    parts.hwmon(0, "cpu_thermal", {"temp1_input": 48200, "temp1_crit": 110000}),
    parts.hwmon(2, "ddr_thermal", {"temp1_input": 49600, "temp1_crit": 110000}),
)
COMMANDS: Mapping[str, str] = {}
