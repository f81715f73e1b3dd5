"""Processes that are started again when they end, as systemd does with `Restart=always`."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

RESTART_S = 0.5
"""Pause before a restart; systemd's default is 0.1 s."""


class Supervised:
    """A process, and the next one after it has ended, until it is stopped or has done its work."""

    def __init__(
        self,
        words: Callable[[], Sequence[str]],
        environment: Mapping[str, str],
        errors: Path,
        is_done: Callable[[int], bool] = lambda _: False,
    ) -> None:
        """Describe the process.

        Args:
            words: Gives the command line of the next start.
            environment: Variables beside those of this process.
            errors: File that gets all that it says.
            is_done: Whether the process has done its work, by its exit code; then it stays ended.
        """
        self._words = words
        self._environment = environment
        self._is_done = is_done
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._supervise, daemon=True)
        self.errors = errors
        self.codes: list[int] = []
        """Exit codes so far."""

    def start(self) -> Supervised:
        """Start it for the first time."""
        self.errors.parent.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        return self

    @property
    def pid(self) -> int | None:
        """Its process id; None while there is none."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    @property
    def is_over(self) -> bool:
        """Whether it has done its work, or was stopped."""
        return not self._thread.is_alive()

    def kill(self) -> bool:
        """SIGKILL it, and only it; whether it was there."""
        if (pid := self.pid) is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return True

    def stop(self, number: signal.Signals = signal.SIGTERM, timeout_s: float = 60.0) -> None:
        """End it for good; one that does not end in time is killed."""
        with self._lock:
            self._stopping.set()
            process = self._process
        if process is not None:
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout_s)
            process.kill()
        if self._thread.ident is not None:
            self._thread.join()

    def _supervise(self) -> None:
        while True:
            with self._lock, self.errors.open("ab") as errors:
                if self._stopping.is_set():
                    return
                self._process = subprocess.Popen(
                    list(self._words()),
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    env=os.environ | dict(self._environment),
                    start_new_session=True,
                )
            code = self._process.wait()
            self.codes.append(code)
            if self._is_done(code) or self._stopping.wait(RESTART_S):
                return
