"""A simulated device for a real model: the model's work heats the device, which slows the model.

The device is represented by a tree of files, and by a file that it shares with the worker. The
agent's sampler, profile matcher and cool-down read the tree instead of /proc and /sys. The shared
file has two numbers: the speed of the device, and the time for which the worker has kept the device
busy. The worker extends each inference according to the speed. A task of the daemon updates all
files ten times per second.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from pathlib import Path

from edgebench.simulation.board import SimulatedBoard
from edgebench.simulation.controllers import POWER_EXPONENT, Effect
from edgebench.simulation.files import VCGENCMD, changing_files, fixed_files, links
from edgebench.simulation.heat import at_rest
from edgebench.simulation.slowed import SHARED

TICK_S = 0.1
CONTROL_S = 0.25
"""Interval of the controller in simulated time; delays of the daemon's task do not change it."""
SPEED_FILE = "sim/speed"
_SPEED_BYTES = SHARED.size // 2
_HOST_FILES = ("proc/stat", "proc/meminfo", "proc/loadavg", "proc/pressure", "proc/vmstat")
"""Files of this machine that a simulated device shows unchanged."""
_OWN_THREADS = Path("proc/self/task")
"""Link to the threads of the process that reads it. Without the link, the waiting time of all tasks
on this machine would be taken for the waiting time of the model's threads."""
NOISE_C = 0.3
STEP_C = 0.5
"""Resolution of the sensor."""


class SimulatedDevice:
    """A simulated device; implements `edgebench.protocol.simulation.Simulation`."""

    def __init__(self, board: SimulatedBoard, seed: int, root: Path) -> None:
        self.board = board
        self.root = root
        self._controller = board.controller(seed)
        self._chance = random.Random(seed)
        ambient_c = board.ambient_c + self._chance.gauss(0, 1)
        self._heat = at_rest(board.body, ambient_c, board.idle_w)
        self._effect = Effect()
        self._sticky_bits = 0
        self._time_s = 0.0
        self._make_tree()
        self._load = _Load(self.speed_path)
        self._show()

    @property
    def speed_path(self) -> Path:
        """File shared with the worker; see `slowed`."""
        return self.root / SPEED_FILE

    @property
    def time_scale(self) -> float:
        """Simulated seconds per second of real time."""
        return self.board.time_scale

    def attach(self, worker_pid: int) -> None:
        """Link the /proc directory of the worker into the tree."""
        link = self.root / "proc" / str(worker_pid)
        with suppress(FileExistsError):
            link.symlink_to(f"/proc/{worker_pid}")

    async def live(self) -> None:
        """Advance the simulation with real time, until the task is cancelled."""
        last_s = time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            self.advance(now_s - last_s)
            last_s = now_s

    def advance(self, real_s: float) -> None:
        """Advance the simulation by an interval of real time."""
        busy = self._load.share(real_s)
        left_s = real_s * self.board.time_scale
        while left_s > 0:
            step_s = min(left_s, CONTROL_S)
            self._step(step_s, busy)
            left_s -= step_s
        self._show()

    def _step(self, step_s: float, busy: float) -> None:
        board = self.board
        self._time_s += step_s
        effect = self._controller.act(self._time_s, self._heat.junction_c, busy)
        power_w = board.idle_w + board.busy_w * busy * effect.speed**POWER_EXPONENT
        resistance = board.body.case_k_per_w / (1 + 2 * effect.fan)
        self._heat.advance(step_s, power_w, case_k_per_w=resistance)
        self._effect = effect
        self._sticky_bits |= effect.bits

    def _make_tree(self) -> None:
        for name, content in fixed_files(self.board).items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        if self.board.has_videocore:
            (self.root / VCGENCMD).chmod(0o755)
        for name in self._changing():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        (self.root / "proc").mkdir(exist_ok=True)
        for name in _HOST_FILES:
            (self.root / name).symlink_to(f"/{name}")
        (self.root / _OWN_THREADS).parent.mkdir()
        (self.root / _OWN_THREADS).symlink_to(Path("/") / _OWN_THREADS)
        for name, target in links(self.board).items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(target)
        self.speed_path.parent.mkdir(exist_ok=True)
        self.speed_path.write_bytes(SHARED.pack(1.0, 0.0))

    def _changing(self) -> dict[str, str]:
        shown_c = self._heat.junction_c + self._chance.gauss(0, NOISE_C)
        temp_c = round(shown_c / STEP_C) * STEP_C
        return changing_files(
            self.board, self._effect, temp_c=temp_c, sticky_bits=self._sticky_bits
        )

    def _show(self) -> None:
        """Write the changing files in place, because readers keep them open."""
        for name, text in self._changing().items():
            # Padded to a fixed length, so that a reader never sees the rest of an old number after
            # a new number.
            with (self.root / name).open("r+b") as file:
                file.write(text.rjust(12).encode() + b"\n")
        with self.speed_path.open("r+b") as file:
            file.write(SHARED.pack(self._effect.speed, 0.0)[:_SPEED_BYTES])


class _Load:
    """Load of the device, as the worker reports it in the shared file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last_s = 0.0
        self._owed_s = 0.0

    def share(self, passed_s: float) -> float:
        """Load since the last call, 0…1.

        The worker reports an inference when the inference ends. If an inference took longer than
        `passed_s`, the rest of its time counts in the following calls.
        """
        _, worked_s = SHARED.unpack(self._path.read_bytes())
        self._owed_s += worked_s - self._last_s
        self._last_s = worked_s
        if passed_s <= 0:
            return 0.0
        used_s = min(self._owed_s, passed_s)
        self._owed_s -= used_s
        return used_s / passed_s
