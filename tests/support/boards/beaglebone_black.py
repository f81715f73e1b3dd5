"""BeagleBone Black with one 32-bit core.

Quirks: no thermal zone, no cooling device and no hwmon chip at all; /proc/cpuinfo of 32-bit ARM has
a `model name`; lists of CPUs are just "0"; no cpu_capacity; 512 MB without swap.
"""

from __future__ import annotations

from collections.abc import Mapping

from support.boards import _parts as parts

PROFILE = "beaglebone-black"
IDENTITY: Mapping[str, str] = {"machine": "armv7l"}

_FREQS_KHZ = (300000, 600000, 720000, 800000, 1000000)
_CPUINFO = """\
processor\t: 0
model name\t: ARMv7 Processor rev 2 (v7l)
BogoMIPS\t: 996.14
Features\t: half thumb fastmult vfp edsp thumbee neon vfpv3 tls vfpd32
CPU implementer\t: 0x41
CPU architecture: 7
CPU variant\t: 0x3
CPU part\t: 0xc08
CPU revision\t: 2

Hardware\t: Generic AM33XX (Flattened Device Tree)
Revision\t: 0000
Serial\t\t: 0000BBBKdeadbeef
"""

FILES, LINKS = parts.tree(
    parts.system("Debian GNU/Linux 12 (bookworm)", 335),
    parts.device_tree(
        "TI AM335x BeagleBone Black", "ti,am335x-bone-black", "ti,am335x-bone", "ti,am33xx"
    ),
    {"proc/cpuinfo": _CPUINFO},
    parts.memory(494272, 391104, cma_kb=49152),
    parts.activity([0], load="0.12 0.08 0.02"),
    parts.pressure(),
    parts.cgroup(),
    parts.clusters(1),
    parts.policy(0, [0], _FREQS_KHZ, 1000000, "performance"),
)
COMMANDS: Mapping[str, str] = {}
