"""Columns of a power table, identified by the quantity and unit in their names.

    t_s  time_s  timestamp_ms  Timestamp(ms)     current_mA  Current(uA)  mA  amps_a
    voltage_V  volts_v  V  Main Voltage (V)      power_W  watts_w  mW  flags  channel

Units are never guessed, because a factor of a thousand would go unnoticed in the result. A column
without a unit, such as power_factor or time_utc, is ignored if another column has the quantity. Two
kinds of times need no unit: clock times, such as 2026-11-22T09:00:00.5Z, and seconds since 1970 (or
ms, µs, ns), which are distinguished by their magnitude. Options that name columns take precedence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.host.power.imports.clock_times import is_clock_time
from edgebench.host.power.imports.known_tables import KnownTable
from edgebench.host.result.facts import ImportOptions
from edgebench.protocol.errors import ColumnsUnknown, FileRefused

_QUANTITIES = {
    "time": ("t", "time", "timestamp"),
    "current": ("i", "current", "amps"),
    "voltage": ("u", "v", "voltage", "volts"),
    "power": ("p", "power", "watts"),
}
_QUANTITY_OF = {word: name for name, words in _QUANTITIES.items() for word in words}
_SAME = ("main", "avg", "average", "mean", "dc")
"""Words before a quantity that do not change its meaning."""
_UNITS: dict[str, dict[str, float]] = {
    "time": {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "µs": 1000, "ns": 1},
    "current": {"A": 1.0, "a": 1.0, "mA": 1e-3, "uA": 1e-6, "µA": 1e-6, "nA": 1e-9},
    "voltage": {"V": 1.0, "v": 1.0, "mV": 1e-3, "uV": 1e-6, "µV": 1e-6},
    "power": {"W": 1.0, "w": 1.0, "mW": 1e-3, "uW": 1e-6, "µW": 1e-6, "nW": 1e-9},
}
_BARE = {unit: name for name, units in _UNITS.items() for unit in units if name != "time"}
"""A unit alone as a column name identifies an electrical quantity."""
_NAME = re.compile(r"((?:[A-Za-z]+\s+)*[A-Za-z]+)(?:[\s_]*[\[(]\s*([^\])]+?)\s*[\])]|[\s_]+(\S+))?")
_LAST_UNIT = re.compile(r".*?(?:[\[(]\s*([^\])]+?)\s*[\])]|[\s_]([^\s_\[\]()]+))\s*")
_EPOCHS = ((1e9, 4e9, 1e9), (1e12, 4e12, 1e6), (1e15, 4e15, 1e3), (1e18, 4e18, 1.0))
"""Ranges of numbers that are times since 1970 (the years 2001 to 2096), each with its unit in ns:
seconds, milliseconds, microseconds and nanoseconds differ by factors of a thousand."""
ROWS = "#rows"
"""Name of a time that is computed as row number over rate."""
SHOWN_COLUMNS = 12


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column that is used."""

    name: str
    """Name in the file."""
    index: int
    scale: float
    """Factor to SI units; for the time, to nanoseconds."""
    is_clock: bool = False
    """Whether it holds clock times, as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumns:
    """The columns that are used, by quantity."""

    time: TableColumn
    date: TableColumn | None = None
    """Date that belongs to the time."""
    millisecond: TableColumn | None = None
    """Milliseconds that belong to the time."""
    current: TableColumn | None = None
    voltage: TableColumn | None = None
    power: TableColumn | None = None
    flags: TableColumn | None = None
    channel: TableColumn | None = None
    """Name of the channel of each row, as text."""

    @property
    def facts(self) -> dict[str, str]:
        """Names of the columns that are used, by quantity."""
        every = {"time": self.time, **self.electrical, "flags": self.flags}
        return {quantity: column.name for quantity, column in every.items() if column is not None}

    @property
    def electrical(self) -> dict[str, TableColumn]:
        """Columns of current, voltage and power, by quantity."""
        every = {"current": self.current, "voltage": self.voltage, "power": self.power}
        return {name: column for name, column in every.items() if column is not None}

    @property
    def used(self) -> list[TableColumn]:
        """Numeric columns, in file order."""
        time = None if self.time.is_clock or self.time.name == ROWS else self.time
        every = (time, self.millisecond, self.current, self.voltage, self.power, self.flags)
        return sorted((one for one in every if one is not None), key=lambda one: one.index)

    def has_unit(self, column: TableColumn, unit: str) -> bool:
        """Whether a unit after a value has the scale of the column."""
        every = {"time": self.time, **self.electrical}
        return any(
            one == column and _UNITS[quantity].get(unit) == column.scale
            for quantity, one in every.items()
        )

    @property
    def words(self) -> list[TableColumn]:
        """Text columns."""
        time = self.time if self.time.is_clock else None
        return [one for one in (self.date, time, self.channel) if one is not None]


def find_columns(
    names: Sequence[str], options: ImportOptions, first_row: Sequence[str] = ()
) -> TableColumns:
    """Find the columns by their names.

    Args:
        names: Names of all columns.
        options: Columns that the user names, and other facts that the file does not state.
        first_row: Values of the first row, which determine the kind of time.

    Raises:
        FileRefused: a unit is missing, two columns have the same quantity, or there is no power.
    """
    columns: dict[str, TableColumn] = {}
    unknown_units: dict[str, str] = {}
    for quantity, text in _named(options).items():
        columns[quantity] = _column_of_user(names, first_row, quantity, text)
    has_power = bool(columns.keys() & {"power", "current"})
    for index, name in enumerate(names):
        meaning = _meaning(name.strip())
        if meaning is None:
            continue
        quantity, scale = meaning
        if quantity in _named(options) or (has_power and quantity in _BARE.values()):
            continue  # the user's options take precedence over the names
        if isinstance(scale, str):
            time = _time_without_unit(name, index, first_row) if quantity == "time" else None
            if time is None:
                unknown_units.setdefault(quantity, scale)
            elif "time" not in columns:
                columns["time"] = time
            continue
        known = columns.get(quantity)
        if known is not None and not (quantity == "time" and known.is_clock):
            raise FileRefused(f"two columns of {quantity}: {known.name!r} and {name!r}")
        columns[quantity] = TableColumn(name, index, scale)
    if options.rate_hz is not None:
        columns["time"] = TableColumn(ROWS, -1, 1e9 / options.rate_hz)
    for quantity, why in unknown_units.items():
        is_told = quantity in columns or (quantity != "time" and "power" in columns)
        if not is_told:
            raise ColumnsUnknown(f"{why}{_found(names)}")
    _check(columns, names, options.supply_v)
    return TableColumns(**columns)


def known_columns(
    known: KnownTable, names: Sequence[str], options: ImportOptions, first_row: Sequence[str]
) -> TableColumns:
    """The columns of a known table.

    Raises:
        FileRefused: there is no power, or --supply was given for a file with power or voltage.
    """
    columns: dict[str, TableColumn] = {}
    for quantity, choices in known.columns.items():
        for name, scale in choices:
            if name in names and quantity not in columns:
                index = names.index(name)
                columns[quantity] = TableColumn(name, index, scale or 1.0, scale is None)
    time = columns.get("time")
    if time is not None and not time.is_clock and _is_clock_at(first_row, time.index):
        columns["time"] = TableColumn(time.name, time.index, 1.0, is_clock=True)
    if options.rate_hz is not None:
        columns["time"] = TableColumn(ROWS, -1, 1e9 / options.rate_hz)
    if "power" in columns and options.supply_v is None:
        columns.pop("current", None)
        columns.pop("voltage", None)
    _check(columns, names, options.supply_v)
    return TableColumns(**columns)


def _named(options: ImportOptions) -> dict[str, str]:
    every = {
        "time": options.time,
        "power": options.power,
        "current": options.current,
        "voltage": options.voltage,
    }
    return {quantity: text for quantity, text in every.items() if text is not None}


def _column_of_user(
    names: Sequence[str], first_row: Sequence[str], quantity: str, text: str
) -> TableColumn:
    """A column that the user names, as `P` or, if its name has no unit, as `P:mW`."""
    name, _, unit = (text, "", "") if text in names else text.rpartition(":")
    if name not in names:
        raise ColumnsUnknown(f"no column is named {name or text!r}{_found(names)}")
    index, units = names.index(name), _UNITS[quantity]
    if not unit:
        match = _LAST_UNIT.fullmatch(name.replace("μ", "µ"))
        unit = (match[1] or match[2]) if match else name
    if unit in units:
        return TableColumn(name, index, units[unit])
    if quantity == "time" and (time := _time_without_unit(name, index, first_row)) is not None:
        return time
    choices = ", ".join(units)
    raise ColumnsUnknown(
        f"column {name!r} has no unit: {quantity} takes {choices}; write --{quantity} "
        f"{name}:{next(iter(units))}"
    )


def _meaning(name: str) -> tuple[str, float | str] | None:
    """Quantity and scale, or why it has no scale; None for any other column."""
    if name.lower() in ("flags", "channel"):
        return name.lower(), 1.0
    name = name.replace("μ", "µ")  # the Greek letter U+03BC to the micro sign U+00B5
    if name in _BARE:
        return _BARE[name], _UNITS[_BARE[name]][name]
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    words = [word for word in match[1].lower().split() if word not in _SAME]
    quantity = _QUANTITY_OF.get(words[0]) if len(words) == 1 else None
    if quantity is None:
        return None
    unit = match[2] or match[3] or ""
    units = _UNITS[quantity]
    if unit not in units:
        what = f"has the unit {unit!r}" if unit else "has no unit"
        return quantity, f"column {name!r} {what}: {quantity} takes {', '.join(units)}"
    return quantity, units[unit]


def _time_without_unit(name: str, index: int, first_row: Sequence[str]) -> TableColumn | None:
    """A time column that needs no unit: clock times, or numbers since 1970."""
    if _is_clock_at(first_row, index):
        return TableColumn(name, index, 1.0, is_clock=True)
    try:
        number = float(first_row[index])
    except (IndexError, ValueError):
        return None
    scales = [scale for low, high, scale in _EPOCHS if low <= number <= high]
    return TableColumn(name, index, scales[0]) if scales else None


def _is_clock_at(first_row: Sequence[str], index: int) -> bool:
    return index < len(first_row) and is_clock_time(first_row[index])


def _check(columns: dict[str, TableColumn], names: Sequence[str], supply_v: float | None) -> None:
    if "time" not in columns:
        raise ColumnsUnknown(
            f"no time column: name it t_s, time_ms, …, or give --time COLUMN{_found(names)}"
        )
    if supply_v is not None and ("power" in columns or "voltage" in columns):
        known = columns.get("power") or columns["voltage"]
        raise FileRefused(f"--supply does not apply: the file has {known.name!r}")
    if "power" in columns:
        return
    if "current" not in columns:
        raise ColumnsUnknown(
            "no power or current column: name it power_W, current_A, …, or give --power COLUMN "
            f"or --current COLUMN{_found(names)}"
        )
    if "voltage" not in columns and supply_v is None:
        raise FileRefused("current without a voltage: give the voltage, as in --supply 3.3")


def _found(names: Sequence[str]) -> str:
    """The columns of the file, for an error message."""
    shown = [repr(name[:40]) for name in names[:SHOWN_COLUMNS]]
    more = len(names) - len(shown)
    return f"; columns found: {', '.join(shown)}" + (f" and {more} more" if more else "")
