"""NVIDIA Jetson Orin Nano developer kit with JetPack 6, in the 15 W mode.

Quirks: the power mode caps the CPU at 1497.6 MHz, below cpuinfo_max_freq, which is no throttling,
and mode 1 with more watts caps it lower; zones cv0 to cv2 cannot be read; trips of tj start the
fan; a channel of a second ina3221, which the real kit has not, is labelled NC and yet reads
something; in4 to in7 are voltages across shunts, in7 their sum; oc3_event_cnt climbs in normal use.
"""

from __future__ import annotations

from collections.abc import Mapping

from support.boards import _parts as parts

PROFILE = "jetson-orin-nano-devkit"
IDENTITY: Mapping[str, str] = {"machine": "aarch64"}

_FREQS_KHZ = tuple(range(115200, 1728001, 76800))
_CAP_KHZ = 1497600
_GPU_HZ = (306_000_000, 408_000_000, 510_000_000, 612_000_000)
_LIMITS = (("passive", 99000, 0), ("critical", 104500, 0))
_FAN = (("active", 35000, 8000), ("active", 74000, 8000), ("active", 95000, 8000))
_MODES = """\
< POWER_MODEL ID=0 NAME=15W >
CPU_A78_0 MAX_FREQ 1497600
< POWER_MODEL ID=1 NAME=25W >
CPU_A78_0 MAX_FREQ 1344000
< POWER_MODEL ID=2 NAME=MAXN_SUPER >
CPU_A78_0 MAX_FREQ -1
< PM_CONFIG DEFAULT=0 >
"""


def _ina3221(number: int, rails: Mapping[str, tuple[int, int]]) -> parts.Part:
    """Label, millivolts and milliamperes of each channel; shunts of 5 mOhm."""
    readings: dict[str, object] = {}
    for channel, (label, (mv, ma)) in enumerate(rails.items(), start=1):
        readings |= {
            f"in{channel}_label": label,
            f"in{channel}_enable": 1,
            f"in{channel}_input": mv,
            f"curr{channel}_input": ma,
            f"curr{channel}_crit": 32760,
            f"in{channel + 3}_input": ma * 5 // 1000,
            f"shunt{channel}_resistor": 5000,
        }
    shunts_mv = sum(ma * 5 // 1000 for _, ma in rails.values())
    total = {"in7_label": "sum of shunt voltages", "in7_input": shunts_mv}
    return parts.hwmon(number, "ina3221", readings | total)


FILES, LINKS = parts.tree(
    parts.system("Ubuntu 22.04.5 LTS", 234),
    parts.device_tree(
        "NVIDIA Jetson Orin Nano Developer Kit",
        "nvidia,p3768-0000+p3767-0005",
        "nvidia,p3767-0005",
        "nvidia,tegra234",
    ),
    parts.arm_cpuinfo({"0xd42": 6}, parts.A76_FEATURES),
    parts.memory(7802880, 4070400, swap_kb=3901440, swap_free_kb=3901440, cma_kb=262144),
    parts.activity(range(6)),
    parts.pressure(),
    parts.cgroup(),
    parts.clusters(4, 2),
    parts.policy(0, range(4), _FREQS_KHZ, 729600, "schedutil", cap=_CAP_KHZ, driver="tegra194"),
    parts.policy(4, (4, 5), _FREQS_KHZ, 729600, "schedutil", cap=_CAP_KHZ, driver="tegra194"),
    parts.zone(0, "cpu-thermal", 44125, trips=_LIMITS, maps=[(0, 1), (0, 2)]),
    parts.zone(1, "gpu-thermal", 43687, trips=_LIMITS, maps=[(0, 3)]),
    *(parts.zone(2 + n, f"cv{n}-thermal", "", trips=_LIMITS) for n in range(3)),
    *(parts.zone(5 + n, f"soc{n}-thermal", 43031 + 500 * n, trips=_LIMITS) for n in range(3)),
    parts.zone(8, "tj-thermal", 44531, trips=_FAN, maps=[(0, 0), (1, 0), (2, 0)]),
    parts.cooling(0, "pwm-fan", 1, 5),
    parts.cooling(1, "cpufreq-cpu0", 0, len(_FREQS_KHZ) - 1),
    parts.cooling(2, "cpufreq-cpu4", 0, len(_FREQS_KHZ) - 1),
    parts.cooling(3, "devfreq-17000000.gpu", 0, len(_GPU_HZ) - 1),
    _ina3221(1, {"VDD_IN": (5016, 590), "VDD_CPU_GPU_CV": (5016, 97), "VDD_SOC": (5008, 202)}),
    _ina3221(3, {"NC": (4992, 24)}),
    parts.hwmon(
        4,
        "soctherm_oc",
        {f"oc{n}_event_cnt": count for n, count in ((1, 0), (2, 0), (3, 17))}
        | {f"oc{n}_throt_en": 1 for n in (1, 2, 3)},
    ),
    parts.devfreq("17000000.gpu", _GPU_HZ, 306_000_000, "nvhost_podgov"),
    {"etc/nvpmodel.conf": _MODES, "var/lib/nvpmodel/status": "pmode:0000\n"},
)
COMMANDS: Mapping[str, str] = {}
