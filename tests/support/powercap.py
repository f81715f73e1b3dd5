"""A made-up RAPL counter under a made-up /sys."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.threaded import outrank

RANGE_UJ = 262143328850
"""max_energy_range_uj of many Intel processors."""
_TICK_S = 0.002


class Counter:
    """A zone whose counter the test sets.

    The counter is in memory: on a disk, a writer waits while other tests sync their files. While it
    burns, `late_s` is the longest time that it stood still: a busy machine does not let the test
    count, and a reading is as wrong as the counter is old.
    """

    def __init__(self, root: Path, index: int = 0, name: str = "package-0") -> None:
        self._folder = root / f"sys/class/powercap/intel-rapl:{index}"
        self._folder.mkdir(parents=True)
        (self._folder / "name").write_text(f"{name}\n")
        (self._folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
        self._counter = os.memfd_create("energy_uj")  # until this process ends
        (self._folder / "energy_uj").symlink_to(f"/proc/{os.getpid()}/fd/{self._counter}")
        self.late_s = 0.0
        self.show(0)

    def show(self, energy_uj: object) -> None:
        """Set the counter, in place: the driver keeps the file open, and must not find it empty."""
        text = f"{energy_uj}\n".encode()
        os.pwrite(self._counter, text, 0)
        os.ftruncate(self._counter, len(text))

    @contextmanager
    def burning(self, power_w: float) -> Iterator[None]:
        """Count up as a processor that takes this power all the time."""
        over = threading.Event()
        begin_s = shown_s = time.monotonic()
        self.late_s = 0.0

        def burn() -> None:
            nonlocal shown_s
            outrank()
            while not over.wait(_TICK_S):
                now_s = time.monotonic()
                self.show(int(power_w * 1e6 * (now_s - begin_s)))
                self.late_s, shown_s = max(self.late_s, now_s - shown_s), now_s

        thread = threading.Thread(target=burn, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
