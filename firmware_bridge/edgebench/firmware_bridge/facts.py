"""Types for a board's facts about itself, and for the windows and profiles that it has timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from edgebench.firmware_bridge.dialects.events import OperatorTicks, Quirk
from edgebench.protocol.plain import from_plain

NO_MODEL = "none"
"""Model id that edgebench's firmware reports if it has no model."""
LAP_RATE_HZ = 1_000_000
"""Rate of the clock of MLPerf Tiny's laps (printed times), which count microseconds."""
LAP_WRAP = 1 << 32
"""Laps of a microcontroller are 32 bits wide, so they wrap after 71.6 minutes."""
SATURATED_TICKS = 0xFFFF_FFFF
"""Value in replies to `x-cycles` and `x-profile` for a time that exceeded the counter's range."""


class TimestampKind(Enum):
    """Form of a board's timestamps."""

    LAP = "lap"
    """The board prints the time, as in MLPerf Tiny's performance mode."""
    PULSE = "pulse"
    """The board pulls a pin low and prints nothing, as in MLPerf Tiny's energy mode."""


class ReadBack(Enum):
    """Method by which an input on the board was compared with the sent input."""

    CRC = "crc"
    """The input was compared by the CRC-32 that the board computes."""
    PRINTED = "printed"
    """The input was compared by all of its bytes, which the board prints."""
    NONE = "none"
    """The input was not compared, because this was not requested or the firmware lacks the
    command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareInfo:
    """Facts that edgebench's firmware reports in its reply to `x-info`; None if not reported."""

    protocol: int
    board: str
    cpu: str | None = None
    kernels: str | None = None
    port: str | None = None
    """`untested` if the firmware's port to this board has never run on hardware."""
    mode: str | None = None
    tick_hz: int | None = None
    tick_source: str | None = None
    line_max: int | None = None
    input_max: int | None = None
    frame_max: int | None = None
    frame_window: int | None = None
    cycles_max: int | None = None
    model_address: int | None = None
    model_place: str | None = None
    """`memory` if a model can be loaded, or `firmware` if it is linked into the firmware."""
    model_max: int | None = None
    ram_max: int | None = None
    code_bytes: int | None = None
    data_bytes: int | None = None
    stack_max: int | None = None
    stack_peak: int | None = None
    model_state: str | None = None
    model: str | None = None
    model_bytes: int | None = None
    model_crc: int | None = None
    arena_bytes: int | None = None
    input_bytes: int | None = None
    input_encoding: str | None = None
    output_bytes: int | None = None
    operators: int | None = None
    """Number of operators of an inference; None if the firmware cannot time operators."""
    rounding: str | None = None


_TEXTS = (
    *("cpu", "kernels", "port", "mode", "tick_source", "model_state", "model", "input_encoding"),
    *("model_place", "rounding"),
)
_COUNTS = (
    *("tick_hz", "line_max", "input_max", "frame_max", "frame_window", "cycles_max", "model_max"),
    *("ram_max", "model_bytes", "arena_bytes", "input_bytes", "output_bytes", "operators"),
    *("code_bytes", "data_bytes", "stack_max", "stack_peak"),
)


def firmware_info(items: Mapping[str, str]) -> FirmwareInfo | None:
    """Parse the lines of the reply to `x-info`; return None if the firmware is not edgebench's.

    An invalid number counts as not reported, because it was damaged in transmission; unknown keys
    are ignored.
    """
    if items.get("firmware") != "edgebench":
        return None

    def number(key: str, base: int = 10) -> int | None:
        try:
            return int(items[key], base)
        except (KeyError, ValueError):
            return None

    values: dict[str, str | int | None] = {
        "protocol": number("protocol") or 0,
        "board": items.get("board", ""),
        "model_address": number("model_address", 16),
        "model_crc": number("model_crc", 16),
    }
    values |= {key: items.get(key) for key in _TEXTS}
    values |= {key: number(key) for key in _COUNTS}
    return from_plain(values, FirmwareInfo)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardFacts:
    """Identity of a board and its firmware."""

    name: str
    dialect: str
    profile: str | None = None
    """Version that the firmware reports in its reply to `profile`; None if it rejects the
    command."""
    model_name: str | None = None
    """Name that the board reports for its model; None if it has no model, or reports no name. In
    firmware that is not edgebench's, nothing else is known of a model, because there is no file to
    hash."""
    timestamps: TimestampKind | None = None
    """Form of the timestamps; None for streaming firmware, which has no command `infer`."""
    firmware: FirmwareInfo | None = None
    """Facts that edgebench's firmware reports; None for any other firmware."""
    quirks: tuple[Quirk, ...] = ()
    baud_rate: int | None = None
    is_emulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceTicks:
    """Times of single inferences of the last window, by the board's counter."""

    tick_rate_hz: int
    total_count: int
    """Number of inferences of the window."""
    ticks: tuple[int | None, ...]
    """Times of the last inferences, oldest first; None for a time above the counter's range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardProfile:
    """Ticks of every operator over some inferences, by the board's counter."""

    tick_rate_hz: int
    run_count: int
    operators: tuple[OperatorTicks, ...]
    """Operators in order of execution; the ticks include one counter reading per inference."""
    reading_ticks: float
    """Ticks that a single reading of the counter takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardWindow:
    """A window, which is a sequence of consecutive inferences on a board, and its times.

    By the bridge's clock, only bounds are known, because bytes arrive late. The first inference
    began after `issued_ns` and before `began_ns`, and the last inference ended before `ended_ns`.
    The board measures the duration as the difference of two laps. Only `inferences` has the times
    of single inferences; the duration of a window does not show how much these times vary.
    """

    count: int
    warmup_count: int
    issued_ns: int
    """Time when the command was sent, bridge clock; the warm-up also begins after this time."""
    began_ns: int
    """Arrival time of the first lap or, in energy mode, of the line before the first pulse."""
    ended_ns: int
    """Arrival time of the second lap or, in energy mode, of the line after the second pulse."""
    laps: tuple[int, int] | None = None
    """First and second lap as the board printed them; None if the timestamps are pulses."""
    ticks: int | None = None
    """Duration in ticks of the board's clock, corrected for wraps of its counter."""
    tick_rate_hz: int | None = None
    outputs: tuple[float, ...] | None = None
    """Outputs of a window's only inference, as decimals. None if the line was damaged, or if there
    were several inferences. MLPerf Tiny's reference submissions overwrite their input during the
    first inference, so later inferences do not run on the sent input."""
    inferences: InferenceTicks | None = None
    """Times of single inferences, from firmware that records them."""
    attempt_count: int = 1
    """Number of attempts. Failed attempts may have run on the board, and caused pulses."""

    @property
    def duration_ns(self) -> float | None:
        """Duration in nanoseconds by the board's clock; None if the timestamps are pulses."""
        if self.ticks is None or not self.tick_rate_hz:
            return None
        return self.ticks * 1e9 / self.tick_rate_hz

    @property
    def clock_ratio(self) -> float | None:
        """Duration by the board's clock divided by the duration by the bridge's clock.

        If the ratio is far from 1, one of the two durations is wrong. For example, a digit was lost
        on the line, the board's counter has an unexpected unit, or the board's time is emulated.
        """
        passed_ns = self.ended_ns - self.began_ns
        if self.duration_ns is None or passed_ns <= 0:
            return None
        return self.duration_ns / passed_ns


def lap_ticks(first: int, last: int, passed_ns: int | None) -> int:
    """Microseconds between two laps (printed times); the counter may wrap between the laps.

    >>> lap_ticks(1_000, 5_000, None), lap_ticks(4_294_967_000, 704, None)
    (4000, 1000)
    >>> lap_ticks(2_147_483_000, -2_147_483_296, None)  # of a counter that is printed with a sign
    1000
    >>> lap_ticks(0, 400_000, 4_295_400_000_000)  # one more turn, by the bridge's clock
    4295367296

    Args:
        first: First lap.
        last: Second lap.
        passed_ns: Time between the laps by the bridge's clock; None if the board's time is
            emulated.
    """
    if max(first, last) >= LAP_WRAP and last >= first:
        return last - first  # wider than 32 bits: it does not wrap
    ticks = (last - first) % LAP_WRAP
    if passed_ns is None:
        return ticks
    return ticks + max(0, round((passed_ns / 1e3 - ticks) / LAP_WRAP)) * LAP_WRAP
