"""Facts that a board reports about itself, and the windows and profiles that it has timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from edgebench.firmware_bridge.dialects.events import OperatorTicks, Quirk
from edgebench.protocol.plain import from_plain

NO_MODEL = "none"
"""Model id that edgebench's firmware reports if it has no model."""
LAP_RATE_HZ = 1_000_000
"""Rate of the laps of MLPerf Tiny, which are in microseconds."""
LAP_WRAP = 1 << 32
"""Laps of a microcontroller are 32 bits wide: they wrap after 71.6 minutes."""
SATURATED_TICKS = 0xFFFF_FFFF
"""Value, in replies to `x-cycles` and `x-profile`, of a time that exceeded the counter's range."""


class TimestampKind(Enum):
    """Form of a board's timestamps."""

    LAP = "lap"
    """Performance mode: the board prints the time."""
    PULSE = "pulse"
    """Energy mode: the board pulls a pin low, and prints nothing."""


class ReadBack(Enum):
    """Method by which an input on the board was compared with the sent input."""

    CRC = "crc"
    """By the CRC-32 that the board computes."""
    PRINTED = "printed"
    """By all bytes of the input, which the board prints."""
    NONE = "none"
    """Not compared: it was not requested, or the firmware does not support it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareInfo:
    """Facts that edgebench's firmware reports in its reply to `x-info`; None: not reported."""

    protocol: int
    board: str
    cpu: str | None = None
    kernels: str | None = None
    port: str | None = None
    """`untested` for a port that has never run on hardware."""
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
    """Number of operators of an inference; None also for firmware that cannot time operators."""
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
    """Facts from the lines of the reply to `x-info`; None: the firmware is not edgebench's.

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
    """Version that the firmware reports in its reply to `profile`; None: it rejects the command."""
    model_name: str | None = None
    """Name that the board reports for its model; None: it has no model, or reports no name. This is
    all that is known of a model in firmware other than edgebench's: there is no file to hash."""
    timestamps: TimestampKind | None = None
    """Kind of timestamps; None: the firmware is for streaming, and has no `infer`."""
    firmware: FirmwareInfo | None = None
    """Facts that edgebench's firmware reports; None: the firmware is not edgebench's."""
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
    """Times of the last inferences, oldest first; None: a time exceeded the counter's range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardProfile:
    """Ticks of every operator over some inferences, by the board's counter."""

    tick_rate_hz: int
    run_count: int
    operators: tuple[OperatorTicks, ...]
    """Operators in order of execution; the ticks include a reading of the counter per inference."""
    reading_ticks: float
    """Ticks that a single reading of the counter takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardWindow:
    """Consecutive inferences of a board.

    By the bridge's clock, only bounds are known, because bytes arrive late: the first inference
    began after `issued_ns` and before `began_ns`, and the last inference ended before `ended_ns`.
    The board measures the duration as the difference of two laps. Only `inferences` has the times
    of single inferences; the duration of a window does not show how much these times vary.
    """

    count: int
    warmup_count: int
    issued_ns: int
    """Time when the command was sent, bridge clock; the warm-up also begins after this time."""
    began_ns: int
    """Arrival of the line at the window's start: the first lap, or the line before the pulse."""
    ended_ns: int
    """Arrival of the line at the window's end: the second lap, or the line after the pulse."""
    laps: tuple[int, int] | None = None
    """First and second lap as the board printed them; None: the timestamps are pulses."""
    ticks: int | None = None
    """Duration in ticks of the board's clock, corrected for wraps of its counter."""
    tick_rate_hz: int | None = None
    outputs: tuple[float, ...] | None = None
    """Outputs of a single inference, as decimals; None: the line was damaged, or there were several
    inferences. The reference submissions overwrite their input during the first inference, so only
    the first runs on the sent input."""
    inferences: InferenceTicks | None = None
    """Times of single inferences, from firmware that records them."""
    attempt_count: int = 1
    """Number of attempts; an earlier attempt may have run on the board, and have caused pulses."""

    @property
    def duration_ns(self) -> float | None:
        """Duration in nanoseconds by the board's clock; None: the timestamps are pulses."""
        if self.ticks is None or not self.tick_rate_hz:
            return None
        return self.ticks * 1e9 / self.tick_rate_hz

    @property
    def clock_ratio(self) -> float | None:
        """Duration by the board's clock divided by the duration by the bridge's clock.

        If the ratio is far from 1, either duration is wrong: a digit was lost on the line, the
        board's counter has another unit, or its time is emulated.
        """
        passed_ns = self.ended_ns - self.began_ns
        if self.duration_ns is None or passed_ns <= 0:
            return None
        return self.duration_ns / passed_ns


def lap_ticks(first: int, last: int, passed_ns: int | None) -> int:
    """Microseconds between two laps; the counter may have wrapped between them.

    >>> lap_ticks(1_000, 5_000, None), lap_ticks(4_294_967_000, 704, None)
    (4000, 1000)
    >>> lap_ticks(2_147_483_000, -2_147_483_296, None)  # of a counter that is printed with a sign
    1000
    >>> lap_ticks(0, 400_000, 4_295_400_000_000)  # one more turn, by the bridge's clock
    4295367296

    Args:
        first: First lap.
        last: Second lap.
        passed_ns: Time between the laps by the bridge's clock; None: the board's time is emulated.
    """
    if max(first, last) >= LAP_WRAP and last >= first:
        return last - first  # wider than 32 bits: it does not wrap
    ticks = (last - first) % LAP_WRAP
    if passed_ns is None:
        return ticks
    return ticks + max(0, round((passed_ns / 1e3 - ticks) / LAP_WRAP)) * LAP_WRAP
