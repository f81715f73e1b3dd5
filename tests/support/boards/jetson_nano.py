"""NVIDIA Jetson Nano developer kit with JetPack 4 (Linux 4.9), in the 10 W mode.

Quirks: PMIC-Die always reads 100 °C; the Wi-Fi's zone is offline at -256 °C and its number is not
the next one; trips of the CPU's zone called passive, hot and active all start the fan, at 30 °C;
the fan runs; power comes from an iio device, not from hwmon, and its rails count from 0; /proc has
no pressure, /sys no cluster ids, no cpu_capacity and no unified cgroups.
"""

from __future__ import annotations

from collections.abc import Mapping

from support.boards import _parts as parts

PROFILE = "jetson-nano"
IDENTITY: Mapping[str, str] = {"machine": "aarch64"}

_FREQS_KHZ = (
    *(102000, 204000, 307200, 403200, 518400, 614400, 710400, 825600, 921600),
    *(1036800, 1132800, 1224000, 1326000, 1428000, 1479000),
)
_GPU_HZ = tuple(range(76_800_000, 921_600_001, 76_800_000))
_TRIPS = (
    ("passive", 30000, 0),
    ("active", 50000, 0),
    ("hot", 70000, 0),
    ("critical", 96500, 0),
)
_RAILS = (
    ("POM_5V_IN", 5032, 424, 2132),
    ("POM_5V_GPU", 5032, 16, 78),
    ("POM_5V_CPU", 5032, 55, 275),
)
_MODES = """\
< POWER_MODEL ID=0 NAME=MAXN >
CPU_A57 MAX_FREQ 1479000
< POWER_MODEL ID=1 NAME=5W >
CPU_A57 MAX_FREQ 918000
< PM_CONFIG DEFAULT=0 >
"""


def _ina3221() -> parts.Part:
    path = "sys/bus/i2c/devices/6-0040/iio:device0"
    files = dict(parts.folder(path, {"name": "ina3221x"}))
    for index, (rail, mv, ma, mw) in enumerate(_RAILS):
        readings = {"voltage": mv, "current": ma, "power": mw}
        files |= parts.folder(path, {f"rail_name_{index}": rail})
        files |= parts.folder(path, {f"in_{kind}{index}_input": n for kind, n in readings.items()})
    return files | {
        "sys/bus/i2c/drivers/ina3221x/6-0040": parts.Link("../../devices/6-0040"),
        "sys/bus/iio/devices/iio:device0": parts.Link("../../i2c/devices/6-0040/iio:device0"),
    }


FILES, LINKS = parts.tree(
    parts.system("Ubuntu 18.04.6 LTS", 210),
    parts.device_tree("NVIDIA Jetson Nano Developer Kit", "nvidia,jetson-nano", "nvidia,tegra210"),
    parts.arm_cpuinfo({"0xd07": 4}, "fp asimd evtstrm aes pmull sha1 sha2 crc32"),
    parts.memory(4059252, 2364112, swap_kb=2029616, swap_free_kb=2029616, cma_kb=475136),
    parts.activity(range(4)),
    parts.clusters(4, ids=False),
    parts.policy(0, range(4), _FREQS_KHZ, 102000, "schedutil", driver="tegra-cpufreq"),
    parts.zone(0, "AO-therm", 47500),
    parts.zone(1, "CPU-therm", 39000, trips=_TRIPS, maps=[(0, 0), (1, 0), (2, 0)]),
    parts.zone(2, "GPU-therm", 37000, trips=[("critical", 103000, 0)]),
    parts.zone(3, "PLL-therm", 36500),
    parts.zone(4, "PMIC-Die", 100000, trips=[("critical", 120000, 0)]),
    parts.zone(5, "thermal-fan-est", 38000, policy="pid_thermal_gov"),
    parts.zone(8, "iwlwifi", -256000),
    parts.cooling(0, "pwm-fan", 2, 10),
    parts.cooling(1, "thermal-cpufreq-0", 0, len(_FREQS_KHZ) - 1),
    parts.devfreq("57000000.gpu", _GPU_HZ, 76_800_000, "nvhost_podgov"),
    _ina3221(),
    {"etc/nvpmodel.conf": _MODES, "var/lib/nvpmodel/status": "pmode:0000\n"},
)
COMMANDS: Mapping[str, str] = {}
