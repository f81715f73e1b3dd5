"""Cancellation of measurements, by Ctrl-C in the main thread or by a call from any thread."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from edgebench.host.result.run import Run
from edgebench.protocol.errors import EdgebenchError


class Interrupted(Exception):
    """A run was cancelled; `run` is its measured part, or None if nothing was measured."""

    def __init__(self, run: Run | None) -> None:
        super().__init__("interrupted")
        self.run = run


class Cancellation:
    """A request to stop measuring, made by any thread; it cannot be withdrawn.

    Measuring code calls `check` between steps. Before the code waits for messages of a device, it
    registers an action with `performing`; the thread that cancels performs the action.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._actions: list[Callable[[], None]] = []
        self._requested = threading.Event()

    @property
    def is_requested(self) -> bool:
        """Whether `request` has been called."""
        return self._requested.is_set()

    def request(self) -> None:
        """Stop all measurements that use this object, and prevent further measurements with it."""
        with self._lock:
            actions = [] if self.is_requested else list(self._actions)
            self._requested.set()
        for action in actions:
            action()

    def check(self) -> None:
        """Raise an exception if cancellation was requested.

        Raises:
            Interrupted: cancellation was requested.
        """
        if self.is_requested:
            raise Interrupted(None)

    def wait(self, timeout_s: float) -> None:
        """Wait for `timeout_s` seconds, or until cancellation is requested.

        Raises:
            Interrupted: cancellation was requested before or during the wait.
        """
        self._requested.wait(timeout_s)
        self.check()

    @contextmanager
    def performing(self, action: Callable[[], None]) -> Iterator[None]:
        """Perform an action once if cancellation is requested before the end of the block.

        If cancellation was already requested, the action is performed immediately. The action must
        not raise an exception, because the cancelling thread still has other actions to perform.
        """
        with self._lock:
            is_late = self.is_requested
            self._actions.append(action)
        try:
            if is_late:
                action()
            yield
        finally:
            with self._lock:
                self._actions.remove(action)


@contextmanager
def holding_interrupts() -> Iterator[threading.Event]:
    """Let the block end normally after a first Ctrl-C; a second Ctrl-C interrupts it immediately.

    Callers use this function to store a finished run, which would otherwise stay on its device.
    Outside the main thread, this function has no effect, because other threads receive no signals.

    Yields:
        An event that is set once the user has pressed Ctrl-C.

    Raises:
        Interrupted: the user pressed Ctrl-C, and the block raised an `EdgebenchError`.
    """
    is_pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield is_pressed
        return
    before = {
        number: handler
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if callable(handler := signal.getsignal(number))
    }

    def hold(number: int, frame: FrameType | None) -> None:
        handler = before[signal.Signals(number)]
        for signal_number in before:
            signal.signal(signal_number, signal.default_int_handler)
        is_pressed.set()
        with suppress(KeyboardInterrupt):
            handler(number, frame)  # acknowledges the key

    for number in before:
        signal.signal(number, hold)
    try:
        yield is_pressed
    except EdgebenchError as exc:
        if is_pressed.is_set():  # otherwise the caller would go on with the next run
            raise Interrupted(None) from exc
        raise
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is hold:
                signal.signal(number, handler)
