"""An agent of simulated boards with planted disturbances, for benchmarks/disturbances.py.

    python benchmarks/planted_agent.py --state DIR --config DIR serve --simulate planted-heat …

The arguments are those of `edgebench-agent`. Each board has a disturbance. The disturbances of the
first two boards end when a file `mended` is created in the state directory:

    planted-heat        a Raspberry Pi 5 without a cooler; mended: the same board, well cooled
    planted-supply      a Raspberry Pi 4 with a weak supply
    planted-governor    a Raspberry Pi 4 whose clock follows its governor, which is `powersave`
    planted-cores       two CPUs of two types, between which the model moves unless it is bound
    planted-cold        a board that takes seconds of work to reach its full speed
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from edgebench.agent.entry import run
from edgebench.simulation.board import Policy, SimulatedBoard
from edgebench.simulation.boards import BOARDS
from edgebench.simulation.controllers import Controller, Effect, Progressive, UnderVoltage

MENDED_FILE = "mended"
GOVERNOR = "sys/devices/system/cpu/cpufreq/policy0/scaling_governor"
SLOW_CLOCK = 0.25
"""Clock of `powersave` relative to the nominal clock, as in cpuinfo_min_freq of the boards."""
SLOW_CORE = 0.55
"""Speed of the slower type of core relative to the faster type."""
STAY_S = 3.0
"""Time after which the model is moved from one type of core to the other type."""
COLD_SPEED, WARMING_S = 0.75, 3.0
"""Speed of a cold board relative to its full speed, and the time constant with which it reaches its
full speed."""
COOLING_S = 0.5
"""Idle time after which a board is cold again."""


@dataclass(slots=True)
class Mendable:
    """A controller that has no effect once its disturbance is mended."""

    controller: Controller
    mended: Path

    def act(self, time_s: float, junction_c: float, busy: float = 1.0) -> Effect:
        """Effect of the controller; if `mended` exists, no throttling and a fan at full speed."""
        effect = self.controller.act(time_s, junction_c, busy)
        return Effect(fan=1.0) if self.mended.exists() else effect


@dataclass(slots=True)
class ObeysGovernor:
    """The clock follows the governor, as it does on a real board."""

    path: Path

    def act(self, time_s: float, junction_c: float, busy: float = 1.0) -> Effect:
        """The lowest clock with the governor `powersave`, else the nominal clock."""
        is_slow = self.path.read_text().strip() == "powersave"
        clock = SLOW_CLOCK if is_slow else 1.0
        return Effect(clock=clock, told_clock=clock)


@dataclass(slots=True)
class TwoTypesOfCores:
    """Moves the model between CPU 0, a slow core, and CPU 1, a fast core, unless it is bound."""

    processes: Path
    next_s: float = 0.0
    to_fast: bool = False
    movable: dict[int, bool] = field(default_factory=dict[int, bool])

    def act(self, time_s: float, junction_c: float, busy: float = 1.0) -> Effect:
        """Move the model if it is due; returns the speed of the core on which the model runs."""
        pids = [int(path.name) for path in self.processes.glob("[0-9]*") if path.exists()]
        if not pids:
            return Effect()
        pid = max(pids)
        if pid not in self.movable and busy > 0:
            self.movable[pid] = len(os.sched_getaffinity(pid)) > 1
        if self.movable.get(pid) and time_s >= self.next_s:
            self.next_s, self.to_fast = time_s + STAY_S, not self.to_fast
            usable = os.sched_getaffinity(pid)
            os.sched_setaffinity(pid, {1 if self.to_fast else 0})
            os.sched_setaffinity(pid, usable)  # it stays where it is, and is not bound
        stat = (self.processes / str(pid) / "stat").read_text()
        cpu = int(stat.rpartition(")")[2].split()[36])  # proc(5): field 39, processor
        return Effect(clock=1.0 if cpu else SLOW_CORE)


@dataclass(slots=True)
class SlowWhenCold:
    """A board that reaches full speed by work, and loses it when idle; no sensor shows this."""

    speed: float = COLD_SPEED
    idle_s: float = 0.0
    last_s: float = 0.0

    def act(self, time_s: float, junction_c: float, busy: float = 1.0) -> Effect:
        """The present speed of the cold board relative to its full speed."""
        passed_s, self.last_s = time_s - self.last_s, time_s
        self.idle_s = 0.0 if busy > 0.1 else self.idle_s + passed_s
        if self.idle_s > COOLING_S:
            self.speed = COLD_SPEED
        else:
            self.speed = 1 - (1 - self.speed) * math.exp(-passed_s * busy / WARMING_S)
        return Effect(idle=1 - self.speed)


def planted_boards(state: Path) -> Mapping[str, SimulatedBoard]:
    """Maps the names of boards to the boards, for an agent with this state directory."""
    mended, root = state / MENDED_FILE, state / "simulated"

    def mendable(make: Callable[[int], Controller]) -> Callable[[int], Controller]:
        return lambda seed: Mendable(make(seed), mended)

    bare, weak = BOARDS["raspberry-pi-5-bare"], BOARDS["raspberry-pi-4-undervoltage"]
    rock, steady = BOARDS["rock-5b"], BOARDS["imx8mp-evk"]
    boards = (
        replace(bare, name="planted-heat", controller=mendable(lambda _: Progressive())),
        replace(weak, name="planted-supply", controller=mendable(UnderVoltage)),
        replace(weak, name="planted-governor", controller=lambda _: ObeysGovernor(root / GOVERNOR)),
        replace(
            rock,
            name="planted-cores",
            policies=(Policy(range(1), 1_800_000), Policy(range(1, 2), 2_400_000)),
            cooling=(),
            busy_w=2.0,
            controller=lambda _: TwoTypesOfCores(root / "proc"),
            time_scale=1.0,
        ),
        replace(
            steady,
            name="planted-cold",
            busy_w=2.0,
            controller=lambda _: SlowWhenCold(),
            time_scale=1,
        ),
    )
    return {board.name: board for board in boards}


if __name__ == "__main__":
    BOARDS.update(planted_boards(Path(sys.argv[sys.argv.index("--state") + 1])))
    raise SystemExit(run())
