"""Samsung Galaxy S23 with Android 16 (API 36), full and plugged in, its thermal status overridden.

Quirks: stale temperatures follow the current ones and look like them; some types are no
temperature; a sensor of exactly 0 is not fitted; two temperatures have one name.
"""

from __future__ import annotations

from collections.abc import Mapping

from support.boards import _android as android
from support.boards import _parts as parts

PROFILE = "samsung-galaxy-s23"
IDENTITY: Mapping[str, str] = {"machine": "aarch64"}

_FREQS_KHZ = (307200, 1113600, 2016000)
_BIG_KHZ = (595200, 1747200, 3360000)

FILES, LINKS = parts.tree(
    parts.arm_cpuinfo({"0xd46": 3, "0xd4d": 4, "0xd4e": 1}, parts.A76_FEATURES),
    parts.memory(7316544, 2820220),
    parts.clusters(3, 4, 1),
    parts.policy(0, range(3), _FREQS_KHZ, 1113600, "walt"),
    parts.policy(3, range(3, 7), _FREQS_KHZ, 1113600, "walt"),
    parts.policy(7, range(7, 8), _BIG_KHZ, 1747200, "walt"),
    android.properties(
        {
            "ro.product.device": "dm1q",
            "ro.product.model": "SM-S911B",
            "ro.soc.manufacturer": "QTI",
            "ro.soc.model": "SM8550",
            "ro.build.version.release": "16",
            "ro.build.version.sdk": "36",
            "ro.build.version.security_patch": "2025-11-05",
            "ro.build.fingerprint": "samsung/dm1qxxx/dm1q:16/BP2A.250605/S911BXXU:user/keys",
        }
    ),
    android.battery(5, plugged="AC", level=100, temp=332, millivolts=4401, has_dock=True),
    android.power("Dozing"),
    android.display(255, mode=0, airplane="1"),
    android.thermal(
        0,
        android.temperature("AP", 0, "48.2")
        + android.temperature("AP", 0, "47.1")
        + android.temperature("SKIN", 3, "36.4")
        + android.temperature("BATTERY", 2, "33.2")
        + android.temperature("PA", 5, "0.0")
        + android.temperature("SUBBAT", 2, "-274.0")
        + android.temperature("VBAT", 6, "4.4"),
        cached=android.temperature("SKIN", 3, "71.0", 4) + android.temperature("AP", 0, "84.208"),
        thresholds=android.threshold(
            "SKIN", 3, *("NaN", "38.0", "42.0", "45.0", "NaN", "NaN", "NaN")
        ),
        is_overridden=True,
        is_cached_last=True,
    ),
)
COMMANDS = android.COMMANDS
