"""Raspberry Pi 5 with 8 GB and its active cooler, with Raspberry Pi OS.

Quirks: the only cooling device is the fan, in state 1, which is no throttling; one of its trips is
at half a degree; four maps name the same fan; more hwmon chips than on older boards; the clock's
index is 0; pmic_read_adc exists, and two of its voltages have no current; get_throttled has no
counterpart in /sys; no pressure files.
"""

from __future__ import annotations

from collections.abc import Mapping

from support.boards import _parts as parts
from support.boards._videocore import firmware, pmic, vcgencmd

PROFILE = "raspberrypi-5"
IDENTITY: Mapping[str, str] = {"machine": "aarch64"}

_FREQS_KHZ = tuple(range(1500000, 2400001, 100000))
_TRIPS = (
    ("critical", 90000, 0),
    ("active", 50000, 5000),
    ("active", 60000, 5000),
    ("active", 67500, 5000),
    ("active", 75000, 5000),
)
_TAIL = (
    "Revision\t: d04170\nSerial\t\t: 00000000deadbe05\nModel\t\t: Raspberry Pi 5 Model B Rev 1.0\n"
)

FILES, LINKS = parts.tree(
    parts.system("Debian GNU/Linux 12 (bookworm)", 5),
    parts.device_tree(
        "Raspberry Pi 5 Model B Rev 1.0",
        "raspberrypi,5-model-b",
        "brcm,bcm2712",
        serial="00000000deadbe05",
    ),
    parts.arm_cpuinfo({"0xd0b": 4}, parts.A76_FEATURES, _TAIL),
    parts.memory(8245840, 7340032, swap_kb=102396, swap_free_kb=102140, cma_kb=65536),
    parts.activity(range(4)),
    parts.cgroup("cpuset cpu io pids"),
    parts.clusters(4, capacities=[1024]),
    parts.policy(0, range(4), _FREQS_KHZ, 2400000, "ondemand"),
    parts.zone(
        0, "cpu-thermal", 54050, trips=_TRIPS, maps=[(trip, 0) for trip in range(1, len(_TRIPS))]
    ),
    parts.cooling(0, "pwm-fan", 1, 4),
    parts.hwmon(0, "cpu_thermal", {"temp1_input": 54050, "temp1_crit": 90000}),
    parts.hwmon(1, "rp1_adc", {"in1_input": 1481, "in2_input": 2601, "temp1_input": 51216}),
    parts.hwmon(2, "pwmfan", {"fan1_input": 2914, "pwm1": 75, "pwm1_enable": 1}),
    parts.hwmon(3, "rpi_volt", {"in0_lcrit_alarm": 0}),
    firmware(throttled=0x0, throttled_sysfs=None, temp_c=54.1, arm_hz=2_400_028_928, core_v=0.8898),
    pmic(),
)
COMMANDS: Mapping[str, str] = vcgencmd(0)
