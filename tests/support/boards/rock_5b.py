"""Radxa ROCK 5B (RK3588), its last pair of big cores throttled, with statistics of cooling.

Zones are those of the mainline kernel, devfreq nodes those of the vendor's. Quirks: three policies,
of which only policy6 is capped, by a cooling device in state 2; the big pairs are of different
grades; the fan runs; package and npu have no passive trip; frequencies of devfreq are in Hz.
"""

from __future__ import annotations

from collections.abc import Mapping

from support.boards import _parts as parts

PROFILE = "rock-5b"
IDENTITY: Mapping[str, str] = {"machine": "aarch64"}

_LITTLE_KHZ = (408000, 600000, 816000, 1008000, 1200000, 1416000, 1608000, 1800000)
_BIG_KHZ = (408000, 816000, 1200000, 1608000, 1800000, 2016000, 2208000, 2256000, 2400000)
_BIG_SLOWER_KHZ = (408000, 816000, 1200000, 1608000, 1800000, 2016000, 2208000, 2256000, 2352000)
_GPU_HZ = tuple(mhz * 1_000_000 for mhz in (300, 400, 500, 600, 700, 800, 900, 1000))
_NPU_HZ = tuple(mhz * 1_000_000 for mhz in (300, 400, 500, 600, 700, 800, 900, 1000))
_DMC_HZ = (528_000_000, 1_068_000_000, 1_560_000_000, 2_112_000_000)
_CRITICAL = ("critical", 115000, 0)
_PASSIVE = ("passive", 85000, 2000)

FILES, LINKS = parts.tree(
    parts.system("Debian GNU/Linux 12 (bookworm)", 3588),
    parts.device_tree("Radxa ROCK 5B", "radxa,rock-5b", "rockchip,rk3588"),
    parts.arm_cpuinfo({"0xd05": 4, "0xd0b": 4}, parts.A76_FEATURES),
    parts.memory(16218220, 14920104, cma_kb=262144),
    parts.activity(range(8), load="4.02 3.71 2.10"),
    parts.pressure(),
    parts.cgroup(),
    parts.clusters(4, 2, 2, capacities=[530, 1024, 1024]),
    parts.policy(0, range(4), _LITTLE_KHZ, 1800000, "ondemand"),
    parts.policy(4, (4, 5), _BIG_KHZ, 2400000, "ondemand"),
    parts.policy(6, (6, 7), _BIG_SLOWER_KHZ, 2208000, "ondemand", cap=2208000),
    parts.zone(0, "package-thermal", 80384, trips=[_CRITICAL], policy="power_allocator"),
    parts.zone(1, "bigcore0-thermal", 82230, trips=[_PASSIVE, _CRITICAL], maps=[(0, 1)]),
    parts.zone(2, "bigcore2-thermal", 86846, trips=[_PASSIVE, _CRITICAL], maps=[(0, 2)]),
    parts.zone(3, "littlecore-thermal", 79461, trips=[_PASSIVE, _CRITICAL], maps=[(0, 0)]),
    parts.zone(4, "center-thermal", 76692, trips=[_CRITICAL]),
    parts.zone(5, "gpu-thermal", 75769, trips=[_PASSIVE, _CRITICAL], maps=[(0, 3)]),
    parts.zone(6, "npu-thermal", 76692, trips=[_CRITICAL]),
    parts.cooling(0, "cpufreq-cpu0", 0, len(_LITTLE_KHZ) - 1, stats=True),
    parts.cooling(1, "cpufreq-cpu4", 0, len(_BIG_KHZ) - 1, stats=True),
    parts.cooling(2, "cpufreq-cpu6", 2, len(_BIG_SLOWER_KHZ) - 1, stats=True),
    parts.cooling(3, "devfreq-fb000000.gpu", 0, len(_GPU_HZ) - 1, stats=True),
    parts.cooling(4, "pwm-fan", 3, 4, stats=True),
    parts.hwmon(0, "package_thermal", {"temp1_input": 80384, "temp1_crit": 115000}),
    parts.hwmon(7, "pwmfan", {"pwm1": 220, "pwm1_enable": 1}),
    parts.devfreq("fb000000.gpu", _GPU_HZ, 300_000_000, "simple_ondemand", load=0),
    parts.devfreq("fdab0000.npu", _NPU_HZ, 1_000_000_000, "rknpu_ondemand", load=0),
    parts.devfreq("dmc", _DMC_HZ, 2_112_000_000, "dmc_ondemand", load=37),
)
COMMANDS: Mapping[str, str] = {}
