"""Facts that a board reports about itself and the windows that it timed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from edgebench.firmware_bridge.dialects.events import Quirk
from edgebench.protocol.plain import from_plain

NO_MODEL = "none"
"""Model id of our firmware when it has no model."""
LAP_RATE_HZ = 1_000_000
"""MLPerf Tiny's laps are microseconds."""
LAP_WRAP = 1 << 32
"""Laps of a microcontroller are 32 bits wide: they begin anew after 71.6 minutes."""
SATURATED_TICKS = 0xFFFF_FFFF
"""Stands for an inference that was longer than the counter, in the reply to `x-cycles`."""


class TimestampKind(Enum):
    """What a board does where it takes a timestamp."""

    LAP = "lap"
    """Performance mode: it prints the time."""
    PULSE = "pulse"
    """Energy mode: it pulls a pin low, and prints nothing."""


class ReadBack(Enum):
    """How an input on the board was compared with the one that was sent."""

    CRC = "crc"
    """By the board's own CRC-32 of it."""
    PRINTED = "printed"
    """By printing all of it."""
    NONE = "none"
    """Not at all: it was not asked for, or the firmware cannot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareInfo:
    """Facts of our own firmware, by `x-info`; None: it does not say."""

    protocol: int
    board: str
    cpu: str | None = None
    kernels: str | None = None
    port: str | None = None
    """`untested` of a port that has never run on hardware."""
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
    """`memory`, where a model can be loaded, or `firmware`, which it is a part of."""
    model_max: int | None = None
    ram_max: int | None = None
    model_state: str | None = None
    model: str | None = None
    model_bytes: int | None = None
    model_crc: int | None = None
    arena_bytes: int | None = None
    input_bytes: int | None = None
    input_encoding: str | None = None
    output_bytes: int | None = None
    rounding: str | None = None


_TEXTS = (
    *("cpu", "kernels", "port", "mode", "tick_source", "model_state", "model", "input_encoding"),
    *("model_place", "rounding"),
)
_COUNTS = (
    *("tick_hz", "line_max", "input_max", "frame_max", "frame_window", "cycles_max", "model_max"),
    *("ram_max", "model_bytes", "arena_bytes", "input_bytes", "output_bytes"),
)


def firmware_info(items: Mapping[str, str]) -> FirmwareInfo | None:
    """Facts by the lines of `x-info`; None where they are not those of our firmware.

    A number that is none was damaged on its way, and counts as not said; so do unknown keys.
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
    """Identity of a board that answers."""

    name: str
    dialect: str
    profile: str | None = None
    """Version of the firmware, in its own words; None: it has no such command."""
    model_name: str | None = None
    """Model on the board, by its own name for it; None: it has none, or does not say. No more is
    known of a model that was built into somebody's firmware: there is no file to hash."""
    timestamps: TimestampKind | None = None
    """None where the firmware has no `infer`."""
    firmware: FirmwareInfo | None = None
    """Facts of our own firmware; None for any other."""
    quirks: tuple[Quirk, ...] = ()
    baud_rate: int | None = None
    is_emulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceTicks:
    """Single inferences that the board timed, of the last window."""

    tick_rate_hz: int
    total_count: int
    """Inferences of the window."""
    ticks: tuple[int | None, ...]
    """The last of them, oldest first; None: longer than the counter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardWindow:
    """Stretch of inferences that the board ran back to back.

    The bridge knows bounds, as bytes come late: the first inference began after `issued_ns` and
    before `began_ns`, the last one ended before `ended_ns`. How long it took is the board's own to
    say, by the difference of two laps. Only `inferences` are single ones: nothing about the spread
    of single latencies follows from a window of many.
    """

    count: int
    warmup_count: int
    issued_ns: int
    """When the command was on its way, bridge clock; the warm-up begins after it, too."""
    began_ns: int
    """When the line at its begin came: the first lap, or the line before the pulse."""
    ended_ns: int
    """When the line at its end came: the second lap, or the line behind the pulse."""
    laps: tuple[int, int] | None = None
    """Laps as the board printed them; None: its timestamps are pulses."""
    ticks: int | None = None
    """Duration by the board's clock, across wraps of its counter."""
    tick_rate_hz: int | None = None
    outputs: tuple[float, ...] | None = None
    """Outputs of the last inference, as decimals; None: the line was damaged."""
    inferences: InferenceTicks | None = None
    """Times of single inferences, from firmware that has them."""
    attempt_count: int = 1
    """Times that it was asked for; an earlier attempt may have run, and made its pulses."""

    @property
    def duration_ns(self) -> float | None:
        """Duration by the board's clock."""
        if self.ticks is None or not self.tick_rate_hz:
            return None
        return self.ticks * 1e9 / self.tick_rate_hz

    @property
    def clock_ratio(self) -> float | None:
        """Duration by the board over that by the bridge; far from 1, one of the two is wrong.

        A digit that the line lost, a counter of other units, or a time that is not real.
        """
        passed_ns = self.ended_ns - self.began_ns
        if self.duration_ns is None or passed_ns <= 0:
            return None
        return self.duration_ns / passed_ns


def lap_ticks(first: int, last: int, passed_ns: int | None) -> int:
    """Microseconds between two laps, of which the second may be of a later turn of the counter.

    >>> lap_ticks(1_000, 5_000, None), lap_ticks(4_294_967_000, 704, None)
    (4000, 1000)
    >>> lap_ticks(2_147_483_000, -2_147_483_296, None)  # of a counter that is printed with a sign
    1000
    >>> lap_ticks(0, 400_000, 4_295_400_000_000)  # one more turn, by the bridge's clock
    4295367296

    Args:
        first: First lap.
        last: Second lap.
        passed_ns: Time between them by the bridge's clock; None where that is not the board's.
    """
    if max(first, last) >= LAP_WRAP and last >= first:
        return last - first  # wider than 32 bits: it does not wrap
    ticks = (last - first) % LAP_WRAP
    if passed_ns is None:
        return ticks
    return ticks + max(0, round((passed_ns / 1e3 - ticks) / LAP_WRAP)) * LAP_WRAP
