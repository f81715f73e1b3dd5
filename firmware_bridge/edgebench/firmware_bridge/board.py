"""Identifies a board, loads models and inputs onto it, times inferences and reads the outputs.

Theory of operation. The line may lose bytes, and MLPerf Tiny's protocol has no checksum. So a
single reply is not trusted:

- A query is repeated until two consecutive replies are equal.
- An input is compared with the board's copy. The comparison uses the CRC-32 that the board
  computes, or all bytes that the board prints.
- A window (timed consecutive inferences) is not run again for confirmation. Instead, its reply must
  contain the requested number of inferences.

A board that restarts during a window loses its input and the window; the caller must handle this
error (`BoardRestarted`). If the board restarts during a load, the load is repeated, as after any
other error.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from edgebench.firmware_bridge.console import ConsoleLog
from edgebench.firmware_bridge.dialects import events
from edgebench.firmware_bridge.dialects.lines import LineDialect
from edgebench.firmware_bridge.dialects.streaming import STREAMING
from edgebench.firmware_bridge.exchange import (
    ATTEMPTS,
    UNANSWERED_LIMIT,
    BoardExchange,
    BoardReply,
    BoardTiming,
)
from edgebench.firmware_bridge.facts import (
    LAP_RATE_HZ,
    NO_MODEL,
    SATURATED_TICKS,
    BoardFacts,
    BoardProfile,
    BoardWindow,
    FirmwareInfo,
    InferenceTicks,
    ReadBack,
    TimestampKind,
    firmware_info,
    lap_ticks,
)
from edgebench.firmware_bridge.loading import BoardLoader
from edgebench.firmware_bridge.transports.base import BoardTransport
from edgebench.protocol.errors import (
    BoardLost,
    BoardRefusal,
    BoardRestarted,
    BoardSilent,
    EdgebenchError,
    LineDamaged,
    LocalProtocolError,
    UsageError,
)
from edgebench.protocol.target import OnBytes
from edgebench.protocol.text import one_line

logger = logging.getLogger(__name__)

T = TypeVar("T")
INFERENCE_S = 120.0
"""Maximum time without data from the board during inferences of unknown duration, in seconds.
MLPerf Tiny's runner allows 30 s, but slow boards need more for long windows."""


class Board:
    """A microcontroller board that is reached through a transport."""

    def __init__(self, transport: BoardTransport, *, timing: BoardTiming | None = None) -> None:
        self._exchange = BoardExchange(transport, timing=timing or BoardTiming())
        self._facts: BoardFacts | None = None
        self.on_bytes: OnBytes = lambda _done, _total: None
        """Called while data is sent, with the number of bytes sent so far and the total number."""
        self._loader = BoardLoader(self._exchange, lambda done, total: self.on_bytes(done, total))

    @property
    def facts(self) -> BoardFacts:
        """Identity of the board, and its deviations from MLPerf Tiny's protocol seen so far.

        Raises:
            LocalProtocolError: the board is not connected.
        """
        if self._facts is None:
            raise LocalProtocolError("the board is not connected")
        seen = sorted(self._exchange.dialect.quirks, key=lambda quirk: quirk.value)
        return replace(self._facts, quirks=tuple(seen))

    @property
    def exchange(self) -> BoardExchange:
        """The exchange of commands and replies; callers use it directly for streaming firmware."""
        return self._exchange

    @property
    def console(self) -> ConsoleLog:
        """Log of all bytes sent and received on the line."""
        return self._exchange.console

    def connect(self, baud_rates: Sequence[int] = ()) -> BoardFacts:
        """Synchronise the line, and identify the board.

        Args:
            baud_rates: Speeds to try, in this order; if empty, only the transport's present speed
                is tried.

        Raises:
            BoardSilent: the board does not respond at any speed.
            LineDamaged: no two consecutive replies to a repeated query are equal.
            BoardLost: the board was disconnected.
        """
        transport = self._exchange.transport
        speeds = list(baud_rates) if transport.baud_rate is not None else []
        self._exchange.read_start_messages()
        is_first = True
        while True:
            if speeds and speeds[0] != transport.baud_rate:
                transport.set_baud_rate(speeds[0])
                self._exchange.dialect.quirks.clear()  # caused by noise at another speed
            try:
                self._exchange.resync(is_first=is_first)
                break
            except BoardSilent:
                if len(speeds) < 2:
                    raise
                speeds.pop(0)
                is_first = False
        self._facts = self.retrying(self._read_facts)
        return self.facts

    def resync(self) -> None:
        """Synchronise the line after an error.

        Raises:
            BoardSilent: the board does not reply to `name`.
            BoardLost: the board was disconnected.
        """
        self._exchange.resync()

    def load_input(self, data: bytes, *, read_back: bool = True) -> ReadBack:
        """Send the bytes of an input to the board.

        Args:
            data: Bytes in the encoding that the firmware expects.
            read_back: Whether a board that computes no CRC must print all bytes, for comparison.

        Raises:
            UsageError: the data is empty, or its size differs from that of the model's input.
            BoardRefusal: the board has no space for an input of this size.
            LineDamaged: the bytes do not arrive as sent.
            BoardSilent: the board does not respond.
            BoardLost: the board was disconnected.
        """
        expected = self.facts.firmware.input_bytes if self.facts.firmware else None
        if not data or expected not in (None, len(data)):
            raise UsageError(
                f"an input of {self.facts.model_name or 'this model'} must have "
                f"{'at least 1 byte' if expected is None else f'{expected} bytes'}, got {len(data)}"
            )
        firmware = self.facts.firmware
        return self.retrying(lambda: self._loader.load_input(data, firmware, read_back=read_back))

    def load_model(self, blob: bytes) -> BoardFacts:
        """Send a model to the board in frames, and return the board's facts after the load.

        If the same model is linked into the firmware, nothing is sent.

        Raises:
            UsageError: the board accepts no models, or has no space for a model of this size.
            BoardRefusal: the board rejects the model, or its firmware has another model linked in.
            LineDamaged: the model does not arrive as sent.
        """
        info = self.facts.firmware
        if info and info.model_place == "firmware":
            if (info.model_bytes, info.model_crc) != (len(blob), zlib.crc32(blob)):
                raise BoardRefusal(
                    f"{self.facts.name} accepts only the model {info.model}, which is linked into "
                    "its firmware"
                )
            return self.facts
        room = info.model_max if info else None
        if not self._loader.has_frames(info) or room is None:
            raise UsageError(f"{self.facts.name} accepts no uploaded model")
        if len(blob) > room:
            raise UsageError(
                f"model of {len(blob)} bytes does not fit, {self.facts.name} has room for {room}"
            )

        def once() -> BoardFacts:
            self._loader.load_model(blob)
            return self._read_facts()

        self._facts = self.retrying(once)
        return self.facts

    def window(
        self, count: int, *, warmup_count: int = 0, silence_s: float = INFERENCE_S
    ) -> BoardWindow:
        """Run consecutive inferences, timed by the board.

        Args:
            count: Number of inferences of the window, >= 1.
            warmup_count: Number of untimed inferences before the window.
            silence_s: Maximum time without data. The board sends no data during a window, so the
                window must be shorter.

        Raises:
            UsageError: the firmware does not run inferences on demand.
            BoardRefusal: the board rejects the command, its input has an unexpected size, or an
                inference fails.
            BoardFault: the board reports a fault of its processor.
            BoardRestarted: the board restarted, so its input is lost.
            BoardSilent: the board does not respond any more.
            LineDamaged: the replies to all attempts are damaged, or belong to another command.
        """
        if count < 1 or warmup_count < 0:
            raise UsageError(
                f"a window needs at least 1 inference and at least 0 warm-up inferences, got "
                f"{count} and {warmup_count}"
            )
        if self.facts.timestamps is None:
            raise UsageError(
                f"{self.facts.name} cannot run single inferences: its firmware is for streaming"
            )
        errors: list[str | None] = []
        damage = LineDamaged("no window")
        for attempt in range(1, ATTEMPTS + 1):
            reply = self._exchange.attempt(f"infer {count} {warmup_count}", silence_s=silence_s)
            if reply.is_restart:
                with suppress(BoardSilent):
                    self._exchange.resync()
                raise BoardRestarted(
                    f"the board restarted during `{reply.command}`; input and window are lost"
                )
            if reply.error is not None and reply.error in errors and not reply.is_garbled:
                raise BoardRefusal(f"the board rejects `{reply.command}`: {reply.error}")
            errors.append(reply.error)
            try:
                window = self._window_of(reply, count, warmup_count)
            except LineDamaged as exc:
                damage = exc
                self._exchange.resync()
                continue
            if not reply.is_complete:  # only the last line was lost
                self._exchange.resync()
            inferences = self._inference_ticks(count)
            return replace(window, inferences=inferences, attempt_count=attempt)
        raise damage

    def profile(self, count: int, *, silence_s: float = INFERENCE_S) -> BoardProfile:
        """Run inferences in which the board reads its counter after every operator.

        Args:
            count: Number of inferences, >= 1.
            silence_s: Maximum time without data; the board sends no data before the last inference
                has ended.

        Raises:
            UsageError: the firmware cannot time operators.
            BoardRefusal: the board rejects the command, has lost its input, or has a counter with
                too few bits for `count` inferences.
            LineDamaged: no two consecutive replies to a repeated query are equal.
        """
        if not self.has_profiler:
            raise UsageError(f"the firmware of {self.facts.name} cannot time operators")

        def once() -> BoardProfile:
            reply = self._exchange.request(f"x-profile {count}", silence_s=silence_s)
            if mismatch := reply.first(events.InputMismatch):
                raise BoardRefusal(f"the board has lost its input: {mismatch.text}")
            if reply.error is not None and not reply.is_garbled:
                raise BoardRefusal(f"the board rejects `{reply.command}`: {reply.error}")
            return self._read_profile(count)

        return self.retrying(once)

    @property
    def has_profiler(self) -> bool:
        """Whether the firmware can time single operators."""
        info = self.facts.firmware
        return info is not None and info.operators is not None

    def stack_peak(self) -> int | None:
        """Peak use of the stack in bytes since the model was loaded; None if it is not reported.

        Raises:
            LineDamaged: no two consecutive replies to a repeated query are equal.
            BoardSilent: the board does not respond.
        """
        if self.facts.firmware is None or self.facts.firmware.stack_peak is None:
            return None
        info = self.retrying(self._read_info)
        return None if info is None else info.stack_peak

    def outputs(self) -> tuple[float, ...]:
        """Outputs of the last inference, which the board prints as numbers with three decimals.

        Raises:
            BoardRefusal: there are no outputs.
            LineDamaged: no two consecutive replies to a repeated query are equal.
        """
        reply = self.retrying(lambda: self._exchange.confirmed("results", events.ModelOutputs))
        outputs = reply.first(events.ModelOutputs)
        if outputs is None:
            raise BoardRefusal("the board has no results")
        return outputs.values

    def output_bytes(self) -> bytes:
        """Bytes of the output tensors of the last inference; only edgebench's firmware prints them.

        Raises:
            UsageError: the firmware is not edgebench's.
            BoardRefusal: there are no outputs.
        """
        if self.facts.firmware is None:
            raise UsageError(f"{self.facts.name} prints its outputs as decimals only")
        expected = self.facts.firmware.output_bytes

        def once() -> bytes:
            reply = self._exchange.confirmed("x-out", events.OutputBytes)
            data = b"".join(part.data for part in reply.of_kind(events.OutputBytes))
            if expected not in (None, len(data)):
                raise LineDamaged(f"received {len(data)} bytes of outputs, expected {expected}")
            return data

        return self.retrying(once)

    def retrying(self, attempt: Callable[[], T]) -> T:
        """Run an operation, and run it again after an error of the line; return the result.

        Raises:
            BoardSilent: the board does not even reply to `name`.
        """
        for _ in range(ATTEMPTS - 1):
            try:
                return attempt()
            except (BoardSilent, BoardRestarted, LineDamaged):
                self._exchange.resync()
        return attempt()

    @property
    def busy_s(self) -> float:
        """Maximum time that `close` waits for a window to end.

        The time is 0 for an emulated board, because only such a board can cancel a window.
        """
        return 0.0 if self._exchange.transport.is_emulated else self._exchange.busy_s

    def finish(self) -> None:
        """Wait for the end of a window that the bridge has abandoned.

        Raises:
            BoardLost: the board was disconnected.
        """
        if self.busy_s and not self._exchange.finish():
            logger.warning("%s is still busy", self._exchange.transport.name)

    def close(self) -> None:
        """Wait for the end of an interrupted window, and release the board; may be called twice."""
        try:
            with suppress(BoardLost):
                self.finish()
        finally:
            self._exchange.transport.close()

    def close_keeping(self, path: Path) -> None:
        """Release the board, and write the log of its line to a file."""
        try:
            self.close()
        finally:
            with suppress(OSError, EdgebenchError):
                self.console.write(path)

    def _read_facts(self) -> BoardFacts:
        exchange = self._exchange
        name = exchange.confirmed("name", events.BoardName).first(events.BoardName)
        if name is None:
            raise LineDamaged("the board reported no name, or two names")
        version: events.FirmwareProfile | None = None
        model: events.ModelName | None = None
        profile = self._if_known("profile", events.FirmwareProfile, events.ModelName)
        if profile is not None:
            version, model = profile.first(events.FirmwareProfile), profile.first(events.ModelName)
        info = self._read_info()
        if info and info.line_max and isinstance(exchange.dialect, LineDialect):
            exchange.dialect.widen(info.line_max)
        return BoardFacts(
            name=name.name,
            dialect=exchange.dialect.name,
            profile=version.text if version else None,
            model_name=model.name if model and model.name not in (NO_MODEL, "") else None,
            timestamps=self._timestamps(info),
            firmware=info,
            baud_rate=exchange.transport.baud_rate,
            is_emulated=exchange.transport.is_emulated,
        )

    def _read_info(self) -> FirmwareInfo | None:
        reply = self._if_known("x-info", events.InfoItem)
        if reply is None:
            return None
        return firmware_info({one.key: one.value for one in reply.of_kind(events.InfoItem)})

    def _if_known(self, command: str, *kinds: type[object]) -> BoardReply | None:
        """Reply to a query; None if the firmware rejects the query, or does not reply to it."""
        for _ in range(UNANSWERED_LIMIT):
            try:
                return self._exchange.confirmed(command, *kinds)
            except BoardRefusal:
                return None
            except BoardSilent:
                self._exchange.resync()
        return None

    def _timestamps(self, info: FirmwareInfo | None) -> TimestampKind | None:
        """Find the kind of timestamps from the board's reports, or by requesting a timestamp.

        A timestamp is requested only as the last resort, because a board in energy mode then makes
        a pulse on its pin.
        """
        exchange = self._exchange
        if exchange.dialect.name.endswith(STREAMING):
            return None
        modes = [
            boot_event
            for boot_event in exchange.boot_events
            if isinstance(boot_event, events.TimestampMode)
        ]
        if info is not None and info.mode in ("energy", "performance"):
            is_energy = info.mode == "energy"
        elif modes:
            is_energy = modes[-1].is_energy
        else:
            is_energy = not any(self._reports_laps() for _ in range(2))
        return TimestampKind.PULSE if is_energy else TimestampKind.LAP

    def _reports_laps(self) -> bool:
        try:
            return bool(self._exchange.request("timestamp").of_kind(events.LapTime))
        except BoardSilent:  # some firmware has no such command, and no reply to it
            self._exchange.resync()
            return False

    def _window_of(self, reply: BoardReply, count: int, warmup_count: int) -> BoardWindow:
        """Make a window from the reply to `infer`.

        Raises:
            BoardRefusal: the input was wrong, or an inference failed.
            LineDamaged: the reply does not match the command.
        """
        warmup, began = reply.first(events.WarmupBegin), reply.first(events.InferenceBegin)
        if mismatch := reply.first(events.InputMismatch):
            raise BoardRefusal(f"the board expects another input: {mismatch.text}")
        if failure := reply.first(events.FailureText):
            text = one_line(failure.text, 80)
            what = f"an inference of `{reply.command}` failed"
            raise BoardRefusal(f"{what}, the board reports: {text}")
        complaint = reply.first(events.ComplaintText)
        if complaint and reply.is_complete and not reply.of_kind(events.ModelOutputs):
            text = one_line(complaint.text, 80)
            raise BoardRefusal(f"`{reply.command}` has no result; the board printed: {text}")
        if reply.error is not None:
            raise LineDamaged(f"`{reply.command}` failed: {reply.error}")
        is_as_requested = (began is None or began.count == count) and (
            warmup is None or warmup.count == warmup_count
        )
        if not is_as_requested:
            raise LineDamaged(f"`{reply.command}` arrived as another command: {warmup}, {began}")
        if not reply.is_complete and not reply.of_kind(events.InferenceEnd):
            # The command was lost, or the board hangs: its reply to `name` will show which.
            raise LineDamaged(f"`{reply.command}` does not end: the board stopped replying")
        if began is None:
            raise LineDamaged(f"the board does not confirm `{reply.command}`")
        first, last = self._ends(reply)
        outputs = reply.of_kind(events.ModelOutputs)
        window = BoardWindow(
            count=count,
            warmup_count=warmup_count,
            issued_ns=reply.issued_ns,
            began_ns=first.first_ns,
            ended_ns=last.first_ns,
            # From the second inference on, other firmware may run on an input that it overwrote.
            outputs=outputs[-1].values if outputs and count + warmup_count == 1 else None,
        )
        if not isinstance(first.event, events.LapTime) or not isinstance(
            last.event, events.LapTime
        ):
            return window
        laps = first.event.time_us, last.event.time_us
        is_real = not self.facts.is_emulated
        passed_ns = window.ended_ns - window.began_ns if is_real else None
        return replace(
            window, laps=laps, ticks=lap_ticks(*laps, passed_ns), tick_rate_hz=LAP_RATE_HZ
        )

    def _ends(self, reply: BoardReply) -> tuple[events.TimedEvent, events.TimedEvent]:
        """Find a window's first and last lap or, in energy mode, the lines next to its two pulses.

        Raises:
            LineDamaged: the first or the last line is missing.
        """
        marks = events.InferenceBegin | events.InferenceEnd
        texts = events.OtherText | events.ComplaintText
        laps: list[events.TimedEvent] = []
        around: list[events.TimedEvent] = []
        for timed in reply.events:
            if isinstance(timed.event, marks):
                around.append(timed)
            elif isinstance(timed.event, events.LapTime) and len(around) == 1:
                laps.append(timed)
            elif isinstance(timed.event, texts) and len(around) == 1:
                self._exchange.dialect.quirks.add(events.Quirk.TEXT_IN_WINDOW)
        if len(laps) >= 2:
            return laps[0], laps[-1]
        if self.facts.timestamps is TimestampKind.PULSE and not laps and len(around) == 2:
            return around[0], around[1]
        raise LineDamaged(f"`{reply.command}` ran, but the start or end of its window is missing")

    def _inference_ticks(self, count: int) -> InferenceTicks | None:
        """Times of the single inferences in a window, if the firmware records them.

        The times are not read in energy mode. In this mode the line is slow, and the edges that a
        meter records give the time of the window.
        """
        info = self.facts.firmware
        is_timed = self.facts.timestamps is TimestampKind.LAP
        if info is None or not info.cycles_max or not is_timed:
            return None
        return self.retrying(lambda: self._read_ticks(count))

    def frame_ticks(self, count: int) -> tuple[int, ...]:
        """Processing times of the last audio frames, in ticks of the streaming firmware's counter.

        Args:
            count: Number of audio frames that the firmware has processed.

        Returns:
            The recorded times; empty if the firmware records none, or if a time exceeded the
            counter's range.
        """
        info = self.facts.firmware
        if info is None or not info.cycles_max or not info.tick_hz:
            return ()
        ticks = self.retrying(lambda: self._read_ticks(count)).ticks
        whole = tuple(tick for tick in ticks if tick is not None)
        return whole if len(whole) == len(ticks) else ()

    def _read_profile(self, count: int) -> BoardProfile:
        reply = self._exchange.confirmed("x-profile", events.OperatorsHead, events.OperatorTicks)
        head, operators = reply.first(events.OperatorsHead), reply.of_kind(events.OperatorTicks)
        if head is None or (head.run_count, head.operator_count) != (count, len(operators)):
            raise LineDamaged(
                f"received {len(operators)} operator times for {count} inferences: {head}"
            )
        if SATURATED_TICKS in (head.overhead_ticks, *(operator.ticks for operator in operators)):
            raise BoardRefusal(
                f"a time in the profile of {count} inferences exceeds the range of the board's "
                f"counter, {SATURATED_TICKS} ticks at {head.tick_rate_hz} Hz"
            )
        return BoardProfile(
            tick_rate_hz=head.tick_rate_hz,
            run_count=count,
            operators=tuple(operators),
            reading_ticks=head.overhead_ticks / max(1, count * len(operators)),
        )

    def _read_ticks(self, count: int) -> InferenceTicks:
        reply = self._exchange.confirmed("x-cycles", events.CyclesHead, events.CyclesPart)
        head = reply.first(events.CyclesHead)
        ticks = [tick for part in reply.of_kind(events.CyclesPart) for tick in part.ticks]
        if head is None or head.total_count != count or head.kept_count != len(ticks):
            raise LineDamaged(f"received {len(ticks)} tick counts for {count} inferences: {head}")
        return InferenceTicks(
            tick_rate_hz=head.tick_rate_hz,
            total_count=head.total_count,
            ticks=tuple(None if tick == SATURATED_TICKS else tick for tick in ticks),
        )
