"""Runs timed windows on the streaming wake-word firmware, which classifies audio.

Theory of operation. Between `start` and `stop`, the board classifies a frame of sound every 32 ms,
as long as it receives audio. The processing of a frame is an inference. The board makes a pulse at
the start and at the stop, and then prints the activation of every frame. The time between the
pulses is a window, as in energy mode. The number of inferences in a window cannot be requested,
because it results from the audio. Partial frames at either end, and time without audio, do not
count.

MLPerf Tiny's firmware does not measure times. An interface board in front of the board plays the
sound file, and measures the processing times. The board holds a pin high while it processes a
frame, so the edges of the pin give the times of single inferences, including the computation of
features. Edgebench's firmware records the same times in a ring buffer (`x-cycles`).

The output of `stop` cannot be requested again. The output counts as damaged if its list of
activations is missing, contains other lines, or contains values beyond int8. All lines of the list
must have the same length; only the last line may be shorter. After damage, the window is lost.

Source: mlcommons/tiny, benchmark/runner/script.py (_ScriptStreamStep: the order of the commands).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath

from edgebench.firmware_bridge.board import Board
from edgebench.firmware_bridge.dialects import events
from edgebench.firmware_bridge.dialects.streaming import interface_board
from edgebench.firmware_bridge.exchange import ATTEMPTS, BoardExchange, BoardReply
from edgebench.protocol.errors import (
    BoardRefusal,
    BoardSilent,
    LineDamaged,
    NoBoardProfiler,
    TargetError,
)
from edgebench.protocol.record import FirmwareFacts, TargetMemory, TensorSpec, Window
from edgebench.protocol.target import TargetProfile, TimedWindow
from edgebench.protocol.traces import CONSOLE_FILE

FRAME_NS = 32_000_000
"""Interval of the audio frames, which is 512 samples at 16 000 samples per second. Source:
sww_ref_util.h (SWW_WINSTRIDE_SAMPLES)."""
EDGE_RATE_HZ = 100_000.0
"""Rate of the counter by which the interface board records times of edges. Source:
DeviceUnderTest.cpp, "tim2 has 10us period"."""
MIN_LISTEN_S = 1.0
"""Minimum duration of a window in seconds; it is longer than the 30 frames that the model uses."""
PLAY_S = 3600.0
"""Maximum duration of a sound file in seconds; the real duration is known only after playing it.
The file of the benchmark takes 20 minutes."""
CLOCKS_RATIO = 0.02
"""Maximum relative difference between the interface board's clock and the host's clock. A sound
that is as long as the window may therefore end early by this fraction of its duration, and is then
not played again. An RC oscillator deviates by 1 % over temperature (STM32L4 data sheet, HSI16)."""
AFTER_SOUND_S = 0.25
"""Pause in seconds after a sound, in which the board processes the last frames. Without this pause,
the board would still be busy at the next command. Source: script.py."""
_COUNTER_WRAP = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameWindow:
    """Audio frames that a board processed between `start` and `stop`."""

    began_ns: int
    """Arrival time of the line before the window's first pulse, by the bridge's clock."""
    ended_ns: int
    """Arrival time of the line after the window's second pulse, by the bridge's clock."""
    activations: tuple[int, ...]
    """Activation of the wake word for each frame, -128 to 127."""
    processing_ticks: tuple[int, ...] = ()
    """Processing time of each frame, in ticks of the interface board's counter; empty if the times
    were not measured."""


class ListeningBoard:
    """A board with the streaming wake-word firmware; implements `OpenTarget`."""

    inputs: tuple[TensorSpec, ...] = ()
    outputs = (TensorSpec("activation", (1, 1), "int8"),)
    """The only output is the highest activation of the window."""
    precision: str | None = None
    is_read_back = False
    upload_s: float | None = None
    pace_ns: int | None = FRAME_NS
    is_stateful = False

    def __init__(self, board: Board, directory: Path, sound: str) -> None:
        """Stop the board, which may still be streaming for an earlier run.

        Args:
            board: A connected board.
            directory: Directory for the board's console log.
            sound: File that the interface board plays in each window; empty for no file.

        Raises:
            BoardRefusal: a sound is given, but there is no interface board to play it.
            TargetError: the board does not respond.
        """
        self._board = board
        self._directory = directory
        self._sound = sound
        self._activation = -128
        facts, self._exchange = board.facts, board.exchange
        self._dialect = self._exchange.dialect
        self._is_listening = False
        """Whether the board may be streaming, because `start` was sent and no `stop` was
        confirmed."""
        is_behind = self._exchange.interface_name is not None
        if sound and not is_behind:
            raise BoardRefusal(
                f"{facts.name} has no interface board, which is needed to play {sound}"
            )
        self.own_model: str | None = facts.model_name
        self._times_itself = not is_behind
        own_hz = facts.firmware.tick_hz if facts.firmware is not None else None
        rate_hz = EDGE_RATE_HZ if is_behind else own_hz
        self.memory = TargetMemory(flash_bytes=None, ram_bytes=None, arena_bytes=None)
        self.firmware = FirmwareFacts(
            name=facts.name,
            version=facts.profile or "unknown",
            tick_rate_hz=float(rate_hz) if rate_hz else None,
        )
        board.retrying(self._stop)

    def set_input(self, data: bytes) -> None:
        """Do nothing, because the input is audio."""
        assert not data

    @property
    def no_profiler(self) -> str:
        """Reason why the board cannot time operators."""
        return f"{self.firmware.name} has no operator profiler: its firmware is for streaming"

    def profile(self, run_count: int) -> TargetProfile:
        """Raise `NoBoardProfiler`, because streaming firmware runs on live audio."""
        raise NoBoardProfiler(self.no_profiler)

    def stack_peak_bytes(self) -> int | None:
        """None, because streaming firmware does not report its use of the stack."""
        return None

    def window(self, count: int, *, warmup_count: int) -> TimedWindow:
        """Process about `count` audio frames; if a sound is played, always play it to its end.

        Raises:
            BoardRefusal: the board received no audio.
            LineDamaged: the replies of all attempts were damaged.
            TargetError: the board does not respond.
        """
        assert not warmup_count, "warm-up frames would cause pulses outside the windows"
        damage = LineDamaged("no window")
        for attempt in range(1, ATTEMPTS + 1):
            self._is_listening = True
            try:
                frame_window = listen(self._exchange, count, self._sound)
            except (LineDamaged, BoardSilent) as exc:
                damage = LineDamaged(str(exc))
                self._exchange.resync()
                self._board.retrying(self._stop)
                continue
            except TargetError:
                self._leave()
                raise
            self._is_listening = False
            if not frame_window.activations:
                window_s = (frame_window.ended_ns - frame_window.began_ns) / 1e9
                raise BoardRefusal(
                    f"{self.firmware.name} received no frame of sound in {window_s:.1f} s: no "
                    "sound is played, or its I2S line is not connected"
                )
            self._activation = max(frame_window.activations)
            window = Window(
                begin_ns=frame_window.began_ns,
                end_ns=frame_window.ended_ns,
                count=len(frame_window.activations),
                ticks=None,
                tick_rate_hz=None,
            )
            ticks = frame_window.processing_ticks
            if self._times_itself:
                ticks = self._board.frame_ticks(len(frame_window.activations))
            return TimedWindow(window, ticks, is_repeated=attempt > 1)
        raise damage

    def _stop(self) -> None:
        """Send `stop`, which ends streaming; an idle board only replies, and makes no pulse."""
        _check_echo(self._exchange.request("stop"))
        self._is_listening = False

    def _leave(self) -> None:
        """Stop the board, which may still be streaming after an abandoned window."""
        if self._is_listening:
            with suppress(TargetError):  # the board is gone, or its next run stops it
                self._board.finish()
                self._exchange.dialect = self._dialect
                self._stop()

    def output_bytes(self) -> bytes:
        """Highest activation of the last window."""
        return struct.pack("b", self._activation)

    @property
    def busy_s(self) -> float:
        """Maximum time that `close` waits for the end of a sound that is played."""
        return self._board.busy_s

    def close(self) -> None:
        """Release the board, and write the log of its line to a file."""
        self._leave()
        self._board.close_keeping(self._directory / CONSOLE_FILE)


def listen(exchange: BoardExchange, count: int, sound: str) -> FrameWindow:
    """Make the board process about `count` frames of live audio, or of a file that is played.

    Args:
        exchange: Exchange with a board that is not streaming yet.
        count: Number of frames. A file is played again until this number is reached.
        sound: File on the memory card of the interface board; empty for no file.

    Raises:
        LineDamaged: a reply was damaged, or does not match its command.
        BoardRefusal: the board does not start streaming, or the file is not played.
        BoardSilent: a reply does not end.
    """
    started = exchange.request("start")
    _check_echo(started)
    begin = started.timed(events.ListeningBegin)
    if started.error is not None:
        raise BoardRefusal(f"the board does not start streaming: {started.error}")
    if begin is None:
        raise LineDamaged("the board does not confirm the start of streaming")
    is_behind = exchange.interface_name is not None
    listen_ns = max(count * FRAME_NS, round(MIN_LISTEN_S * 1e9))
    is_timed = False
    if is_behind:
        with _at_interface(exchange):
            is_timed = exchange.request("record_detections").timed(events.RecordBegin) is not None
            if sound:
                _play(exchange, sound, listen_ns)
    if not sound:
        _pause(exchange, listen_ns)
    stopped = exchange.request("stop")
    _check_echo(stopped)
    end = stopped.timed(events.ListeningEnd)
    if end is None:
        raise LineDamaged("the board does not confirm the end of streaming")
    activations = _activations(stopped)
    longest_ns = end.first_ns - started.issued_ns
    if len(activations) * FRAME_NS > (1 + CLOCKS_RATIO) * longest_ns + 2 * FRAME_NS:
        raise LineDamaged(
            f"received {len(activations)} activations, more than frames of {FRAME_NS / 1e6:g} ms "
            f"can cause in {longest_ns / 1e9:.2f} s"
        )
    ticks: tuple[int, ...] = ()
    if is_timed:
        with _at_interface(exchange):
            ticks = _processing_ticks(exchange, len(activations))
    return FrameWindow(
        began_ns=begin.first_ns,
        ended_ns=end.first_ns,
        activations=activations,
        processing_ticks=ticks,
    )


def _processing_ticks(exchange: BoardExchange, count: int) -> tuple[int, ...]:
    """Read the processing times of frames from the interface board; empty if this fails.

    An error here does not invalidate the window, which is complete and may have taken 20 minutes.
    """
    try:
        exchange.request("print_detections")  # for the console log
        reply = exchange.confirmed("print_dutycycle", events.ProcessingHead, events.NumberList)
    except (LineDamaged, BoardRefusal, BoardSilent):
        exchange.drain()
        return ()
    return processing_ticks([event.event for event in reply.events], count)


def processing_ticks(replied: Sequence[events.BoardEvent], count: int) -> tuple[int, ...]:
    """Compute processing times of frames from edges of a pin; empty if edges are inconsistent.

    The first pulse may come from the command `start` instead of a frame. An interface board stores
    the edges of only a limited number of frames. If a frame takes longer than `FRAME_NS`, the board
    is too slow for real time, and loses part of the sound.

    >>> head, end = events.ProcessingHead(is_end=False), events.ProcessingHead(is_end=True)
    >>> edges = [head, events.NumberList((7, 100, 3300)), end, events.NumberList((7, 350, 3555))]
    >>> processing_ticks(edges, 2)
    (250, 255)

    Args:
        replied: Events of the reply to `print_dutycycle`.
        count: Number of frames that the board counted.
    """
    edges: dict[bool, list[int]] = {False: [], True: []}
    is_end: bool | None = None
    for event in replied:
        if isinstance(event, events.ProcessingHead):
            is_end = event.is_end
        elif isinstance(event, events.NumberList) and is_end is not None:
            edges[is_end] += event.values
        elif not isinstance(event, events.NumberList):
            return ()
    if len(edges[False]) != len(edges[True]):
        return ()
    # high, low, high, …: edges in another order are a whole wrap apart
    order = [at for pair in zip(edges[False], edges[True], strict=True) for at in pair]
    steps = [(after - at) % _COUNTER_WRAP for at, after in pairwise(order)]
    if sum(steps) >= _COUNTER_WRAP:
        return ()
    ticks = steps[::2]
    if len(ticks) == count + 1:
        ticks = ticks[1:]
    return tuple(ticks) if len(ticks) <= count and all(ticks) else ()


def _check_echo(reply: BoardReply) -> None:
    """Check that the command echoed in a reply equals the command that was sent."""
    echo = reply.first(events.CommandEcho)
    if echo is None or echo.command != reply.command:
        raise LineDamaged(f"`{reply.command}` arrived as another command: {echo}")


def _activations(reply: BoardReply) -> tuple[int, ...]:
    """Activations of the frames, from the reply to `stop`.

    Raises:
        LineDamaged: the list of activations is missing or damaged.
    """
    behind = [timed.event for timed in reply.events]
    if events.ActivationsHead() not in behind:
        raise LineDamaged("the board does not report its activations")
    parts: list[tuple[int, ...]] = []
    for event in behind[behind.index(events.ActivationsHead()) + 1 :]:
        if not isinstance(event, events.NumberList):
            raise LineDamaged(f"a line with activations was damaged: {event}")
        if event.values:
            parts.append(event.values)
    whole = {len(part) for part in parts[:-1]}
    values = tuple(value for part in parts for value in part)
    is_whole = len(whole) <= 1 and all(len(parts[-1]) <= size for size in whole)
    if not is_whole or not all(-128 <= value <= 127 for value in values):
        raise LineDamaged(f"the list of {len(values)} activations was damaged")
    return values


@contextmanager
def _at_interface(exchange: BoardExchange) -> Iterator[None]:
    """Send the commands in a `with` block to the interface board, not to the board behind it.

    After an interrupt (Ctrl-C), the exchange keeps the dialect of the interface board, so that
    `close` can wait until the sound has ended.
    """
    behind = exchange.dialect
    exchange.dialect = interface_board()
    try:
        yield
    except Exception:
        exchange.dialect = behind
        raise
    exchange.dialect = behind


def _play(exchange: BoardExchange, sound: str, listen_ns: int) -> None:
    """Play a file repeatedly until the given time has passed.

    Raises:
        BoardRefusal: the interface board reports that it cannot play the file, or does not play it
            after two commands. The command is sent twice because the interface board does not echo
            commands, so the first may have been damaged.
        LineDamaged: after two commands, the interface board reports that it plays another file.
    """
    file_name = PurePosixPath(sound).name
    begin_ns = before_ns = exchange.transport.now_ns()
    while listen_ns - (before_ns - begin_ns) > CLOCKS_RATIO * listen_ns:
        command = f"play {sound}"
        played = exchange.request(command, silence_s=PLAY_S)
        if file_name not in _played_names(played):
            played = exchange.request(command, silence_s=PLAY_S)
        now_ns = exchange.transport.now_ns()
        end = played.first(events.SoundEnd)
        if end is not None and end.error is not None:
            raise BoardRefusal(f"the interface board does not play {sound}: {end.error}")
        names = _played_names(played)
        if not names or now_ns - before_ns < FRAME_NS:
            raise BoardRefusal(f"the interface board does not play {sound}, and states no reason")
        if file_name not in names:
            raise LineDamaged(f"the interface board plays {', '.join(names)} instead of {sound}")
        before_ns = now_ns
    _pause(exchange, round(AFTER_SOUND_S * 1e9))


def _played_names(reply: BoardReply) -> list[str]:
    """Names, without directories, of the sound files that were played according to a reply."""
    return [PurePosixPath(begin.file).name for begin in reply.of_kind(events.SoundBegin)]


def _pause(exchange: BoardExchange, pause_ns: int) -> None:
    end_ns = exchange.transport.now_ns() + pause_ns
    while (left_ns := end_ns - exchange.transport.now_ns()) > 0:
        exchange.read(left_ns / 1e9)
