"""Bad habits of boards, each on a pseudo-terminal, with what must follow from it.

A habit changes what a `BoardDouble` prints: parts of a reply, each with the microseconds before it.
What must follow is the right count, input, outputs and time, or a refusal with its reason.
"""

from __future__ import annotations

import os
import re
import select
import termios
import threading
import time
import tty
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from edgebench.firmware_bridge.board import INFERENCE_S
from edgebench.firmware_bridge.exchange import BoardTiming
from support.board_double import PULSE, BoardDouble, BoardHabits, InterfaceDouble
from support.threaded import Threaded

Part = tuple[int, bytes]
"""Microseconds before some bytes, and the bytes; none: the board is gone."""
Change = Callable[[str, list[Part]], list[Part]]
"""Makes the parts that a board sends from a command and the parts of a board without the habit."""
COUNT, INFERENCE_US = 3, 1500
INPUT = bytes(range(49))
OUTPUTS = (0.0, 0.125, 0.875)
QUICK = BoardTiming(
    answer_s=1.0, quiet_s=0.05, boot_s=0.1, resync_s=(0.3, 0.6, 0.9), start_s=0.5, frame_s=0.2
)
GONE: Part = (0, b"")
CLOCK_US = COUNT * INFERENCE_US
ESP_LOG = b"I (1234) wifi: disconnect reason, error code 0x0\r\n"
ZEPHYR_LOG = b"[00:00:01.234,567] <err> net_dhcpv4: failed to send: error -5\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Habit:
    """A row of the table."""

    name: str
    board: BoardHabits = field(default_factory=BoardHabits)
    change: Change = lambda _, parts: parts
    start: tuple[Part, ...] = ()
    """What it prints when its port is opened."""
    beat: tuple[float, bytes] | None = None
    """Seconds between lines that it prints without a command, and the line."""
    start_s: float = 0.0
    """Time after its port was opened in which commands are lost."""
    damaged_at: int | None = None
    """Byte of the input of which it keeps another value."""
    is_behind_interface: bool = False
    is_reading: bool = True
    """Whether it reads what the host sends."""
    baud_rate: int | None = None
    """Only speed at which it responds; None: any."""
    refusal: str = ""
    """Pattern of the reason of its refusal; empty: it is measured."""
    ticks: int | None = CLOCK_US
    """Microseconds of the window, by its own clock."""
    silence_s: float = INFERENCE_S
    """Longest silence in its window."""
    is_off: bool = False
    """Whether its clock is so wrong that the rule `target_clock` refuses its times."""
    timing: BoardTiming = QUICK
    """Its own timeouts are a fraction of the usual ones, to save time."""


@dataclass(slots=True)
class HabitBoard(Threaded):
    """A board with a habit, on a pseudo-terminal while a block lasts."""

    habit: Habit
    path: str = ""
    opened: threading.Event = field(default_factory=threading.Event)
    """Set when a host has opened its port."""
    double: BoardDouble = field(init=False)
    _ends: tuple[int, int] = (-1, -1)
    _is_gone: bool = False

    def __post_init__(self) -> None:
        self.double = BoardDouble(
            self.habit.board,
            damaged_at=self.habit.damaged_at,
            time_us=self.habit.board.lap_begin_us,
        )

    def _open(self) -> None:
        self._ends = os.openpty()
        tty.setraw(self._ends[1])
        os.set_blocking(self._ends[0], False)
        self.path = os.ttyname(self._ends[1])

    def _close(self) -> None:
        with suppress(OSError):
            os.close(self._ends[1])
        if not self._is_gone:
            os.close(self._ends[0])

    def _run(self) -> None:
        habit = self.habit
        self.opened.wait()
        started_s = beaten_s = time.monotonic()
        self._send(list(habit.start))
        if habit.start_s:
            termios.tcflush(self._ends[0], termios.TCIFLUSH)
        far = InterfaceDouble(self.double) if habit.is_behind_interface else self.double
        while not self._over.is_set() and not self._is_gone:
            if habit.beat and time.monotonic() - beaten_s > habit.beat[0]:
                beaten_s = time.monotonic()
                self._send([(0, habit.beat[1])])
            if not habit.is_reading:
                self._over.wait(0.02)
                continue
            if not select.select([self._ends[0]], [], [], 0.005)[0]:
                continue
            with suppress(OSError):
                data = os.read(self._ends[0], 4096)
                if time.monotonic() - started_s < habit.start_s or not self._is_at_its_speed():
                    self._send([(0, b"\xfe\x80")] if habit.baud_rate else [])
                    continue
                count = len(self.double.commands)
                parts = far.hear(data)
                command = self.double.commands[-1] if len(self.double.commands) > count else ""
                self._send(habit.change(command, parts) if command else parts)

    def _is_at_its_speed(self) -> bool:
        speeds = {9600: termios.B9600, 115_200: termios.B115200}
        baud_rate = self.habit.baud_rate
        return baud_rate is None or termios.tcgetattr(self._ends[1])[4] == speeds[baud_rate]

    def _send(self, parts: list[Part]) -> None:
        for part in parts:
            delay_us, data = part
            if part is GONE:
                self._is_gone = True
                os.close(self._ends[0])
                os.close(self._ends[1])
                return
            self._over.wait(delay_us / 1e6)
            while data and data != PULSE and not self._over.is_set():
                try:
                    data = data[os.write(self._ends[0], data) :]
                except BlockingIOError:
                    self._over.wait(0.001)


def joined(parts: list[Part]) -> bytes:
    """All bytes of a reply."""
    return b"".join(data for _, data in parts if data != PULSE)


def each_line(make: Callable[[bytes], bytes]) -> Change:
    """Change every line."""
    return lambda _, parts: [(us, make(data) if data.strip() else data) for us, data in parts]


def text(old: str, new: str) -> Change:
    """Replace a pattern in all lines."""

    def change(_: str, parts: list[Part]) -> list[Part]:
        return [(us, re.sub(old.encode(), new.encode(), data)) for us, data in parts]

    return change


def in_window(line: bytes, *, is_last: bool = False) -> Change:
    """Print a line between the two laps of a window; `is_last`: and nothing after it."""

    def change(command: str, parts: list[Part]) -> list[Part]:
        if not command.startswith("infer"):
            return parts
        place = next(at for at, (_, data) in enumerate(parts) if b"m-infer-start" in data) + 2
        return [*parts[:place], (0, line), *([] if is_last else parts[place:])]

    return change


def of(words: str, make: Callable[[list[Part]], list[Part]]) -> Change:
    """Change the replies to commands that begin with one of these words."""
    kinds = tuple(words.split())
    return lambda command, parts: make(parts) if command.startswith(kinds) else parts


def first_of(word: str, make: Callable[[list[Part]], list[Part]]) -> Change:
    """Change the first reply to a command that begins with this word."""
    left = [word]

    def change(command: str, parts: list[Part]) -> list[Part]:
        return make(parts) if command.startswith(word) and (left and left.pop()) else parts

    return change


def alternating(*texts: bytes) -> Change:
    """Another name in each reply."""
    count = iter(range(10_000))
    return of("name", lambda _: [(0, texts[next(count) % len(texts)] + b"\r\nm-ready\r\n")])


def flipped(ratio: float) -> Change:
    """Flip a bit of some bytes, regularly."""
    step, seen = round(1 / ratio), [0]

    def make(data: bytes) -> bytes:
        seen[0] += len(data)
        if seen[0] < step:
            return data
        seen[0] = 0
        return bytes([data[0] ^ 4]) + data[1:]

    return lambda _, parts: [(us, make(data) if data else data) for us, data in parts]


def laps(make: Callable[[int], str]) -> Change:
    """Print laps in another way."""

    def replaced(match: re.Match[bytes]) -> bytes:
        return b"m-lap-us-" + make(int(match[1])).encode()

    return lambda _, parts: [(us, re.sub(rb"m-lap-us-(\d+)", replaced, d)) for us, d in parts]


def without(pattern: bytes) -> Change:
    """Omit lines."""
    return lambda _, parts: [(us, b"" if re.search(pattern, data) else data) for us, data in parts]


def capital_digits(_: str, parts: list[Part]) -> list[Part]:
    """Print the input in capital digits."""
    return [
        (us, b"m-buffer-" + data[9:].upper() if data.startswith(b"m-buffer-") else data)
        for us, data in parts
    ]


BANNER = b"m-timestamp-mode-performance\r\nm-lap-us-1\r\nm-init-done\r\nm-ready\r\n"
ROM_TEXT = b"ets Jun  8 2016\r\nrst:0x1 (POWERON_RESET),boot:0x13\r\n\xff\xfe\x80load:0x3fff\r\n"
PANIC = b"Guru Meditation Error: Core  0 panic'ed (LoadProhibited). Exception was unhandled.\r\n"
ZEPHYR_FATAL = b"[00:00:03.000,000] <err> os: ***** BUS FAULT *****\r\n"
SLOW = BoardTiming(answer_s=0.4, quiet_s=0.05, boot_s=0.1, resync_s=(0.1, 0.2, 0.6), start_s=1.0)
"""A third to a fifth of the usual times, for habits of time."""

HABITS: tuple[Habit, ...] = (
    # How lines look
    Habit(name="none"),
    Habit(name="echo", board=BoardHabits(is_echoing=True)),
    Habit(
        name="echo as a line",
        change=lambda command, parts: [(0, f"{command}%\r\n".encode()), *parts],
    ),
    Habit(name="prompt", change=lambda _, parts: [(0, b"> "), *parts, (0, b"> ")]),
    Habit(
        name="prompt of Zephyr's shell", change=lambda _, p: [*p, (0, b"\x1b[1;32muart:~$ \x1b[m")]
    ),
    Habit(name="colours", change=each_line(lambda line: b"\x1b[0;32m" + line + b"\x1b[0m")),
    Habit(name="LF", board=BoardHabits(line_end="\n")),
    Habit(name="CR", board=BoardHabits(line_end="\r")),
    Habit(name="LF CR", board=BoardHabits(line_end="\n\r")),
    Habit(name="empty lines", board=BoardHabits(line_end="\r\n\r\n\r\n")),
    Habit(
        name="spaces around lines",
        change=each_line(lambda line: b"  \t" + line.rstrip() + b"  \r\n"),
    ),
    Habit(name="no prefix", board=BoardHabits(has_prefix=False)),
    Habit(name="NULs", change=each_line(lambda line: b"\0" + line + b"\0\0")),
    Habit(name="UTF-16", change=each_line(lambda line: line.decode().encode("utf-16-le"))),
    Habit(name="bells and XON", change=each_line(lambda line: b"\x07\x11" + line)),
    Habit(name="names in UTF-8", change=in_window("Temperatur 21 °C, Größe 3 µs\r\n".encode())),
    Habit(name="a line end is lost", change=text("m-warmup-done\r\n", "m-warmup-done")),
    Habit(name="capital hexadecimal digits", change=capital_digits),
    Habit(
        name="70 kB without a line end",
        change=first_of("name", lambda p: [(0, b"x" * 70_000), (0, b"\r\n"), *p]),
    ),
    # What it prints besides
    Habit(name="boot noise with ROM text", start=((20_000, ROM_TEXT), (20_000, BANNER))),
    Habit(
        name="half a command is in its buffer",
        start=((0, b"e-[Unknown command: infname]\r\nm-ready\r\n"),),
    ),
    Habit(name="heartbeat, 5 Hz", beat=(0.2, b"alive\r\n")),
    Habit(name="heartbeat, 33 Hz", beat=(0.03, b"tick 17\r\n")),
    Habit(name="log of ESP-IDF between all lines", change=each_line(lambda line: line + ESP_LOG)),
    Habit(name="log of Zephyr between all lines", change=each_line(lambda line: line + ZEPHYR_LOG)),
    Habit(name="ESP-IDF, error code in a window", change=in_window(ESP_LOG)),
    Habit(
        name="ESP-IDF, level E in a window",
        change=in_window(b"E (99) i2c: i2c_master_cmd_begin failed\r\n"),
    ),
    Habit(name="Zephyr, <err> in a window", change=in_window(ZEPHYR_LOG)),
    Habit(name="no errors", change=in_window(b"Errors: 0, failed: 0\r\n")),
    Habit(
        name="flood of 512 bytes",
        change=first_of("profile", lambda p: [*[(1000, b"#" * 511 + b"\n")] * 200, *p]),
    ),
    Habit(
        name="greeting of the maker",
        start=((0, b"Hello from ACME v1.2\r\nInitialized\r\n" + BANNER),),
    ),
    Habit(name="m-ready twice", change=text("m-ready\r\n", "m-ready\r\nm-ready\r\n")),
    Habit(
        name="interface board in a log",
        change=of("name", lambda p: [(0, b"USB interface board ready\r\n"), *p]),
    ),
    # When it prints
    Habit(
        name="one byte at a time",
        change=lambda _, parts: [(0, bytes([one])) for one in joined(parts)],
    ),
    Habit(name="0.1 s before each reply", change=lambda _, parts: [(100_000, b""), *parts]),
    Habit(name="starts within its time", start_s=0.5, start=(), timing=SLOW),
    Habit(name="starts in 3 s, silently", start_s=3.0, timing=BoardTiming()),
    Habit(name="starts late, with a banner", start_s=0.8, start=((900_000, BANNER),), timing=SLOW),
    Habit(
        name="replies to name late", change=of("name", lambda p: [(500_000, b""), *p]), timing=SLOW
    ),
    Habit(name="everything is late", change=lambda _, parts: [(250_000, b""), *parts], timing=SLOW),
    Habit(name="restarts in a loop", start=((0, BANNER), (100_000, BANNER), (100_000, BANNER))),
    # What it does not support
    Habit(
        name="replies nothing to unknown commands",
        board=BoardHabits(unknown_reply="nothing"),
        timing=SLOW,
    ),
    Habit(name="m-ready alone to unknown commands", board=BoardHabits(unknown_reply="ready")),
    Habit(name="no timestamp", board=BoardHabits(has_timestamp=False)),
    Habit(name="db print of 16 bytes", board=BoardHabits(print_bytes=16)),
    Habit(name="no db print", board=BoardHabits(print_bytes=0)),
    Habit(name="results on request alone", board=BoardHabits(has_results=False)),
    Habit(
        name="no m-ready after infer",
        change=of("infer", lambda p: [(u, d.replace(b"m-ready", b"")) for u, d in p]),
        silence_s=0.5,
    ),
    Habit(name="name without dut", board=BoardHabits(name_line="m-name-[unspecified]")),
    Habit(name="comma after the results", board=BoardHabits(has_trailing_comma=True)),
    Habit(name="model in capitals", board=BoardHabits(model="KWS01")),
    Habit(name="behind an interface board", is_behind_interface=True),
    Habit(name="energy mode", board=BoardHabits(is_energy=True), ticks=None),
    Habit(name="another speed", baud_rate=9600),
    # What its clock does
    Habit(name="laps wrap in the window", board=BoardHabits(lap_begin_us=(1 << 32) - 4_000)),
    Habit(
        name="signed laps",
        board=BoardHabits(lap_begin_us=1 << 31),
        change=laps(lambda us: str(us - (1 << 32))),
    ),
    Habit(name="laps with a fraction", board=BoardHabits(lap_fraction=".250000")),
    Habit(name="laps with leading zeros", change=laps(lambda us: f"{us:012}")),
    Habit(name="counter that stands", change=laps(lambda _: "0"), is_off=True),
    Habit(
        name="counter of 16 bits", board=BoardHabits(lap_begin_us=62_500, lap_bits=16), is_off=True
    ),
    Habit(
        name="clock 10 % fast",
        board=BoardHabits(inference_us=100_000),
        change=laps(lambda us: str(us * 11 // 10)),
        is_off=True,
    ),
    Habit(name="counter of milliseconds", change=laps(lambda us: str(us // 1000)), is_off=True),
    # What is repeated, because the line lost it
    Habit(
        name="a digit of infer is lost",
        change=first_of("infer", lambda p: [(u, d.replace(b"start-3", b"start-30")) for u, d in p]),
    ),
    Habit(name="0.1 % of the bytes are flipped", change=flipped(0.001)),
    # What is refused
    Habit(name="silence", change=lambda _c, _p: [], refusal="no reply from .* to 3 times `name`"),
    Habit(name="nobody reads", is_reading=False, refusal="no reply from"),
    Habit(
        name="another program's text",
        change=lambda _c, _p: [(0, b"login: \r\n")],
        refusal="sends data.*but no name",
    ),
    Habit(
        name="names that change",
        change=alternating(b"m-name-dut-[a]", b"m-name-dut-[b]"),
        refusal="no two consecutive replies",
    ),
    Habit(name="all in capitals", change=each_line(bytes.upper), refusal="but no name"),
    Habit(
        name="gone in the window",
        change=of("infer", lambda p: [p[0], GONE]),
        refusal="was disconnected",
    ),
    Habit(
        name="restart in the window",
        change=of("infer", lambda p: [*p[:2], (0, BANNER)]),
        refusal="restarted during `infer",
    ),
    Habit(
        name="half of the inferences",
        change=text("infer-start-3", "infer-start-1"),
        refusal="arrived as another command",
    ),
    Habit(
        name="silent in the window",
        change=of("infer", lambda p: p[:2]),
        refusal="does not end",
        silence_s=0.3,
    ),
    Habit(
        name="interface board with nothing behind",
        is_behind_interface=True,
        change=lambda _c, p: [(u, b"" if b"[dut]" in d else d) for u, d in p],
        refusal="the board behind it does not",
    ),
    Habit(
        name="input that changes on the board",
        damaged_at=7,
        refusal="differs from the 49 bytes sent",
    ),
    Habit(
        name="input of another size",
        board=BoardHabits(input_bytes=50),
        refusal="expects another input",
    ),
    Habit(
        name="too little room",
        board=BoardHabits(buffer_bytes=40),
        refusal="rejects an input of 49 bytes",
    ),
    Habit(
        name="errors alone",
        change=of("infer", lambda _: [(0, b"e-[busy]\r\nm-ready\r\n")]),
        refusal="rejects `infer 3 1`: busy",
    ),
    Habit(
        name="an error without m-ready",
        change=of("infer", lambda _: [(0, b"e-[busy]\r\n")]),
        refusal="busy",
    ),
    Habit(
        name="Invoke failed",
        change=in_window(b"Invoke failed on index 3\r\n"),
        refusal="an inference of `infer 3 1` failed",
    ),
    Habit(
        name="a log line instead of results",
        board=BoardHabits(has_results=False),
        change=in_window(b"E (99) app: model error\r\n"),
        refusal="has no result",
    ),
    Habit(
        name="fault of edgebench's firmware",
        change=in_window(b"\r\ne-[Fault]\r\n", is_last=True),
        refusal=r"stopped during `infer 3 1`: e-\[Fault\]",
    ),
    Habit(
        name="panic of ESP-IDF",
        change=in_window(PANIC, is_last=True),
        refusal="Guru Meditation",
    ),
    Habit(
        name="fatal error of Zephyr",
        change=in_window(ZEPHYR_FATAL, is_last=True),
        refusal="BUS FAULT",
    ),
    Habit(
        name="fault while an input is sent",
        change=of("db load", lambda _: [(0, b"\r\ne-[Fault]\r\n")]),
        refusal=r"stopped during `db load 49`",
    ),
)
