"""Byte stream of what a Joulescope publishes, for a session to read.

The vendor's driver calls from a thread of its own; that only packs a block and puts it in line.
A line that nobody reads ends: a lost block shows in the numbers of the next.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from edgebench.meters.joulescope.blocks import control_topic, pack
from edgebench.protocol.errors import TargetError

WAITING_MAX_BYTES = 1 << 28
"""Two minutes of power at 100 kHz with four inputs at 2 MHz."""
REMOVED_TOPIC = "@/!remove"
"""Published with the path of a device that is unplugged."""

OnBlock = Callable[[str, Any], None]
"""Topic and value."""


class JoulescopeDriver(Protocol):
    """The part of `pyjoulescope_driver.Driver` that is used."""

    def device_paths(self) -> list[str]:
        """Paths of connected devices, as u/js220/002557."""
        ...

    def open(self, device_prefix: str, mode: Any = None, timeout: float | None = None) -> None:
        """Take a device; mode "restore" leaves it as it is."""
        ...

    def close(self, device_prefix: str, timeout: float | None = None) -> None:
        """Give it back."""
        ...

    def publish(self, topic: str, value: Any, timeout: float | None = None) -> None:
        """Set something."""
        ...

    def query(self, topic: str, timeout: float | None = None) -> Any:
        """Ask for something."""
        ...

    def subscribe(self, topic: str, flags: Any, fn: OnBlock, timeout: float | None = None) -> None:
        """Call `fn` with whatever is published."""
        ...

    def unsubscribe(self, topic: str, fn: OnBlock, timeout: float | None = None) -> None:
        """No more; `fn` is the very same object."""
        ...

    def finalize(self, timeout: float | None = None) -> None:
        """Let go of USB."""
        ...


class BlockStream:
    """Signals of one device, in the order in which their blocks come."""

    def __init__(self, driver: JoulescopeDriver, path: str, topics: Sequence[str]) -> None:
        self._driver = driver
        self._path = path
        self._topics = topics
        self._line: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_gone = False
        self._begun = ExitStack()
        """Actions that undo the start, in their order."""
        self._changed = threading.Condition()
        # One object each: what is unsubscribed has to be what was subscribed.
        self._on_block: OnBlock = self._put
        self._on_removed: OnBlock = self._remove

    def start(self) -> None:
        """Subscribe, then switch the signals on."""
        with about(self._path):
            self._listen(REMOVED_TOPIC, self._on_removed)
            for topic in self._topics:
                self._listen(f"{self._path}/{topic}", self._on_block)
            for topic in self._topics:
                control = f"{self._path}/{control_topic(topic)}"
                self._begun.callback(self._switch_off, control)  # also where its answer is lost
                self._driver.publish(control, 1)

    def stop(self) -> None:
        """Switch the signals off, then unsubscribe; of a start that failed, undo what it began."""
        with about(self._path):
            self._begun.close()  # does the rest, too, where one of them fails

    def read(self, timeout_s: float) -> bytes:
        """Blocks that arrived."""
        with self._changed:
            if not self._line and not self._is_gone:
                self._changed.wait(timeout_s)
            if not self._line and self._is_gone:
                raise TargetError(f"Joulescope {self._path} is gone")
            data = b"".join(self._line)
            self._line.clear()
            self._waiting_bytes = 0
        return data

    def _listen(self, topic: str, fn: OnBlock) -> None:
        self._driver.subscribe(topic, "pub", fn)
        self._begun.callback(self._driver.unsubscribe, topic, fn)

    def _switch_off(self, control: str) -> None:
        if not self._is_gone:
            self._driver.publish(control, 0)

    def _put(self, topic: str, value: Any) -> None:
        packed = pack(topic.removeprefix(f"{self._path}/"), value)
        with self._changed:
            if self._waiting_bytes + len(packed) <= WAITING_MAX_BYTES:
                self._line.append(packed)
                self._waiting_bytes += len(packed)
            self._changed.notify()

    def _remove(self, topic: str, value: Any) -> None:
        if value == self._path:
            with self._changed:
                self._is_gone = True
                self._changed.notify()


@contextmanager
def about(path: str) -> Iterator[None]:
    """Translate errors of the vendor's driver into ours."""
    try:
        yield
    except (RuntimeError, OSError, ValueError) as exc:
        raise TargetError(f"Joulescope {path} does not do as it is told: {exc}") from exc
