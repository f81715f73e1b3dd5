"""Options of SCPI instruments, and the facts of their recordings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from edgebench.meters.base import MeterInfo
from edgebench.meters.options import MILLIVOLTS_FROM, Options, check_supply
from edgebench.protocol.errors import UsageError

SUPPLY_LIMITS_V = (0.1, MILLIVOLTS_FROM)
"""Lowest and highest supply voltage of a device whose current a multimeter measures."""
CHANNELS_MAX = 7
"""Highest channel number, for the elements of a WT5000. Instruments with fewer channels reject
numbers that are too high."""
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
"""Maps each option to its field of ScpiSetup. `query` and `baud` are left out, because they apply
to any instrument."""
RESPONSE_QUANTITIES = {
    "power": ("power",),
    "current": ("current",),
    "voltage+current": ("voltage", "current"),
    "current+voltage": ("current", "voltage"),
}
"""Maps each value of the option `answer` to the quantities in a response."""


class ResponseKind(Enum):
    """Format of an instrument's responses; stored with the recording."""

    ELOG = "elog"
    """Blocks of float32, alternating current and voltage."""
    POWER_METER = "power_meter"
    """Voltage, current and power per query."""
    MULTIMETER = "multimeter"
    """A current per query."""
    MULTIMETER_MEMORY = "multimeter_memory"
    """Blocks of text: currents, separated by commas."""
    QUERY = "query"
    """Numbers returned by the user's query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScpiSetup:
    """The user's options for a SCPI instrument."""

    channel: int | None = None
    """Number of a supply's output, or of a power meter's element; None if not given, so 1 is
    used."""
    rate_hz: float | None = None
    """Values per second; None: the instrument's setting, or the default of its family."""
    range_a: float | None = None
    """Range of a multimeter; None: automatic."""
    supply_v: float | None = None
    """Voltage of the device, which a multimeter does not measure."""
    query: str | None = None
    """The user's query for the value; None: defined by the instrument's family."""
    quantities: str | None = None
    """Quantities in the response to `query`, a key of RESPONSE_QUANTITIES; None: current if
    `supply_v` is given, otherwise power."""
    mean_s: float | None = None
    """Averaging time of the values; None: values are assumed to be instants."""
    gain_ratio: float | None = None
    """Gain error from the data sheet."""
    offset: float | None = None
    """Offset error from the data sheet, in W, or in A if the response contains a current."""
    baud_rate: int | None = None
    """Rate of a serial port; None: the default of VISA, 9600."""

    @property
    def place(self) -> int:
        """Number of the selected output or element."""
        return self.channel or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ScpiSettings:
    """Settings that are stored as facts in a recording's header."""

    kind: ResponseKind
    supply_v: float | None = None
    quantities: tuple[str, ...] = ()
    """Quantities in a response to the user's query, in order; empty for instruments of known
    families."""


def parse_setup(options: Options) -> ScpiSetup:
    """Parse the options of a meter's address.

    Raises:
        UsageError: a value is invalid.
    """
    channel = options.number("channel")
    if channel is not None and channel not in range(1, CHANNELS_MAX + 1):
        raise UsageError(f"meter scpi: channel must be 1 to {CHANNELS_MAX}, got {channel:g}")
    setup = ScpiSetup(
        channel=None if channel is None else int(channel),
        rate_hz=options.positive("rate"),
        range_a=options.positive("range"),
        supply_v=options.positive("supply"),
        query=_query(options),
        quantities=_quantities(options),
        mean_s=options.positive("mean"),
        gain_ratio=options.ratio("gain"),
        offset=options.positive("offset"),
        baud_rate=_baud_rate(options),
    )
    check_supply(setup.supply_v, SUPPLY_LIMITS_V, "meter scpi: supply must be")
    return setup


def refuse_others(setup: ScpiSetup, info: MeterInfo, *known: str) -> None:
    """Reject options that this instrument does not support.

    Raises:
        UsageError: an unsupported option is given.
    """
    for option, name in _FIELDS.items():
        if option not in known and getattr(setup, name) is not None:
            raise UsageError(
                f"{info.model} has no option {option!r}; available: {', '.join(known)}"
            )


def _query(options: Options) -> str | None:
    text = options.text("query")
    if text is None:
        return None
    if "?" not in text or not text.isascii():
        raise UsageError(
            f"meter scpi: query must contain a question mark, as in query=MEAS:POW?, got {text!r}"
        )
    return text


def _quantities(options: Options) -> str | None:
    text = options.text("answer")
    if text is not None and text not in RESPONSE_QUANTITIES:
        raise UsageError(
            f"meter scpi: answer must be one of {', '.join(RESPONSE_QUANTITIES)}, got {text!r}"
        )
    return text


def _baud_rate(options: Options) -> int | None:
    value = options.number("baud")
    if value is None:
        return None
    return int(options.within("baud", value, BAUD_LIMITS))
