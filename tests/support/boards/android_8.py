"""Phone with Android 8.0 (API 26), discharging: no thermal service, no name of its chip's maker.

Quirks: properties of API 31 are absent, its counters of time in each frequency stand still, and
the power saver was never set.
"""

from __future__ import annotations

from collections.abc import Mapping

from support.boards import _android as android
from support.boards import _parts as parts

PROFILE = "generic-android"
IDENTITY: Mapping[str, str] = {"machine": "aarch64"}

_FREQS_KHZ = (300000, 902400, 1401600, 1843200)

FILES, LINKS = parts.tree(
    parts.arm_cpuinfo({"0xd03": 8}, parts.A53_FEATURES),
    parts.memory(3810344, 1204112),
    parts.clusters(8),
    parts.policy(0, range(8), _FREQS_KHZ, 1401600, "interactive"),
    parts.zone(0, "tsens_tz_sensor1", 41000),
    parts.supply(
        "battery",
        "Battery",
        {
            "status": "Discharging",
            "capacity": 62,
            "temp": 305,
            "current_now": -311000,
            "voltage_now": 3871000,
        },
    ),
    android.properties(
        {
            "ro.product.device": "potter",
            "ro.product.model": "Moto G (5) Plus",
            "ro.board.platform": "msm8953",
            "ro.build.version.release": "8.0.0",
            "ro.build.version.sdk": "26",
            "ro.build.version.security_patch": "2018-09-01",
        }
    ),
    android.battery(3, level=62, temp=305, millivolts=3871),
    android.power("Awake", saver="null"),
    android.display(102),
)
COMMANDS = android.COMMANDS
