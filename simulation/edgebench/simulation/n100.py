"""Files of a laptop with an Intel N100, except the files with clock and temperature.

The throttle counters stay at zero, because the kernel does not count a power limit as throttling.
"""

from __future__ import annotations

from collections.abc import Mapping

_CPU = "sys/devices/system/cpu"
_RAPL = "sys/class/powercap/intel-rapl:0"


def _core(cpu: int) -> Mapping[str, str]:
    folder = f"{_CPU}/cpu{cpu}"
    return {
        f"{folder}/topology/physical_package_id": "0\n",
        f"{folder}/topology/core_id": f"{cpu}\n",
        f"{folder}/thermal_throttle/core_throttle_count": "0\n",
        f"{folder}/thermal_throttle/package_throttle_count": "0\n",
    }


N100_FILES: dict[str, str | bytes] = {
    "proc/cpuinfo": "".join(
        f"processor\t: {cpu}\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) N100\n\n"
        for cpu in range(4)
    ),
    **{path: text for cpu in range(4) for path, text in _core(cpu).items()},
    f"{_RAPL}/name": "package-0\n",
    f"{_RAPL}/constraint_0_name": "long_term\n",
    f"{_RAPL}/constraint_0_power_limit_uw": "6000000\n",
    f"{_RAPL}/constraint_0_time_window_us": "27983872\n",
    f"{_RAPL}/constraint_1_name": "short_term\n",
    f"{_RAPL}/constraint_1_power_limit_uw": "25000000\n",
}
"""Maps the path of each file to its content. The energy counter is missing, because only root can
read it."""
