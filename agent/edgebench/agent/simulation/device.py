"""A simulated device beside a real model: the model's CPU time heats it, and it slows the model.

The device is a tree of files that the real sampler, the real profile matcher and the real gate read
instead of /proc and /sys, and one number in a shared file: how fast the device computes. The worker
lets that much more time pass in each inference. Everything is written by a task of the daemon, ten
times a second.
"""

from __future__ import annotations

import asyncio
import os
import random
import struct
import time
from contextlib import suppress
from pathlib import Path

from edgebench.agent.simulation.boards import ZONES, SimulatedBoard
from edgebench.agent.simulation.controllers import STICKY_SHIFT, Effect
from edgebench.agent.simulation.heat import at_rest
from edgebench.agent.telemetry.source import read_text

TICK_S = 0.1
SPEED_FILE = "sim/speed"
_SPEED = struct.Struct("=d")
_SHARED = ("proc/stat", "proc/meminfo", "proc/pressure")
"""Of this machine: what a simulated device has no own idea of."""
_POLICY = "sys/devices/system/cpu/cpufreq/policy0"
_COOLING = "sys/class/thermal/cooling_device0/cur_state"
NOISE_C = 0.3
STEP_MILLI_C = 500
"""Resolution of the sensor."""


class SimulatedDevice:
    """One device; `root` stands for / wherever the agent looks."""

    def __init__(self, board: SimulatedBoard, seed: int, root: Path) -> None:
        self.board = board
        self.root = root
        self._controller = board.controller(seed)
        self._chance = random.Random(seed)
        ambient_c = board.ambient_c + self._chance.gauss(0, 1)
        self._heat = at_rest(board.body, ambient_c, board.idle_w)
        self._sticky = 0
        self._time_s = 0.0
        self._worker = _Worker(None)
        self._make_tree()
        self._show(Effect())

    @property
    def speed_path(self) -> Path:
        """Where the worker reads how fast the device is."""
        return self.root / SPEED_FILE

    def attach(self, worker_pid: int) -> None:
        """From now on, this process heats the device; its files are part of the tree."""
        self._worker = _Worker(worker_pid)
        link = self.root / "proc" / str(worker_pid)
        with suppress(FileExistsError):
            link.symlink_to(f"/proc/{worker_pid}")

    async def live(self) -> None:
        """Let time pass, for ever."""
        last_s = time.monotonic()
        while True:
            await asyncio.sleep(TICK_S)
            now_s = time.monotonic()
            self.advance(now_s - last_s)
            last_s = now_s

    def advance(self, real_s: float) -> None:
        """Let so many real seconds pass."""
        passed_s = real_s * self.board.time_scale
        self._time_s += passed_s
        effect = self._controller.act(self._time_s, self._heat.junction_c)
        busy = self._worker.busy_ratio(real_s)
        power_w = self.board.idle_w + self.board.busy_w * busy * effect.speed**2.5
        resistance = self.board.body.case_k_per_w / (1 + 2 * effect.fan)
        self._heat.advance(passed_s, power_w, case_k_per_w=resistance)
        self._show(effect)

    def _make_tree(self) -> None:
        for name, content in self.board.files().items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        if self.board.has_vcgencmd:
            (self.root / "usr/bin/vcgencmd").chmod(0o755)
        for name in _SHARED:
            (self.root / name).symlink_to(f"/{name}")
        self.speed_path.parent.mkdir(exist_ok=True)
        self.speed_path.write_bytes(_SPEED.pack(1.0))

    def _show(self, effect: Effect) -> None:
        """Write what the device shows now, each file in place: readers keep them open."""
        self._sticky |= effect.bits
        shown_c = self._heat.junction_c + self._chance.gauss(0, NOISE_C)
        milli_c = round(shown_c * 1000 / STEP_MILLI_C) * STEP_MILLI_C
        for number in range(len(self.board.zones)):
            self._write(f"{ZONES}{number}/temp", str(milli_c))
        self._write(f"{_POLICY}/scaling_cur_freq", str(self._khz(effect.told_clock)))
        self._write(f"{_POLICY}/scaling_max_freq", str(self._khz(effect.cap)))
        if self.board.cooling:
            self._write(_COOLING, str(effect.cooling_state))
        if self.board.has_vcgencmd:
            bits = effect.bits | self._sticky << STICKY_SHIFT
            self._write("sim/throttled", hex(bits))
            self._write("sim/arm_hz", str(1000 * self._khz(effect.clock)))
        with self.speed_path.open("r+b") as file:
            file.write(_SPEED.pack(effect.speed))

    def _khz(self, share: float) -> int:
        return round(self.board.freq_khz * share)

    def _write(self, name: str, text: str) -> None:
        # Padded to one length, so that a reader never sees half of an old number behind a new one.
        with (self.root / name).open("r+b") as file:
            file.write(text.rjust(12).encode() + b"\n")
            file.truncate()


class _Worker:
    """How busy the process is that runs the model."""

    def __init__(self, pid: int | None) -> None:
        self._path = Path(f"/proc/{pid}/stat") if pid else None
        self._last_s = self._cpu_s()

    def busy_ratio(self, passed_s: float) -> float:
        """Since the last time, 0…1."""
        now_s, last_s = self._cpu_s(), self._last_s
        self._last_s = now_s
        return min(1.0, max(0.0, (now_s - last_s) / passed_s)) if passed_s > 0 else 0.0

    def _cpu_s(self) -> float:
        fields = read_text(self._path).rpartition(")")[2].split() if self._path else []
        if len(fields) < 13:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
