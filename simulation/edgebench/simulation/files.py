"""Files of a simulated board under /proc and /sys, and its firmware command.

Source of paths, types and units: the telemetry sources, and the facts in the device profiles.
"""

from __future__ import annotations

from collections.abc import Mapping

from edgebench.simulation.board import Policy, SimulatedBoard, SimulatedZone
from edgebench.simulation.controllers import RPI_UNDERVOLTAGE, STICKY_SHIFT, Effect

VCGENCMD = "usr/bin/vcgencmd"
_VCGENCMD_SCRIPT = """\
#!/bin/sh
here="$(dirname "$0")/../../sim"
case "$1" in
get_throttled) read -r value < "$here/throttled"; echo "throttled=$value" ;;
measure_clock) read -r value < "$here/arm_hz"; echo "frequency(0)=$value" ;;
esac
"""
_CPUS = "sys/devices/system/cpu"
_GOVERNORS = "conservative ondemand powersave performance schedutil"
_THERMAL = "sys/class/thermal"
_HWMON = "sys/class/hwmon/hwmon0"
EVENTS_SINCE_BOOT = 17
"""Number of over-current events before the run. The number is not 0, because such events occur in
normal use; only later events count as throttling."""


def fixed_files(board: SimulatedBoard) -> dict[str, str | bytes]:
    """Files with constant content."""
    files: dict[str, str | bytes] = dict(board.extra)
    if board.compatible:
        files["proc/device-tree/compatible"] = b"".join(
            c.encode() + b"\0" for c in board.compatible
        )
    for policy in board.policies:
        files |= _policy(policy)
    for number, zone in enumerate(board.zones):
        files |= _zone(f"{_THERMAL}/thermal_zone{number}", zone, board.cooling)
    for number, kind in enumerate(board.cooling):
        files[f"{_THERMAL}/cooling_device{number}/type"] = f"{kind}\n"
    if board.has_videocore:
        files |= {VCGENCMD: _VCGENCMD_SCRIPT, f"{_HWMON}/name": "rpi_volt\n"}
    if board.has_soctherm:
        files |= {f"{_HWMON}/name": "soctherm_oc\n"}
        files |= {f"{_HWMON}/oc{number}_throt_en": "1\n" for number in (1, 2, 3)}
        files |= {f"{_HWMON}/oc{number}_event_cnt": "0\n" for number in (1, 2)}
    return files


def changing_files(
    board: SimulatedBoard, effect: Effect, *, temp_c: float, sticky_bits: int
) -> dict[str, str]:
    """Files that show the present temperature and the present effect of the controller."""
    files: dict[str, str] = {}
    for policy in board.policies:
        folder = _policy_folder(policy)
        files[f"{folder}/scaling_cur_freq"] = str(round(policy.nominal_khz * effect.told_clock))
        files[f"{folder}/scaling_max_freq"] = str(round(policy.nominal_khz * effect.cap))
    for number in range(len(board.zones)):
        files[f"{_THERMAL}/thermal_zone{number}/temp"] = str(round(1000 * temp_c))
    for number in range(len(board.cooling)):
        files[f"{_THERMAL}/cooling_device{number}/cur_state"] = str(effect.cooling_state)
    if board.has_videocore:
        files["sim/throttled"] = hex(effect.bits | sticky_bits << STICKY_SHIFT)
        files["sim/arm_hz"] = str(round(1000 * board.policies[0].nominal_khz * effect.clock))
        files[f"{_HWMON}/in0_lcrit_alarm"] = str(int(bool(sticky_bits & RPI_UNDERVOLTAGE)))
    if board.has_soctherm:
        count = EVENTS_SINCE_BOOT + effect.overcurrent_count
        files[f"{_HWMON}/oc3_event_cnt"] = str(count)
    return files


def links(board: SimulatedBoard) -> dict[str, str]:
    """Links from each CPU to its cpufreq policy."""
    return {
        f"{_CPUS}/cpu{cpu}/cpufreq": f"../cpufreq/policy{policy.cpus.start}"
        for policy in board.policies
        for cpu in policy.cpus
    }


def _policy_folder(policy: Policy) -> str:
    return f"{_CPUS}/cpufreq/policy{policy.cpus.start}"


def _policy(policy: Policy) -> Mapping[str, str]:
    folder = _policy_folder(policy)
    return {
        f"{folder}/related_cpus": " ".join(map(str, policy.cpus)) + "\n",
        f"{folder}/cpuinfo_max_freq": f"{policy.highest_khz}\n",
        f"{folder}/cpuinfo_min_freq": f"{policy.highest_khz // 4}\n",
        f"{folder}/scaling_governor": "performance\n",
        f"{folder}/scaling_available_governors": f"{_GOVERNORS}\n",
    }


def _zone(folder: str, zone: SimulatedZone, cooling: tuple[str, ...]) -> Mapping[str, str]:
    files = {f"{folder}/type": f"{zone.kind}\n"}
    if zone.trip_c is None:
        return files
    files |= {
        f"{folder}/trip_point_0_type": "passive\n",
        f"{folder}/trip_point_0_temp": f"{round(1000 * zone.trip_c)}\n",
    }
    for number, kind in enumerate(cooling):
        files |= {
            f"{folder}/cdev{number}_trip_point": "0\n",
            f"{folder}/cdev{number}/type": f"{kind}\n",
        }
    return files
