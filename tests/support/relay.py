"""A relay in front of an agent's port, whose connections are cut or fall silent when told to."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

from support.threaded import Threaded

TICK_S = 0.01
RESET = struct.pack("ii", 1, 0)
"""Option SO_LINGER with a time of 0: closing sends RST. Source: socket(7)."""


@dataclass(slots=True)
class TcpRelay(Threaded):
    """Passes bytes on, both ways, between whoever connects and a port of this machine."""

    target_port: int
    port: int = 0
    """Port that it listens on."""
    cut_after_bytes: int | None = None
    """Bytes from the target after which every connection is reset, once."""
    from_target_bytes: int = 0
    """Bytes that the target has sent, and somebody has got."""
    _listener: socket.socket = field(init=False)
    _others: dict[socket.socket, socket.socket] = field(
        default_factory=dict[socket.socket, socket.socket]
    )
    """Other end of each connection."""
    _targets: set[socket.socket] = field(default_factory=set[socket.socket])
    """Ends at the target."""
    _is_cut: threading.Event = field(default_factory=threading.Event)
    _silent_until_s: float = 0.0

    def cut(self) -> None:
        """Reset every connection; returns when that is done."""
        self._is_cut.set()
        while self._is_cut.is_set() and not self._over.is_set():
            time.sleep(TICK_S / 10)

    def fall_silent(self, seconds: float) -> None:
        """Hold all bytes back for so long, as a link that goes down and comes back."""
        self._silent_until_s = time.monotonic() + seconds

    def speak(self) -> None:
        """End a silence; what was held back goes on its way."""
        self._silent_until_s = 0.0

    def _open(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]

    def _close(self) -> None:
        self._reset_all()
        self._listener.close()

    def _run(self) -> None:
        while not self._over.is_set():
            limit = self.cut_after_bytes
            if limit is not None and self.from_target_bytes >= limit:
                self.cut_after_bytes = None
                self._is_cut.set()
            if self._is_cut.is_set():
                self._reset_all()
                self._is_cut.clear()
            if time.monotonic() < self._silent_until_s:
                time.sleep(TICK_S)
                continue
            for ready in select.select([self._listener, *self._others], [], [], TICK_S)[0]:
                if ready is self._listener:
                    self._accept()
                elif ready in self._others:  # else its other end was closed just now
                    self._pass_on(ready)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(("127.0.0.1", self.target_port))
        except OSError:  # the agent is down
            _close(near, is_reset=True)
            return
        for one, other in ((near, far), (far, near)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._others[one] = other
        self._targets.add(far)

    def _pass_on(self, source: socket.socket) -> None:
        try:
            data = source.recv(65536)
            self._others[source].sendall(data)
            is_reset = False
            if source in self._targets:
                self.from_target_bytes += len(data)
        except OSError:
            data, is_reset = b"", True
        if not data:
            other = self._others.pop(source)
            del self._others[other]
            self._targets -= {source, other}
            for one in (source, other):
                _close(one, is_reset=is_reset)

    def _reset_all(self) -> None:
        for one in self._others:
            _close(one, is_reset=True)
        self._others.clear()
        self._targets.clear()


def _close(one: socket.socket, *, is_reset: bool) -> None:
    if is_reset:
        with suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    one.close()
