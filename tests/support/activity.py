"""The real activity of a device as the current of a made-up meter.

Work of the model's process takes more current; a pulse on the device's serial line is a falling
edge of an input.

A separate process watches, so that nothing here delays it: two thousand times a second it reads
the processor time of the worker, and it records when bytes arrive. Both have times of the
monotonic clock, which is the device's own. The kernel accounts a working process at its ticks,
four milliseconds apart, and when it goes to sleep: work that is seen was done just before.
"""

from __future__ import annotations

import os
import pty
import struct
import subprocess
import sys
import time
import tty
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from support.ppk2 import Ppk2Emulator
from support.threaded import Threaded

Floats = NDArray[np.float64]
LOW_S = 9 / 9600
"""Of a byte of zeros at 9600 baud."""
SUPPLY_V = 3.3
_RECORD = struct.Struct("<qq")
_PULSE = -1
_LATE_LOOK_NS = 2_000_000
_RECENT = 20_000
"""Times of work in the last seconds, of which the current is still to be told."""
_KNOWN_AFTER_NS = 12_000_000
"""A tick, and what the watcher and its pipe may take."""

_WATCHER = r"""
import os, select, struct, sys, time
line, marker = int(sys.argv[1]), sys.argv[2].encode()
out, record = sys.stdout.buffer, struct.Struct("<qq")

def worker():
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                command = open(f"/proc/{name}/cmdline", "rb").read()
            except OSError:
                continue
            if b"edgebench.agent.worker.main" in command and marker in command:
                return int(name)
    return None

pid, look_ns, spent, lost = None, 0, 0, 0
while True:
    if select.select([line], [], [], 0.0005)[0]:
        now = time.perf_counter_ns()
        try:
            count = len(os.read(line, 64))
        except OSError:
            break
        out.write(record.pack(now, -1) * count)
    now = time.perf_counter_ns()
    if pid is None and now - look_ns > 20_000_000:
        pid, look_ns = worker(), now
        if pid is not None:
            spent = None
    used = 0
    if pid is not None:
        try:
            # Its processor time, as clock_getcpuclockid(3) would name the clock.
            total = time.clock_gettime_ns(((~pid) << 3) | 2)
            now = time.perf_counter_ns()
            used, spent = (0 if spent is None else total - spent), total
        except OSError:
            pid = None
    out.write(record.pack(now, used))
    out.flush()
"""


@dataclass(slots=True)
class Activity(Threaded):
    """Watches the worker of one agent; a current follows from what it does."""

    agent_state: Path
    rest_a: float = 3e-3
    work_a: float = 17e-3
    """More, while the worker keeps a processor busy."""
    noise_a: float = 0.0
    seed: int = 0
    line_path: str = ""
    """Of the serial port to the meter's first input."""
    _looked_ns: int = 0
    _begins: list[int] = field(default_factory=list[int])
    """Of times of work …"""
    _ends: list[int] = field(default_factory=list[int])
    """… and their ends; this one is written last."""
    _pulses: list[int] = field(default_factory=list[int])
    _emitted: list[tuple[Floats, Floats]] = field(default_factory=list[tuple[Floats, Floats]])
    _descriptors: list[int] = field(default_factory=list[int])
    _process: subprocess.Popen[bytes] | None = None

    def _open(self) -> None:
        master, slave = pty.openpty()
        tty.setraw(slave)
        self._descriptors = [master, slave]
        self.line_path = os.ttyname(slave)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _WATCHER, str(master), str(self.agent_state)],
            stdout=subprocess.PIPE,
            pass_fds=[master],
        )

    def _stop(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _close(self) -> None:
        for descriptor in self._descriptors:
            os.close(descriptor)

    def waveform(self, emulator: Ppk2Emulator, time_s: Floats) -> tuple[Floats, NDArray[np.uint8]]:
        """Current and inputs at these seconds of the unit's own clock, once they are known."""
        assert emulator.started_s is not None
        self._wait_until(emulator, float(time_s[-1]))
        true_s = emulator.started_s + time_s / (1 + emulator.faults.rate_error_ppm * 1e-6)
        current_a = self._current_a(true_s * 1e9)
        self._emitted.append((true_s, current_a))
        return current_a, self._digital(true_s)

    def begin(self, *, rest_a: float, work_a: float, noise_a: float, seed: int) -> None:
        """Discard what was emitted, and use other currents from now on."""
        self.rest_a, self.work_a, self.noise_a, self.seed = rest_a, work_a, noise_a, seed
        self._emitted.clear()

    def energy_j(self, begin_ns: int, end_ns: int) -> float:
        """The energy really taken between two times of the device's clock."""
        true_ns = np.concatenate([times for times, _ in self._emitted]) * 1e9
        current_a = np.concatenate([currents for _, currents in self._emitted])
        charge = np.concatenate([[0.0], np.cumsum(np.diff(true_ns) / 1e9 * current_a[1:])])
        begin, end = np.interp([begin_ns, end_ns], true_ns, charge)
        return float(end - begin) * SUPPLY_V

    def _current_a(self, true_ns: Floats) -> Floats:
        count = len(self._ends)
        recent = slice(max(0, count - _RECENT), count)
        begins = np.array([0, *self._begins[recent]])
        ends = np.array([0, *self._ends[recent]])
        is_busy = true_ns < ends[np.searchsorted(begins, true_ns, side="right") - 1]
        chance = np.random.default_rng([self.seed, int(true_ns[0])])
        noise_a = self.noise_a * chance.standard_normal(len(true_ns))
        found: Floats = np.maximum(self.rest_a + self.work_a * is_busy + noise_a, 1e-6)
        return found

    def _digital(self, true_s: Floats) -> NDArray[np.uint8]:
        """High, except during a byte."""
        level = np.ones(len(true_s), np.uint8)
        for pulse_ns in list(self._pulses):
            level[(true_s >= pulse_ns / 1e9) & (true_s < pulse_ns / 1e9 + LOW_S)] = 0
        return level

    def _wait_until(self, emulator: Ppk2Emulator, time_s: float) -> None:
        assert emulator.started_s is not None
        needed_ns = (emulator.started_s + time_s) * 1e9 + _KNOWN_AFTER_NS
        deadline_s = time.monotonic() + 5.0
        while self._looked_ns < needed_ns and time.monotonic() < deadline_s:
            time.sleep(0.001)

    def _run(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            while record := stream.read(_RECORD.size):
                time_ns, value = _RECORD.unpack(record)
                if value == _PULSE:
                    self._pulses.append(time_ns)
                    continue
                if value > 0:
                    last_ns = self._ends[-1] if self._ends else 0
                    begin_ns = time_ns - value
                    # A reading comes a little after its tick: that is no rest.
                    is_same = begin_ns - last_ns < _LATE_LOOK_NS
                    self._begins.append(last_ns if is_same else begin_ns)
                    self._ends.append(time_ns)
                self._looked_ns = time_ns
