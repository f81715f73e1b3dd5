"""Byte stream of the blocks that a Joulescope publishes, for a session to read.

The vendor's driver calls back from its own thread; the callback only packs a block and queues it.
While the queue is full, new blocks are lost, and the `sample_id` of the next block shows the loss.
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
"""Maximum size of the queue: two minutes of current, voltage and power at 100 kHz, with four inputs
at 2 MHz."""
REMOVED_TOPIC = "@/!remove"
"""Topic published with the path of a device when it is unplugged."""

OnBlock = Callable[[str, Any], None]
"""Callback that receives a topic and its value."""


class JoulescopeDriver(Protocol):
    """The methods of `pyjoulescope_driver.Driver` that edgebench uses."""

    def device_paths(self) -> list[str]:
        """Paths of connected devices, such as u/js220/002557."""
        ...

    def open(self, device_prefix: str, mode: Any = None, timeout: float | None = None) -> None:
        """Open a device; mode "restore" leaves its state unchanged."""
        ...

    def close(self, device_prefix: str, timeout: float | None = None) -> None:
        """Release a device."""
        ...

    def publish(self, topic: str, value: Any, timeout: float | None = None) -> None:
        """Set the value of a topic."""
        ...

    def query(self, topic: str, timeout: float | None = None) -> Any:
        """Read the value of a topic."""
        ...

    def subscribe(self, topic: str, flags: Any, fn: OnBlock, timeout: float | None = None) -> None:
        """Call `fn` with all values published under a topic."""
        ...

    def unsubscribe(self, topic: str, fn: OnBlock, timeout: float | None = None) -> None:
        """End a subscription; `fn` must be the same object that was given to `subscribe`."""
        ...

    def finalize(self, timeout: float | None = None) -> None:
        """Release USB."""
        ...


class BlockStream:
    """Blocks of the signals of a device, in the order of their arrival."""

    def __init__(self, driver: JoulescopeDriver, path: str, topics: Sequence[str]) -> None:
        self._driver = driver
        self._path = path
        self._topics = topics
        self._line: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_gone = False
        self._begun = ExitStack()
        """Callbacks, each of which undoes a step of the start."""
        self._changed = threading.Condition()
        # Bound once: unsubscribing requires the same object that was subscribed.
        self._on_block: OnBlock = self._put
        self._on_removed: OnBlock = self._remove

    def start(self) -> None:
        """Subscribe to all signals, then switch them on."""
        with about(self._path):
            self._listen(REMOVED_TOPIC, self._on_removed)
            for topic in self._topics:
                self._listen(f"{self._path}/{topic}", self._on_block)
            for topic in self._topics:
                control = f"{self._path}/{control_topic(topic)}"
                self._begun.callback(self._switch_off, control)  # also if only its reply is lost
                self._driver.publish(control, 1)

    def stop(self) -> None:
        """Switch the signals off, then unsubscribe; also undoes an incomplete start."""
        with about(self._path):
            self._begun.close()  # continues after a failed callback

    def read(self, timeout_s: float) -> bytes:
        """Return the packed blocks that have arrived; b"" on timeout."""
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
    """Convert exceptions of the vendor's driver to TargetError."""
    try:
        yield
    except (RuntimeError, OSError, ValueError) as exc:
        raise TargetError(f"Joulescope {path} failed: {exc}") from exc
