"""Cancellation of measurements: by Ctrl-C in the main thread, or from any thread."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from edgebench.host.result.run import Run
from edgebench.protocol.errors import EdgebenchError


class Interrupted(Exception):
    """A run was cancelled; `run` is what was measured of it, if anything."""

    def __init__(self, run: Run | None) -> None:
        super().__init__("interrupted")
        self.run = run


class Cancellation:
    """A request to stop measuring, which any thread may make; there is no way back.

    What measures looks at it between two steps; while it only listens to a device, it leaves an
    action here, which the thread that cancels performs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._actions: list[Callable[[], None]] = []
        self._requested = threading.Event()

    @property
    def is_requested(self) -> bool:
        """Whether cancellation was requested."""
        return self._requested.is_set()

    def request(self) -> None:
        """Stop what measures under this cancellation, and let nothing more begin."""
        with self._lock:
            actions = [] if self.is_requested else list(self._actions)
            self._requested.set()
        for action in actions:
            action()

    def check(self) -> None:
        """Go on only if nobody has cancelled.

        Raises:
            Interrupted: somebody has.
        """
        if self.is_requested:
            raise Interrupted(None)

    def wait(self, timeout_s: float) -> None:
        """Wait for so long.

        Raises:
            Interrupted: somebody has cancelled, before or meanwhile.
        """
        self._requested.wait(timeout_s)
        self.check()

    @contextmanager
    def performing(self, action: Callable[[], None]) -> Iterator[None]:
        """Perform an action once if cancellation is requested before the end of the block.

        It is performed at once if somebody has cancelled already. It must not raise: the thread
        that cancels has other things to stop.
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
    """Finish what is in the block at the first Ctrl-C; the second one is raised at once.

    A run that has ended is to be stored, not left on its device. Only for the main thread: others
    get no signals.

    Yields:
        An event that is set once the user has pressed Ctrl-C.

    Raises:
        Interrupted: the user has pressed it, and the block failed.
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
        for one in before:
            signal.signal(one, signal.default_int_handler)
        is_pressed.set()
        with suppress(KeyboardInterrupt):
            handler(number, frame)  # it acknowledges the key

    for number in before:
        signal.signal(number, hold)
    try:
        yield is_pressed
    except EdgebenchError as exc:
        if is_pressed.is_set():  # else the next run would follow
            raise Interrupted(None) from exc
        raise
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is hold:
                signal.signal(number, handler)
