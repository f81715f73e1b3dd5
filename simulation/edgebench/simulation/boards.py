"""The simulated boards: one for each kind of controller that throttles real boards.

Simulated time runs twenty times as fast as real time, so that a run of two minutes simulates forty
minutes of a real board. For boards that are not throttled by heat, simulated time runs twice as
fast as real time.

Source of zones, trip points, clocks and thresholds: the facts in the device profiles.
"""

from __future__ import annotations

import re

from edgebench.protocol.errors import UsageError
from edgebench.simulation.board import Policy, SimulatedBoard, SimulatedZone
from edgebench.simulation.controllers import (
    BangBang,
    Fan,
    IdleInjection,
    Nothing,
    OverCurrent,
    PowerLimit,
    Progressive,
    StepWise,
    UnderVoltage,
)
from edgebench.simulation.heat import Body
from edgebench.simulation.n100 import N100_FILES

BARE_BOARD = Body(junction_k_per_w=4.0, junction_j_per_k=5.0, case_k_per_w=6.0, case_j_per_k=170.0)
"""Raspberry Pi 5 without a cooler. A unit test checks that the simulated board cools down as a
real board did in a published observation, to within 4 °C."""
COOLED_BOARD = Body(
    junction_k_per_w=2.0, junction_j_per_k=5.0, case_k_per_w=6.0, case_j_per_k=170.0
)
SMALL_BOARD = Body(junction_k_per_w=4.0, junction_j_per_k=5.0, case_k_per_w=6.0, case_j_per_k=30.0)
"""Raspberry Pi 3B+, which reaches its soft limit after 75 s."""

_PI_5 = ("raspberrypi,5-model-b", "brcm,bcm2712")
_PI_5_CPUS = (Policy(range(4), 2_400_000),)
_CPU_ZONE = (SimulatedZone("cpu-thermal"),)

_ALL = (
    SimulatedBoard(
        name="raspberry-pi-5-bare",
        compatible=_PI_5,
        zones=_CPU_ZONE,
        policies=_PI_5_CPUS,
        controller=lambda _: Progressive(),
        has_videocore=True,
        body=BARE_BOARD,
        busy_w=7.0,
    ),
    SimulatedBoard(
        name="raspberry-pi-5-cooled",
        compatible=_PI_5,
        zones=_CPU_ZONE,
        policies=_PI_5_CPUS,
        controller=lambda _: Fan(),
        cooling=("pwm-fan",),
        has_videocore=True,
        body=COOLED_BOARD,
        busy_w=8.0,
    ),
    SimulatedBoard(
        name="raspberry-pi-5-unprotected",
        compatible=_PI_5,
        zones=_CPU_ZONE,
        policies=_PI_5_CPUS,
        controller=lambda _: Nothing(),
        has_videocore=True,
        body=BARE_BOARD,
        busy_w=9.5,
    ),
    SimulatedBoard(
        name="raspberry-pi-4-undervoltage",
        compatible=("raspberrypi,4-model-b", "brcm,bcm2711"),
        zones=_CPU_ZONE,
        policies=(Policy(range(4), 1_800_000),),
        controller=lambda seed: UnderVoltage(seed),
        has_videocore=True,
        body=COOLED_BOARD,
        busy_w=3.0,
        time_scale=2.0,
    ),
    SimulatedBoard(
        name="raspberry-pi-3b-plus",
        compatible=("raspberrypi,3-model-b-plus", "brcm,bcm2837"),
        zones=_CPU_ZONE,
        policies=(Policy(range(4), 1_400_000),),
        controller=lambda _: BangBang(),
        has_videocore=True,
        body=SMALL_BOARD,
        idle_w=1.5,
        busy_w=2.4,
    ),
    SimulatedBoard(
        name="rock-5b",
        compatible=("radxa,rock-5b", "rockchip,rk3588"),
        zones=(
            SimulatedZone("package-thermal"),
            SimulatedZone("bigcore0-thermal", 85.0),
            SimulatedZone("bigcore2-thermal", 85.0),
            SimulatedZone("littlecore-thermal", 85.0),
            SimulatedZone("center-thermal"),
            SimulatedZone("gpu-thermal"),
            SimulatedZone("npu-thermal"),
        ),
        policies=(
            Policy(range(4), 1_800_000),
            Policy(range(4, 6), 2_400_000),
            Policy(range(6, 8), 2_400_000),
        ),
        controller=lambda _: StepWise(),
        cooling=("cpufreq-cpu0", "cpufreq-cpu4", "cpufreq-cpu6"),
        body=BARE_BOARD,
        busy_w=9.5,
    ),
    SimulatedBoard(
        name="imx8mp-evk",
        compatible=("fsl,imx8mp-evk", "fsl,imx8mp"),
        zones=(SimulatedZone("cpu-thermal", 85.0), SimulatedZone("soc-thermal", 85.0)),
        policies=(Policy(range(4), 1_800_000),),
        controller=lambda _: IdleInjection(),
        cooling=tuple(f"thermal-idle-{cpu}" for cpu in range(4)),
        body=BARE_BOARD,
        busy_w=9.5,
    ),
    SimulatedBoard(
        name="jetson-orin-nano",
        compatible=("nvidia,p3768-0000+p3767-0005", "nvidia,p3767-0005", "nvidia,tegra234"),
        zones=(
            SimulatedZone("cpu-thermal", 99.0),
            SimulatedZone("gpu-thermal", 99.0),
            SimulatedZone("tj-thermal"),
        ),
        policies=(
            Policy(range(4), 1_728_000, mode_khz=1_497_600),
            Policy(range(4, 6), 1_728_000, mode_khz=1_497_600),
        ),
        controller=lambda seed: OverCurrent(seed),
        cooling=("cpufreq-cpu0", "cpufreq-cpu4"),
        has_soctherm=True,
        body=COOLED_BOARD,
        idle_w=3.0,
        busy_w=4.0,
        time_scale=2.0,
    ),
    SimulatedBoard(
        name="intel-n100-laptop",
        zones=(SimulatedZone("x86_pkg_temp"),),
        policies=tuple(Policy(range(cpu, cpu + 1), 3_400_000) for cpu in range(4)),
        controller=lambda _: PowerLimit(),
        extra=N100_FILES,
        body=COOLED_BOARD,
        busy_w=4.0,
        time_scale=2.0,
    ),
)
BOARDS: dict[str, SimulatedBoard] = {board.name: board for board in _ALL}


def find_board(text: str) -> tuple[SimulatedBoard, int]:
    """Parse `NAME` or `NAME:SEED` into the board and the seed.

    Raises:
        UsageError: the board is unknown, or the seed is not a number.
    """
    name, _, seed = text.partition(":")
    if name not in BOARDS:
        raise UsageError(f"unknown simulated board {name[:64]!r}; available: {', '.join(BOARDS)}")
    if not re.fullmatch(r"[0-9]{0,18}", seed):
        raise UsageError(f"seed of a simulated board must be a number, got {seed[:32]!r}")
    return BOARDS[name], int(seed or 0)
