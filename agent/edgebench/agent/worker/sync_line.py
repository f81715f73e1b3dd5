"""A line from the device to a meter's digital input, high when idle; each falling edge is a mark.

    gpio:PATH   a file that sets a line: the value of a GPIO, the brightness of an LED
    uart:PATH   a serial port: the start bit of a byte is the falling edge

A GPIO is low for 2 ms, so that a meter with 1000 samples per second records the pulse. These 2 ms
are two sample intervals of such a meter. The pulse of a serial port takes 0.94 ms. Convention of
the pulse: EEMBC and MLPerf Tiny, github.com/eembc/energyrunner, README.
"""

from __future__ import annotations

import contextlib
import os
import termios
import time
from collections.abc import Callable
from typing import Protocol

from edgebench.protocol.errors import TargetError
from edgebench.protocol.record import Pulse

LOW_NS = 2_000_000
"""Duration for which a GPIO is low; the byte that a serial port sends takes less time."""
_FLAGS = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class SyncLine(Protocol):
    """An open line, high when idle."""

    latency_ns: int
    """Upper limit of the delay between a write and its edge."""

    def fall(self) -> None:
        """Begin a pulse and return within microseconds.

        Raises:
            OSError: the line has disappeared.
        """
        ...

    def rise(self) -> None:
        """End the pulse.

        Raises:
            OSError: the line has disappeared.
        """
        ...

    def close(self) -> None:
        """Release the line."""
        ...


class GpioLine:
    """A line that is set by a write to a file: 0 is low, 1 is high."""

    # Assumed, not measured: a write to sysfs returns when the line has changed, except for a GPIO
    # behind I2C or a kernel thread.
    latency_ns = 20_000

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, _FLAGS)
        try:
            self.rise()
        except OSError:
            os.close(self._descriptor)
            raise

    def fall(self) -> None:
        """Set the line low."""
        os.write(self._descriptor, b"0")

    def rise(self) -> None:
        """Set the line high."""
        os.write(self._descriptor, b"1")

    def close(self) -> None:
        """Leave the line high, and close it."""
        with contextlib.suppress(OSError):
            self.rise()
        os.close(self._descriptor)


class UartLine:
    """A serial port whose pulse is a start bit and eight zeros: low for 0.94 ms at 9600 baud."""

    # Assumed, not measured: an adapter on USB sends its bytes once a millisecond.
    latency_ns = 1_000_000

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, _FLAGS)
        try:
            self._configure()
        except (OSError, termios.error):
            self.close()
            raise

    def fall(self) -> None:
        """Send a zero byte."""
        os.write(self._descriptor, b"\0")

    def rise(self) -> None:
        """Do nothing, because the stop bit of the byte ends the pulse."""

    def close(self) -> None:
        """Close the port, which stays idle."""
        os.close(self._descriptor)

    def _configure(self) -> None:
        """Set the port to raw, 9600 baud, 8N1, no flow control, and no hang-up on close."""
        control = termios.tcgetattr(self._descriptor)[6]
        flags = termios.CS8 | termios.CREAD | termios.CLOCAL
        speed = termios.B9600
        termios.tcsetattr(
            self._descriptor, termios.TCSANOW, [0, 0, flags, 0, speed, speed, control]
        )


_KINDS: dict[str, Callable[[str], SyncLine]] = {"gpio": GpioLine, "uart": UartLine}


def open_line(text: str) -> SyncLine:
    """Open the line of this name, such as `gpio:PATH`.

    Raises:
        TargetError: the line cannot be opened.
    """
    kind, _, path = text.partition(":")
    try:
        return _KINDS[kind](path)
    except (OSError, termios.error) as exc:
        raise TargetError(f"sync line not opened: {exc.args[-1]}: {path}") from exc


def pulse(line: SyncLine, clock: Callable[[], int] = time.perf_counter_ns) -> Pulse:
    """Make a complete pulse; returns the times before and after the write of its falling edge.

    The function polls the clock during the pulse, because a sleep would let the CPU enter an idle
    state right before the timed loop.

    Raises:
        OSError: the line has disappeared.
    """
    before_ns = clock()
    line.fall()
    after_ns = clock()
    while clock() < after_ns + LOW_NS:
        pass
    line.rise()
    return Pulse(before_ns, after_ns)
