"""Phone with Android 11 (API 30), whose battery reports a value set by hand, with its screen off.

Quirks: the HAL of heat is not ready; the power saver is on; a property has two lines.
"""

from __future__ import annotations

from collections.abc import Mapping

from support.boards import _android as android
from support.boards import _parts as parts

PROFILE = "generic-android"
IDENTITY: Mapping[str, str] = {"machine": "aarch64"}

_FREQS_KHZ = (500000, 1050000, 2000000)

FILES, LINKS = parts.tree(
    parts.arm_cpuinfo({"0xd05": 6, "0xd0b": 2}, parts.A76_FEATURES),
    parts.memory(5810344, 2204112),
    parts.clusters(6, 2),
    parts.policy(0, range(6), _FREQS_KHZ, 1050000, "schedutil"),
    parts.policy(6, range(6, 8), _FREQS_KHZ, 2000000, "schedutil"),
    android.properties(
        {
            "ro.product.device": "m31",
            "ro.product.model": "SM-M315F",
            "ro.board.platform": "universal9611",
            "ro.build.version.release": "11",
            "ro.build.version.sdk": "30",
            "ro.build.version.security_patch": "2021-03-01",
            "ro.vendor.note": "first line\nsecond line",
        }
    ),
    android.battery(4, is_faked=True),
    android.power("Asleep", saver="1"),
    android.display(58, mode=0, airplane="0"),
    android.thermal(0, "", cached=android.temperature("AP", 0, "84.208"), is_ready=False),
)
COMMANDS = android.COMMANDS
