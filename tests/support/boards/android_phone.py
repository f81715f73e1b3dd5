"""Google Pixel 8 with Android 14 (API 34) as the shell user sees it over adb, charging from USB.

Quirks: no /etc/os-release, machine-id, device tree or pressure files; the type of one zone and the
temperatures of others cannot be read; zones of the battery and of voltages are not the chip's
temperature, and one always reads 0; the GPU's frequency is in kHz and not under devfreq; the
battery's temperature is in tenths of a degree.
"""

from __future__ import annotations

from collections.abc import Mapping

from support.boards import _android as android
from support.boards import _parts as parts

PROFILE = "google-pixel-8"
IDENTITY: Mapping[str, str] = {"machine": "aarch64"}

_LITTLE_KHZ = (324000, 610000, 820000, 955000, 1098000, 1197000, 1328000, 1425000, 1548000, 1704000)
_MID_KHZ = (402000, 578000, 910000, 1221000, 1328000, 1557000, 1836000, 1999000, 2130000, 2367000)
_BIG_KHZ = (500000, 880000, 1164000, 1557000, 1885000, 2147000, 2363000, 2687000, 2802000, 2914000)
_GPU_KHZ = (
    *(150000, 202000, 251000, 302000, 337000, 376000, 419000),
    *(471000, 567000, 649000, 750000, 840000, 890000),
)
_GOVERNORS = "sched_pixel conservative powersave performance schedutil"
_TRIPS = (("passive", 90000, 5000), ("active", 95000, 5000), ("critical", 115000, 0))


def _policy(number: int, cpus: range, freqs_khz: tuple[int, ...]) -> parts.Part:
    return parts.policy(
        number, cpus, freqs_khz, freqs_khz[1], "sched_pixel", governors=_GOVERNORS, driver="exynos"
    )


FILES, LINKS = parts.tree(
    parts.arm_cpuinfo({"0xd46": 4, "0xd4d": 4, "0xd4e": 1}, f"{parts.A76_FEATURES} i8mm bf16 sve2"),
    parts.memory(7716544, 3120220, swap_kb=3858268, swap_free_kb=2611004, cma_kb=131072),
    parts.activity(range(9), load="3.40 3.12 2.95"),
    parts.clusters(4, 4, 1, capacities=[250, 800, 1024], ids=False),
    _policy(0, range(4), _LITTLE_KHZ),
    _policy(4, range(4, 8), _MID_KHZ),
    _policy(8, range(8, 9), _BIG_KHZ),
    parts.zone(0, "BIG", 46000, trips=_TRIPS, maps=[(0, 2)]),
    parts.zone(1, "MID", 45000, trips=_TRIPS, maps=[(0, 1)]),
    parts.zone(2, "LITTLE", 45000, trips=_TRIPS, maps=[(0, 0)]),
    parts.zone(3, "G3D", 43000, trips=_TRIPS, maps=[(0, 3)]),
    parts.zone(5, "TPU", 42000, trips=_TRIPS),
    parts.zone(10, "battery", 29100),
    parts.zone(11, "quiet_therm", ""),
    parts.zone(12, "disp_therm", 0),
    parts.zone(14, "vdroop1", 4012),
    {"sys/class/thermal/thermal_zone20/type": "", "sys/class/thermal/thermal_zone20/temp": ""},
    *(parts.cooling(n, f"thermal-cpufreq-{n}", 0, 9) for n in range(3)),
    parts.cooling(3, "thermal-gpufreq-0", 0, len(_GPU_KHZ) - 1),
    parts.cooling(4, "tpu_cooling", 0, 4),
    parts.folder(
        "sys/devices/platform/1f000000.mali",
        {
            "cur_freq": 202000,
            "scaling_min_freq": _GPU_KHZ[0],
            "scaling_max_freq": _GPU_KHZ[-1],
            "available_frequencies": " ".join(map(str, reversed(_GPU_KHZ))),
            "power_policy": "[adaptive] always_on",
        },
    ),
    parts.supply(
        "battery",
        "Battery",
        {
            "status": "Charging",
            "capacity": 81,
            "temp": 291,
            "current_now": 423125,
            "voltage_now": 4231562,
        },
    ),
    parts.supply("usb", "USB", {"online": 1, "voltage_now": 5012500}),
    android.properties(
        {
            "ro.product.device": "shiba",
            "ro.product.manufacturer": "Google",
            "ro.product.model": "Pixel 8",
            "ro.soc.manufacturer": "Google",
            "ro.soc.model": "Tensor G3",
            "ro.build.version.release": "14",
            "ro.build.version.sdk": "34",
            "ro.build.version.security_patch": "2024-05-05",
            "ro.build.fingerprint": "google/shiba/shiba:14/AP1A.240505.004/11583682:user/keys",
            "ro.serialno": "3A021JEHN00000",
        }
    ),
    android.battery(2, plugged="USB", has_dock=True),
    android.power("Awake", saver="0"),
    android.display(128, airplane="0"),
    android.thermal(
        0,
        android.temperature("VIRTUAL-SKIN", 3, "31.793081")
        + android.temperature("battery", 2, "29.1")
        + android.temperature("BIG", 0, "46.0")
        + android.temperature("MID", 0, "45.0")
        + android.temperature("LITTLE", 0, "45.0")
        + android.temperature("G3D", 1, "43.0")
        + android.temperature("TPU", 9, "42.0")
        + android.temperature("soc", 8, "81.0"),
        cached=android.temperature("VIRTUAL-SKIN", 3, "44.208", 3),
        thresholds=android.threshold(
            "VIRTUAL-SKIN", 3, *("NaN", "39.0", "43.0", "45.0", "46.5", "52.0", "55.0")
        ),
    ),
)
COMMANDS = android.COMMANDS
