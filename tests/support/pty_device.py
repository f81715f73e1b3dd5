"""What made-up instruments on a serial port have in common: the port, and time passing."""

from __future__ import annotations

import os
import select
import time
import tty
from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass

from support.threaded import Threaded

_TICK_S = 0.005
_LAST_S = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class PortFaults:
    """What goes wrong between any instrument and the host."""

    rate_error_ppm: float = 0.0
    delay_s: float = 0.0
    """Every sample comes so much later than it was taken."""
    stall_at_s: float | None = None
    stall_s: float = 0.2
    """Nothing comes for so long, and then all of it at once."""
    gone_after_s: float | None = None
    stale: bytes = b""
    """Before the first answer."""


@dataclass(slots=True, kw_only=True)
class PtyDevice(Threaded):
    """One unit on a pseudo-terminal."""

    path: str = ""
    """Of the port, while it is there."""
    emitted: int = 0
    """Samples since the last start, the lost ones too."""
    started_s: float | None = None
    """By the host's monotonic clock."""
    is_streaming: bool = False
    _master: int = -1
    _slave_fd: int = -1

    def _open(self) -> None:
        self._master, self._slave_fd = os.openpty()
        tty.setraw(self._slave_fd)
        os.set_blocking(self._master, False)
        self.path = os.ttyname(self._slave_fd)

    def _close(self) -> None:
        self.unplug()

    def unplug(self) -> None:
        """The cable is pulled out."""
        for name in ("_master", "_slave_fd"):
            descriptor = getattr(self, name)
            if descriptor >= 0:
                os.close(descriptor)
                setattr(self, name, -1)

    @property
    @abstractmethod
    def port_faults(self) -> PortFaults:
        """What goes wrong on the way."""

    @abstractmethod
    def hear(self, data: bytes) -> None:
        """What the host sent."""

    @abstractmethod
    def stream(self) -> None:
        """Send what is due; called again and again while it streams."""

    def start(self) -> None:
        """Stream from now on, from sample 0."""
        self.is_streaming, self.emitted = True, 0
        self.started_s = time.monotonic()

    def due(self, rate_hz: float) -> int:
        """How many samples there are by now; as many as before while it stalls."""
        assert self.started_s is not None, "it streams"
        passed_s = time.monotonic() - self.started_s
        stall = self.port_faults.stall_at_s
        if stall is not None and stall <= passed_s < stall + self.port_faults.stall_s:
            return self.emitted
        taken_s = max(0.0, passed_s - self.port_faults.delay_s)
        return int(taken_s * rate_hz * (1 + self.port_faults.rate_error_ppm * 1e-6))

    def send(self, data: bytes, step: int = 65536) -> None:
        """To the host, so many bytes in a write."""
        while data and not self._over.is_set():
            try:
                data = data[os.write(self._master, data[:step]) :]
            except BlockingIOError:  # the host does not read; a real unit would lose samples
                time.sleep(0.001)

    def _run(self) -> None:
        while not self._over.wait(_TICK_S):
            try:
                self._listen()
                if self.is_streaming:
                    self.stream()
            except OSError:
                return
            if self._is_gone():
                self.unplug()
                return
        with suppress(OSError):  # what was said last: the kernel passes it on a moment later
            while select.select([self._master], [], [], _LAST_S)[0]:
                self._listen()

    def _listen(self) -> None:
        with suppress(BlockingIOError):
            self.hear(os.read(self._master, 4096))

    def _is_gone(self) -> bool:
        after_s = self.port_faults.gone_after_s
        return (
            after_s is not None
            and self.started_s is not None
            and time.monotonic() - self.started_s > after_s
        )
