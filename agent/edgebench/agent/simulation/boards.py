"""The simulated boards: what they show, how they grow warm, and what slows them down.

Their time runs twenty times as fast as real time, so that a run of two minutes shows what a real
board does in forty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edgebench.agent.simulation.controllers import (
    Controller,
    Fan,
    IdleInjection,
    Progressive,
)
from edgebench.agent.simulation.heat import Body
from edgebench.protocol.errors import UsageError

Files = Mapping[str, str | bytes]

VCGENCMD = """\
#!/bin/sh
here="$(dirname "$0")/../../sim"
case "$1" in
get_throttled) read -r value < "$here/throttled"; echo "throttled=$value" ;;
measure_clock) read -r value < "$here/arm_hz"; echo "frequency(0)=$value" ;;
esac
"""
BARE_BOARD = Body(junction_k_per_w=4.0, junction_j_per_k=5.0, case_k_per_w=6.0, case_j_per_k=170.0)
"""Within 4 °C of the published cooling of a Raspberry Pi 5 without a cooler; see its test."""
ZONES = "sys/class/thermal/thermal_zone"
_POLICY = "sys/devices/system/cpu/cpufreq/policy0"
_COOLING = "sys/class/thermal/cooling_device0"


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedBoard:
    """One board."""

    name: str
    compatible: tuple[str, ...]
    """Of its device tree; decides which profile it has."""
    zones: tuple[str, ...]
    """All show the same temperature."""
    freq_khz: int
    controller: Callable[[int], Controller]
    """From a seed."""
    cooling: str | None = None
    trip_c: int | None = None
    """Passive, bound to the cooling device."""
    has_vcgencmd: bool = False
    body: Body = BARE_BOARD
    ambient_c: float = 25.0
    idle_w: float = 2.0
    busy_w: float = 5.5
    time_scale: float = 20.0
    """Simulated seconds in a real one."""

    def files(self) -> dict[str, str | bytes]:
        """What it shows under /proc and /sys, before anything has happened."""
        found: dict[str, str | bytes] = {
            "proc/device-tree/compatible": b"".join(c.encode() + b"\0" for c in self.compatible),
            f"{_POLICY}/related_cpus": "0 1 2 3\n",
            f"{_POLICY}/cpuinfo_max_freq": f"{self.freq_khz}\n",
            f"{_POLICY}/cpuinfo_min_freq": f"{self.freq_khz // 4}\n",
            f"{_POLICY}/scaling_cur_freq": f"{self.freq_khz}\n",
            f"{_POLICY}/scaling_max_freq": f"{self.freq_khz}\n",
            f"{_POLICY}/scaling_governor": "performance\n",
        }
        for number, zone in enumerate(self.zones):
            folder = f"{ZONES}{number}"
            found |= {f"{folder}/type": f"{zone}\n", f"{folder}/temp": "25000\n"}
            if self.cooling and self.trip_c is not None:
                found |= {
                    f"{folder}/trip_point_0_type": "passive\n",
                    f"{folder}/trip_point_0_temp": f"{1000 * self.trip_c}\n",
                    f"{folder}/cdev0_trip_point": "0\n",
                    f"{folder}/cdev0/type": f"{self.cooling}\n",
                }
        if self.cooling:
            found |= {f"{_COOLING}/type": f"{self.cooling}\n", f"{_COOLING}/cur_state": "0\n"}
        if self.has_vcgencmd:
            found |= {
                "sim/throttled": "0x0\n",
                "sim/arm_hz": f"{1000 * self.freq_khz}\n",
                "usr/bin/vcgencmd": VCGENCMD,
            }
        return found


_ALL = (
    SimulatedBoard(
        name="raspberry-pi-5-bare",
        compatible=("raspberrypi,5-model-b", "brcm,bcm2712"),
        zones=("cpu-thermal",),
        freq_khz=2_400_000,
        controller=lambda _: Progressive(),
        has_vcgencmd=True,
        busy_w=6.5,
    ),
    SimulatedBoard(
        name="raspberry-pi-5-cooled",
        compatible=("raspberrypi,5-model-b", "brcm,bcm2712"),
        zones=("cpu-thermal",),
        freq_khz=2_400_000,
        controller=lambda _: Fan(),
        cooling="pwm-fan",
        has_vcgencmd=True,
    ),
    SimulatedBoard(
        name="imx8mp-evk",
        compatible=("fsl,imx8mp-evk", "fsl,imx8mp"),
        zones=("cpu-thermal", "soc-thermal"),
        freq_khz=1_800_000,
        controller=lambda _: IdleInjection(),
        cooling="thermal-idle-0",
        trip_c=85,
        busy_w=7.5,
    ),
)
BOARDS: dict[str, SimulatedBoard] = {board.name: board for board in _ALL}


def find_board(text: str) -> tuple[SimulatedBoard, int]:
    """The board and the seed of `NAME` or `NAME:SEED`.

    Raises:
        UsageError: there is no such board, or the seed is no number.
    """
    name, _, seed = text.partition(":")
    if name not in BOARDS:
        raise UsageError(f"unknown simulated board {name!r}: there are {', '.join(BOARDS)}")
    if seed and not seed.isdigit():
        raise UsageError(f"seed of a simulated board must be a number, got {seed!r}")
    return BOARDS[name], int(seed or 0)
