"""A made-up microcontroller, byte for byte, and its line, with every possible fault.

The double behaves as the reference API of MLPerf Tiny does, defects included: what crashes the
reference, or makes it write beyond its buffer, is recorded in `violations`. Time is virtual.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from edgebench.firmware_bridge.transports.base import ReceivedBytes
from edgebench.protocol.errors import BoardLost

FRAME_NS = 32_000_000
"""Interval of the frames of streaming firmware."""
COMMAND_CHARS = 80
"""Room of the reference for a command; longer ones are cut."""
BYTE_S = 10 / 115_200
PULSE = b"\0pulse"
"""Stands for a pulse of the pin among the bytes that a board sends; the line does not carry it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardHabits:
    """The differences of a firmware from others."""

    name_line: str = "m-name-dut-[unspecified]"
    model: str = "kws01"
    input_bytes: int = 49
    buffer_bytes: int = 100
    outputs: tuple[str, ...] = ("0.000", "0.125", "0.875")
    inference_us: int = 1500
    is_energy: bool = False
    is_echoing: bool = False
    has_prefix: bool = True
    has_trailing_comma: bool = False
    line_end: str = "\r\n"
    greeting: str = ""
    """Lines of the maker's own before the end of the start."""
    window_text: str = ""
    """Line of the maker's own within each window."""
    has_results: bool = True
    """Whether a window ends with the outputs."""
    has_timestamp: bool = True
    """Whether it knows the command `timestamp`."""
    unknown_reply: Literal["error", "ready", "nothing"] = "error"
    """Reply to a command that it does not know."""
    print_bytes: int | None = None
    """Bytes that `db print` prints if it is not told how many, as the help of the reference says;
    None: all, as the reference does; 0: it does not know the command."""
    lap_fraction: str = ""
    """What firmware whose times are floats prints behind the microseconds."""
    lap_begin_us: int = 1000
    lap_bits: int = 32


@dataclass(slots=True)
class BoardDouble:
    """One board: bytes in, bytes with a delay out."""

    habits: BoardHabits = field(default_factory=BoardHabits)
    violations: list[str] = field(default_factory=list[str])
    commands: list[str] = field(default_factory=list[str])
    buffer: bytearray = field(default_factory=bytearray)
    """What was loaded, as far as it was."""
    expected_bytes: int = 0
    ran_on: bytes = b""
    """Input of the last inference."""
    ran_count: int = 0
    is_input_overwritten: bool = False
    """Whether the last inference ran on what the inference before it left of the input."""
    damaged_at: int | None = None
    """Byte of an input of which it keeps another value."""
    pulse_count: int = 0
    start_count: int = 0
    time_us: int = 0
    """Since the start of the board."""
    _command: str = ""
    _out: deque[tuple[int, bytes]] = field(default_factory=deque[tuple[int, bytes]])

    def start(self) -> list[tuple[int, bytes]]:
        """Reset the board; its output then, each part with the microseconds before it."""
        habits = self.habits
        self._command, self.expected_bytes = "", 0
        self.buffer.clear()
        self.time_us = habits.lap_begin_us
        self.start_count += 1
        mode = "energy" if habits.is_energy else "performance"
        self._say(f"m-timestamp-mode-{mode}")
        self._timestamp()
        for line in habits.greeting.splitlines():
            self._say(line)
        self._say("m-init-done")
        self._say("m-ready")
        return self._said()

    def hear(self, data: bytes) -> list[tuple[int, bytes]]:
        """Receive bytes of the host."""
        for byte in data:
            if self.habits.is_echoing:
                self._out.append((0, bytes([byte])))
            char = chr(byte)
            if char != "%":
                self._command = (self._command + char)[:COMMAND_CHARS]
                continue
            command, self._command = self._command, ""
            self.commands.append(command)
            self._run(command.split("\0")[0])
        return self._said()

    def _run(self, command: str) -> None:
        words = command.split(" ")
        words = [word for word in words if word]
        if not words:
            self.violations.append("an empty command")
            return
        kind, *arguments = words
        if kind == "name":
            self._say(self.habits.name_line)
        elif kind == "timestamp" and self.habits.has_timestamp:
            self._timestamp()
        elif kind == "profile":
            self._say("m-profile-[ULPMark for tinyML Firmware V0.0.1]")
            self._say(f"m-model-[{self.habits.model}]")
        elif kind == "db" and arguments[:1] == ["print"]:
            if not self._is_printed(arguments[1:]):
                return
        elif kind == "db":
            self._buffer(arguments)
        elif kind == "infer":
            self._infer(arguments)
        elif kind == "results":
            self._results()
        elif not self._is_unknown_answered(f"e-[Unknown command: {kind}]"):
            return
        self._say("m-ready")

    def _is_unknown_answered(self, error: str) -> bool:
        if self.habits.unknown_reply == "error":
            self._say(error)
        return self.habits.unknown_reply != "nothing"

    def _buffer(self, arguments: list[str]) -> None:
        if not arguments:
            self._say("e-[Command 'db' requires a subcommand]")
        elif arguments[0] == "load":
            self._load(arguments[1:])
        else:
            self._append(arguments[0])

    def _load(self, arguments: list[str]) -> None:
        if not arguments:
            self._say("e-[Command 'db load' requires the # of bytes]")
            return
        size = _atoi(arguments[0])
        if not size:
            self._say("e-[Command 'db load' must be >0 bytes]")
            return
        self.expected_bytes = size
        self.buffer.clear()
        limit = self.habits.buffer_bytes
        if size > limit:
            self._say(f"Supplied buffer size {size} exceeds maximum of {limit}", end="\n")
        else:
            self._say(f"m-[Expecting {size} bytes]")

    def _append(self, digits: str) -> None:
        if len(digits) % 2:
            self._say("e-[Insufficent number of hex digits]")
            return
        for place in range(0, len(digits), 2):
            pair = digits[place : place + 2]
            try:
                value = bytes.fromhex(pair)
            except ValueError:
                self._say(f"e-[Invalid hex digit '{pair}']")
                return
            if not self.expected_bytes or len(self.buffer) >= self.expected_bytes:
                self.violations.append("a byte behind the buffer")
                return
            is_damaged = len(self.buffer) == self.damaged_at
            self.buffer += bytes([value[0] ^ 1]) if is_damaged else value
            if len(self.buffer) == self.expected_bytes:
                self._say("m-load-done")
                return

    def _is_printed(self, arguments: list[str]) -> bool:
        """Print the input; whether there is a reply."""
        data = bytes(self.buffer).ljust(self.expected_bytes, b"\0")
        if self.habits.print_bytes == 0:
            return self._is_unknown_answered("e-[Unknown subcommand: print]")
        if self.habits.print_bytes is not None:
            data = data[: _atoi(arguments[0]) if arguments else self.habits.print_bytes]
        for place in range(0, len(data), 8):
            self._say("m-buffer-" + data[place : place + 8].hex("-"))
        if len(data) % 8:
            self._say("")
        return True

    def _infer(self, arguments: list[str]) -> None:
        count, warmup_count = 1, 10
        if arguments:
            count = _atoi(arguments[0])
            if count <= 0:
                self._say("e-[Inference iterations must be >0]")
                return
        if len(arguments) > 1:
            warmup_count = _atoi(arguments[1])
            if warmup_count < 0:
                self._say("e-[Inference warmup must be >=0]")
                return
        if len(self.buffer) == self.habits.input_bytes:
            self.ran_on = bytes(self.buffer)
        else:
            has, wants = len(self.buffer), self.habits.input_bytes
            self._say(f"Input db has {has} elemented, expected {wants}", end="\n")
        self._say(f"m-warmup-start-{warmup_count}")
        self._pass(warmup_count * self.habits.inference_us)
        self._say("m-warmup-done")
        self._say(f"m-infer-start-{count}")
        self._timestamp()
        self._pass(count * self.habits.inference_us)
        if self.habits.window_text:
            self._say(self.habits.window_text)
        self.ran_count = count
        self.is_input_overwritten = count + warmup_count > 1
        self._timestamp()
        self._say("m-infer-done")
        if self.habits.has_results:
            self._results()

    def _results(self) -> None:
        comma = "," if self.habits.has_trailing_comma else ""
        # TensorFlow Lite Micro uses the memory of the input for other tensors.
        outputs = (
            reversed(self.habits.outputs) if self.is_input_overwritten else self.habits.outputs
        )
        self._say(f"m-results-[{','.join(outputs)}{comma}]")

    def _timestamp(self) -> None:
        if self.habits.is_energy:
            self.pulse_count += 1
            self._out.append((0, PULSE))
        else:
            lap_us = self.time_us % (1 << self.habits.lap_bits)
            self._say(f"m-lap-us-{lap_us}{self.habits.lap_fraction}")

    def _pass(self, time_us: int) -> None:
        self.time_us += time_us
        self._out.append((time_us, b""))

    def _say(self, line: str, *, end: str | None = None) -> None:
        text = line if self.habits.has_prefix else line.removeprefix("m-")
        end = self.habits.line_end if end is None else end
        self._out.append((0, (text + end).encode()))

    def _said(self) -> list[tuple[int, bytes]]:
        said, self._out = list(self._out), deque()
        return said


def _atoi(text: str) -> int:
    """Number at the beginning of a text, as C parses it."""
    match = re.match(r"[+-]?\d+", text)
    return int(match[0]) if match else 0


@dataclass(slots=True)
class StreamingDouble(BoardDouble):
    """A board with the streaming wake-word firmware."""

    is_loading: bool = False
    clock_ns: Callable[[], int] | None = None
    """Clock by which it hears sound all the time; None: only what is played to it."""
    is_listening: bool = False
    heard_count: int = 0
    """Frames of sound since it was told to listen."""
    played_count: int = 0
    """Frames of sound in all windows."""
    _began_ns: int = 0

    def play(self, count: int) -> bool:
        """Play this many frames; whether it listens."""
        if self.is_listening:
            self.heard_count += count
            self.played_count += count
        return self.is_listening

    def _run(self, command: str) -> None:
        self._say(f"Received command: {command}")
        words = [word for word in command.split(" ") if word]
        kind = words[0] if words else ""
        if kind == "name":
            self._say(self.habits.name_line)
        elif kind == "profile":
            self._say("m-profile-[ULPMark for tinyML Firmware V0.0.1]")
            self._say("m-model-[sww01]")
        elif kind == "db":
            self._stream_buffer(words[1:])
        elif kind == "help":
            self._say("help        -- Print this help message")
            self._out.append((0, b"%"))
        elif kind == "extract_uart_stream":
            self._say("m-features-[ -1,  +2]")
            self._say("m-activations-[-12, +34, +56]")
        elif kind == "timestamp":
            self.pulse_count += 1
        elif kind == "start":
            self._listen()
        elif kind == "stop":
            self._stop()
        elif not kind:
            self._say("Empty command (only a % read).  Type 'help%' for help")
        else:
            self._say(f"Unrecognized command {command}")
        self._say("m-ready")

    def _listen(self) -> None:
        if self.is_listening:
            self._say("I2S Rx currently in progress. Ignoring request")
            return
        self.is_listening, self.heard_count = True, 0
        self._began_ns = self.clock_ns() if self.clock_ns else 0
        self._say("Listening for I2S data ... ")
        self._out.append((0, PULSE))
        self._say("DMA receive initiated.")

    def _stop(self) -> None:
        if not self.is_listening:
            self._say("I2S is already idle.  Ignoring stop request")
            return
        if self.clock_ns:
            self.play((self.clock_ns() - self._began_ns) // FRAME_NS)
        self.is_listening = False
        self._out.append((0, PULSE))
        self._say("Streaming stopped.")
        self._say("target activations: ")
        values = [f"{number % 256 - 128}, " for number in range(self.heard_count)]
        values[-1:] = [value.replace(",", " ") for value in values[-1:]]
        lines = ["".join(values[place : place + 16]) for place in range(0, len(values), 16)]
        for line in ("[" + "\r\n".join([*lines, "]"])).split("\r\n"):
            self._say(line)

    def _stream_buffer(self, arguments: list[str]) -> None:
        if arguments and arguments[0] == "load":
            size = _atoi(arguments[1])
            if not size:
                self._say(
                    f"Error: Transfer size ({arguments[1]}) must be valid int; greater than 0."
                )
                return
            self.expected_bytes, self.is_loading = size, True
            self.buffer.clear()
            self._say(f"Expecting {size} bytes")
        elif arguments and arguments[0] == "print":
            data = bytes(self.buffer).ljust(self.habits.buffer_bytes, b"\xff")
            self._say("m-buffer-" + data.hex("-"))
        elif not self.is_loading:
            self._say("Error: Must issue db load <Nbytes> command before transmitting data.")
        else:
            self._stream_append(arguments[0])

    def _stream_append(self, digits: str) -> None:
        if len(digits) % 2:
            self._say(
                f"Error: number of hex digits in data string must be even. Received {len(digits)}"
            )
            self._say("Still waiting for data")
            return
        for place in range(0, len(digits), 2):
            try:
                self.buffer += bytes.fromhex(digits[place : place + 2])
            except ValueError:
                self._say("Error: Received non-hex digit in character pair")
                return
            if len(self.buffer) >= self.expected_bytes:
                self.is_loading = False
                self._say("m-load-done")
                return
        self._say(f"{len(self.buffer)} bytes received")


@dataclass(slots=True)
class InterfaceDouble:
    """An interface board, with or without a board behind it."""

    board: BoardDouble | None
    name_line: str = "tinyML Enhanced Interface Board"
    is_timing: bool = False
    """Whether it prints its own time at each pulse of the board's pin, as EEMBC's does."""
    commands: list[str] = field(default_factory=list[str])
    sounds: dict[str, int] = field(default_factory=dict[str, int])
    """Frames of the files on its card, by name."""
    is_today: bool = True
    """Whether it prints the texts of 2025-07 and later (904de6f)."""
    has_timer: bool = True
    """Whether it knows the times of edges."""
    frame_ticks: int = 250
    """Units of 10 µs that the board needs for a frame, 0 to 2 more for each."""
    edge_limit: int = 1 << 20
    """Edges that it keeps."""
    _edges: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    _command: str = ""

    def start(self) -> list[tuple[int, bytes]]:
        """Reset the interface board."""
        if self.board is not None:
            self.board.start()
        return []

    def hear(self, data: bytes) -> list[tuple[int, bytes]]:
        """Receive bytes of the host."""
        said: list[tuple[int, bytes]] = []
        for char in data.decode("latin-1"):
            if char != "%":
                self._command += char
                continue
            command, self._command = self._command, ""
            self.commands.append(command)
            if not command.startswith("dut "):
                said += self._own(command)
                continue
            passed = command.removeprefix("dut ")
            said.append((0, f"m-dut-passthrough({passed})\r\nm-ready\r\n".encode()))
            if self.board is None:
                continue
            for delay_us, line in self.board.hear(passed.encode("latin-1") + b"%"):
                is_text = line.strip() and line != PULSE
                said.append((delay_us, b"[dut]: " + line if is_text else line))
                if line == PULSE and self.is_timing:
                    # The board's line before the pulse is still in transit, at 9600 baud.
                    own = f"m-lap-us-{self.board.time_us}\r\n".encode()
                    said.insert(-2 if b"m-infer-start" in said[-2][1] else len(said), (0, own))
        return said

    def _own(self, command: str) -> list[tuple[int, bytes]]:
        """Reply to a command of the interface board's own."""
        word, _, file = command.partition(" ")
        if word == "play" and file in self.sounds:
            count = self.sounds[file]
            if isinstance(self.board, StreamingDouble) and self.board.play(count):
                begin, period = len(self._edges) * 3200, max(3200, self.frame_ticks + 3)
                self._edges += [
                    (begin + one * period, begin + one * period + self.frame_ticks + one % 3)
                    for one in range(count)
                ]
            begins, ends = ("Attempting to play", "succeeded.\n") if self.is_today else (
                "Playing", ""
            )  # fmt: skip
            return [
                (0, f"{begins} {file}\n".encode()),
                (count * FRAME_NS // 1000, b""),
                (0, f"{ends}m-ready\r\n".encode()),
            ]
        lines = ""
        if word == "name":
            lines = f"{self.name_line}\r\n"
        elif word == "play" and self.is_today:
            lines = (
                f"Attempting to play {file}\n"
                "Error playing file. Check that the file exists and is a 2-channel wav file.\n"
            )
        elif word == "play":
            lines = f"Playing {file}\n"
        elif word == "record_detections":
            lines = "Now recording detections\r\n"
            self._edges.clear()
        elif word == "print_detections":
            lines = "Detection Timestamps (ms)\r\n12,\r\n1044,\r\n"
        elif word == "print_dutycycle" and self.has_timer:
            kept = self._edges[: self.edge_limit]
            begins, ends = (_by_eight([pair[number] for pair in kept]) for number in (0, 1))
            lines = f"Duty cycle start times (s)\r\n{begins}\r\nDuty cycle stop times (s)\r\n{ends}"
        text = f"{lines}m-ready\r\n".encode()
        return [(0, text[place : place + 1024]) for place in range(0, len(text), 1024)]


def _by_eight(times: list[int]) -> str:
    """Eight times in a line, as the interface board prints them: the last line may have no end."""
    return "".join(f"{at}, " + "\r\n" * (not number % 8) for number, at in enumerate(times, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFaults:
    """Faults of bytes, by their number since the line was opened."""

    lost_to_board: frozenset[int] = frozenset()
    lost_to_host: frozenset[int] = frozenset()
    changed_to_board: frozenset[int] = frozenset()
    restarts_at: frozenset[int] = frozenset()
    """Bytes to the board, before which it restarts."""
    gone_at: int | None = None
    """Byte to the board, at which it vanishes."""
    pieces: tuple[int, ...] = (64,)
    """Lengths of reads, in turn."""
    is_started_by_open: bool = True
    before: bytes = b""
    """Rest of something, which the host reads first."""


@dataclass(slots=True)
class VirtualLine:
    """Transport to a double, in virtual time."""

    board: BoardDouble | InterfaceDouble
    faults: LineFaults = field(default_factory=LineFaults)
    name: str = "/dev/ttyFAKE"
    baud_rate: int | None = 115_200
    answers_at: int | None = None
    """The only speed at which there is an answer; None: any."""
    is_emulated: bool = False
    sent: bytes = b""
    """What the host sent, whether it arrived or not."""
    is_closed: bool = False
    pulses_ns: list[int] = field(default_factory=list[int])
    """Times of the board's pulses, virtual clock."""
    time_ns: int = 10**9
    _to_host: deque[tuple[int, bytes]] = field(default_factory=deque[tuple[int, bytes]])
    _due_ns: int = 0
    _heard_count: int = 0
    _said_count: int = 0
    _read_count: int = 0

    def __post_init__(self) -> None:
        self._queue([(0, self.faults.before)])
        started = self.board.start()
        if self.faults.is_started_by_open:
            self._queue(started)

    def now_ns(self) -> int:
        """Virtual clock."""
        return self.time_ns

    def set_baud_rate(self, baud_rate: int) -> None:
        """Change the speed."""
        self.baud_rate = baud_rate

    def read(self, timeout_s: float) -> ReceivedBytes:
        """The bytes that are due, in pieces; else time passes."""
        self._check()
        end_ns = self.time_ns + round(timeout_s * 1e9)
        if not self._to_host or self._to_host[0][0] > end_ns:
            self.time_ns = end_ns
            return ReceivedBytes(b"", self.time_ns)
        self.time_ns = max(self.time_ns, self._to_host[0][0])
        length = max(1, self.faults.pieces[self._read_count % len(self.faults.pieces)])
        self._read_count += 1
        data = b""
        while self._to_host and self._to_host[0][0] <= self.time_ns and len(data) < length:
            due_ns, waiting = self._to_host.popleft()
            data, rest = data + waiting[: length - len(data)], waiting[length - len(data) :]
            if rest:
                self._to_host.appendleft((due_ns, rest))
        return ReceivedBytes(data, self.time_ns)

    def write(self, data: bytes) -> None:
        """Pass bytes to the board, one by one."""
        self._check()
        self.sent += data
        self.time_ns += round(len(data) * BYTE_S * 1e9)
        for byte in data:
            number, self._heard_count = self._heard_count, self._heard_count + 1
            if number == self.faults.gone_at:
                self.is_closed = True
                return
            if number in self.faults.restarts_at:
                self._to_host.clear()
                self._queue(self.board.start())
            if number in self.faults.lost_to_board:
                continue
            if number in self.faults.changed_to_board:
                byte ^= 0x01
            if self.answers_at in (None, self.baud_rate):
                self._queue(self.board.hear(bytes([byte])))

    def close(self) -> None:
        """No more bytes arrive."""
        self.is_closed = True

    def _check(self) -> None:
        if self.is_closed:
            raise BoardLost(f"the board at {self.name} was disconnected")

    def _queue(self, said: list[tuple[int, bytes]]) -> None:
        for delay_us, data in said:
            self._due_ns = max(self._due_ns, self.time_ns) + delay_us * 1000
            if data == PULSE:
                self.pulses_ns.append(self._due_ns)
                continue
            kept = bytearray()
            for byte in data:
                number, self._said_count = self._said_count, self._said_count + 1
                if number not in self.faults.lost_to_host:
                    kept.append(byte)
            if kept:
                self._due_ns += round(len(kept) * BYTE_S * 1e9)
                self._to_host.append((self._due_ns, bytes(kept)))
