"""Computed power that follows the CPU time of this machine's workers, as measured power does.

    power = low + (high - low) · CPUs that workers keep busy

So a first run without a meter shows the shape of a metered run: idle time, load code and loop. The
CPU time from the kernel is exact, but the power is not measured: `low` and `high` are invented.

Workers are found in /proc, by the module that they run. On systems other than Linux, and if the
device is another machine, no workers are found, and the power is always `low`.

Source: linux/kernel/time/posix-cpu-timers.c, clock_getcpuclockid(3): the clock id of a process is
the complement of its pid, shifted left by 3 bits, plus 2 for the CPU time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from edgebench.meters.base import Floats
from edgebench.meters.polled import Clock
from edgebench.meters.synthetic.decoder import SAMPLE
from edgebench.meters.synthetic.waveform import SyntheticSettings

WORKER = b"edgebench.agent.worker.main"
"""Module that a worker runs, as in its command line."""
_SCAN_S = 0.1
_CHECKS = 10
"""Number of times that a new process is checked. One check is not enough, because the command line
of a new process changes at exec."""
_PROC = Path("/proc")
READ_SAMPLES = 1 << 14
"""Maximum number of samples per read, so that a host's sleep does not produce a huge packet."""
CpuTime = Callable[[], int]
"""Function that returns the CPU time of the workers since its first call, in nanoseconds; the time
never decreases."""


class WorkerTime:
    """CPU time of all workers on this machine."""

    def __init__(self, proc: Path = _PROC, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._proc = proc
        self._clock_s = clock_s
        self._next_scan_s = 0.0
        self._checks: dict[int, int] = {}
        self._last_ns: dict[int, int] = {}
        """CPU time of each worker at the last check."""
        self._sum_ns = 0

    def __call__(self) -> int:
        """CPU time in nanoseconds since the first call."""
        if self._clock_s() >= self._next_scan_s:
            self._scan()
            self._next_scan_s = self._clock_s() + _SCAN_S
        for pid in list(self._last_ns):
            now_ns = _cpu_ns(pid)
            if now_ns is None:
                del self._last_ns[pid]
            else:
                self._sum_ns += max(0, now_ns - self._last_ns[pid])
                self._last_ns[pid] = now_ns
        return self._sum_ns

    def _scan(self) -> None:
        """Find new workers among the processes."""
        try:
            pids = {int(name) for name in os.listdir(self._proc) if name.isdecimal()}
        except OSError:  # not Linux
            return
        self._checks = {pid: count for pid, count in self._checks.items() if pid in pids}
        for pid in pids:
            if self._checks.get(pid, 0) < _CHECKS and pid not in self._last_ns:
                self._checks[pid] = self._checks.get(pid, 0) + 1
                if self._is_worker(pid) and (now_ns := _cpu_ns(pid)) is not None:
                    self._last_ns[pid] = now_ns

    def _is_worker(self, pid: int) -> bool:
        try:
            return WORKER in (self._proc / str(pid) / "cmdline").read_bytes().split(b"\0")
        except OSError:
            return False


class Follower:
    """Source of the samples that are due; their power follows the CPU time of the workers."""

    def __init__(
        self, settings: SyntheticSettings, clock_ns: Clock, cpu_time: CpuTime | None = None
    ) -> None:
        self._settings = settings
        self._clock_ns = clock_ns
        self._cpu_time = cpu_time or WorkerTime()
        self._noise = np.random.default_rng(settings.seed)
        self._began_ns = self._sent = 0
        self._looked: tuple[float, float] = (0, 0)
        """Time and CPU time of the last read, or of the last sample if more samples are due."""
        self._edge_ns = 0.0
        """CPU time at the end of the last sample."""

    def start(self) -> None:
        """Start at sample 0."""
        self._edge_ns = cpu_ns = self._cpu_time()
        self._began_ns = self._clock_ns()
        self._looked = self._began_ns, cpu_ns

    def read(self, timeout_s: float) -> bytes:
        """Return the samples since the last read; wait for the next sample if none are due."""
        if self._due(self._clock_ns()) == 0:
            next_ns = self._began_ns + (self._sent + 1) * 1e9 / self._rate_hz
            time.sleep(min(timeout_s, max(0.0, (next_ns - self._clock_ns()) / 1e9)))
        return self._samples().astype(SAMPLE).tobytes()

    def stop(self) -> None:
        """Nothing to release."""

    @property
    def _rate_hz(self) -> float:
        return self._settings.rate_hz * (1 + self._settings.rate_error_ppm * 1e-6)

    def _due(self, now_ns: int) -> int:
        passed_s = (now_ns - self._began_ns) / 1e9
        return min(max(0, int(passed_s * self._rate_hz) - self._sent), READ_SAMPLES)

    def _samples(self) -> Floats:
        """Compute the next samples, in W; CPU time is spread evenly over the time between reads."""
        cpu_ns, now_ns = self._cpu_time(), self._clock_ns()
        count = self._due(now_ns)
        if count == 0:
            return np.zeros(0)
        ends = self._sent + 1 + np.arange(count)
        ends_ns = self._began_ns + ends * 1e9 / self._rate_hz
        before_ns, cpu_before_ns = self._looked
        edges_ns = np.interp(ends_ns, [before_ns, now_ns], [cpu_before_ns, cpu_ns])
        busy = np.diff(edges_ns, prepend=self._edge_ns) / 1e9 * self._settings.rate_hz
        self._sent, self._edge_ns = self._sent + count, float(edges_ns[-1])
        is_behind = count == READ_SAMPLES
        self._looked = (float(ends_ns[-1]), self._edge_ns) if is_behind else (now_ns, cpu_ns)
        waveform = self._settings.waveform
        power_w: Floats = waveform.low_w + (waveform.high_w - waveform.low_w) * busy
        if self._settings.noise_w:
            power_w += self._noise.normal(0.0, self._settings.noise_w, count)
        return power_w


def _cpu_ns(pid: int) -> int | None:
    """CPU time of a process in nanoseconds; None if it has ended."""
    try:
        return time.clock_gettime_ns((~pid << 3) | 2)
    except OSError:
        return None
