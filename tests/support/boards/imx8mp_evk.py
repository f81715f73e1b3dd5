"""NXP i.MX8MP evaluation kit of the industrial grade, slowed down by idle injection.

Quirks: idle devices are in state 30 of 100 while the frequency stays at its highest and the
cpufreq device in state 0; this grade ends at 1.6 GHz, not 1.8; cooling devices have the names of
older kernels; /proc/pressure/cpu has one line.
"""

from __future__ import annotations

from collections.abc import Mapping

from support.boards import _parts as parts

PROFILE = "imx8mp-evk"
IDENTITY: Mapping[str, str] = {"machine": "aarch64"}

_FREQS_KHZ = (1200000, 1600000)
_TRIPS = (("passive", 85000, 2000), ("critical", 95000, 2000))

FILES, LINKS = parts.tree(
    parts.system("NXP i.MX Release Distro 5.10-hardknott", 8),
    parts.device_tree("NXP i.MX8MPlus EVK board", "fsl,imx8mp-evk", "fsl,imx8mp"),
    parts.arm_cpuinfo({"0xd03": 4}, parts.A53_FEATURES),
    parts.memory(5810920, 5302104, cma_kb=983040),
    parts.activity(range(4), load="4.10 3.92 2.66"),
    parts.pressure(cpu_full=False),
    parts.cgroup(),
    parts.clusters(4, ids=False),
    parts.policy(0, range(4), _FREQS_KHZ, 1600000, "schedutil"),
    parts.zone(0, "cpu-thermal", 86000, trips=_TRIPS, maps=[(0, n) for n in range(5)]),
    parts.zone(1, "soc-thermal", 84000, trips=_TRIPS, maps=[(0, n) for n in range(5)]),
    parts.cooling(0, "thermal-cpufreq-0", 0, len(_FREQS_KHZ) - 1),
    *(parts.cooling(1 + cpu, f"thermal-idle-{cpu}", 30, 100) for cpu in range(4)),
)
COMMANDS: Mapping[str, str] = {}
