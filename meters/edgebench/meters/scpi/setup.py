"""Options of SCPI instruments, and the facts of their recordings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from edgebench.meters.base import MeterInfo
from edgebench.meters.options import MILLIVOLTS_FROM, Options, check_supply
from edgebench.protocol.errors import UsageError

SUPPLY_LIMITS_V = (0.1, MILLIVOLTS_FROM)
"""Voltages of what a multimeter is wired into."""
CHANNELS_MAX = 7
"""Elements of a WT5000; other instruments refuse those that they do not have."""
BAUD_LIMITS = (300.0, 4e6)
_FIELDS = {
    "channel": "channel",
    "rate": "rate_hz",
    "range": "range_a",
    "supply": "supply_v",
    "answer": "quantities",
    "mean": "mean_s",
    "gain": "gain_ratio",
    "offset": "offset",
}
"""Fields of ScpiSetup, by option; `query` and `baud` are for any instrument."""
ANSWERS = {
    "power": ("power",),
    "current": ("current",),
    "voltage+current": ("voltage", "current"),
    "current+voltage": ("current", "voltage"),
}
"""Quantities in an answer, by the option that says so."""


class AnswerKind(Enum):
    """Form of an instrument's answers; stored with the recording."""

    ELOG = "elog"
    """Blocks of float32, current and voltage in turn."""
    POWER_METER = "power_meter"
    """Voltage, current and power, once for each question."""
    MULTIMETER = "multimeter"
    """A current, once for each question."""
    MULTIMETER_MEMORY = "multimeter_memory"
    """Blocks of text: currents, separated by commas."""
    QUERY = "query"
    """Numbers that a question of the user's gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScpiSetup:
    """Options of the user."""

    channel: int | None = None
    """Output of a supply, element of a power meter; None: nothing is said, which is the first."""
    rate_hz: float | None = None
    """Values a second; None: as the instrument has it, or as fast as it is sensible."""
    range_a: float | None = None
    """Range of a multimeter; None: it chooses by itself."""
    supply_v: float | None = None
    """Voltage of the device, which a multimeter does not measure."""
    query: str | None = None
    """Question of the user's whose answer is the value; None: the instrument's family knows it."""
    quantities: str | None = None
    """Quantities in its answer, a key of ANSWERS; None: power, or current with a supply."""
    mean_s: float | None = None
    """Time that each answer is the mean of; None: an instant, for all that is known."""
    gain_ratio: float | None = None
    """Gain error by the data sheet."""
    offset: float | None = None
    """Offset error by the data sheet, in watts, or in amperes where the answer has a current."""
    baud_rate: int | None = None
    """Rate of a serial port; None: as VISA has it, 9600."""

    @property
    def place(self) -> int:
        """Output or element that is meant."""
        return self.channel or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScpiSettings:
    """Facts of a recording's header."""

    kind: AnswerKind
    supply_v: float | None = None
    quantities: tuple[str, ...] = ()
    """Quantities of an answer, in their order, where a question of the user's has them."""


def parse_setup(options: Options) -> ScpiSetup:
    """Parse the options of a meter's address.

    Raises:
        UsageError: a value is none.
    """
    channel = options.number("channel")
    if channel is not None and channel not in range(1, CHANNELS_MAX + 1):
        raise UsageError(f"meter scpi: channel must be 1 to {CHANNELS_MAX}, got {channel:g}")
    setup = ScpiSetup(
        channel=None if channel is None else int(channel),
        rate_hz=options.positive("rate"),
        range_a=options.positive("range"),
        supply_v=options.positive("supply"),
        query=_question(options),
        quantities=_answer(options),
        mean_s=options.positive("mean"),
        gain_ratio=options.ratio("gain"),
        offset=options.positive("offset"),
        baud_rate=_baud_rate(options),
    )
    check_supply(setup.supply_v, SUPPLY_LIMITS_V, "meter scpi: a device is supplied with")
    return setup


def refuse_others(setup: ScpiSetup, info: MeterInfo, *known: str) -> None:
    """Refuse options that this instrument has no use for.

    Raises:
        UsageError: one was given.
    """
    for option, name in _FIELDS.items():
        if option not in known and getattr(setup, name) is not None:
            raise UsageError(
                f"{info.model} has no option {option!r}; available: {', '.join(known)}"
            )


def _question(options: Options) -> str | None:
    text = options.text("query")
    if text is None:
        return None
    if "?" not in text or not text.isascii():
        raise UsageError(
            f"meter scpi: query must be a question of the instrument, as in query=MEAS:POW?, "
            f"got {text!r}"
        )
    return text


def _answer(options: Options) -> str | None:
    text = options.text("answer")
    if text is not None and text not in ANSWERS:
        raise UsageError(f"meter scpi: answer must be one of {', '.join(ANSWERS)}, got {text!r}")
    return text


def _baud_rate(options: Options) -> int | None:
    value = options.number("baud")
    if value is None:
        return None
    return int(options.within("baud", value, BAUD_LIMITS))
