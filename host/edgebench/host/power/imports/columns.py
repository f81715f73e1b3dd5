"""Columns of a power table, identified by the quantity and unit in their names.

    t_s  time_s  timestamp_ms  Timestamp(ms)     current_mA  Current(uA)  mA  amps_a
    voltage_V  volts_v  V  Main Voltage (V)      power_W  watts_w  mW  flags  channel

Units are never guessed, because a factor of a thousand would go unnoticed in the result. A column
without a unit, such as power_factor or time_utc, is ignored if another column has the quantity. Two
kinds of times need no unit: clock times, such as 2026-11-22T09:00:00.5Z, and times since 1970 in s,
ms, µs or ns. The magnitude gives the unit of a time since 1970. Options that name columns take
precedence.
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
    "current": ("i", "current", "amps", "curr", "ibus"),
    "voltage": ("u", "v", "voltage", "volts", "volt", "vbus"),
    "power": ("p", "power", "watts", "wattage"),
}
_QUANTITY_OF = {word: name for name, words in _QUANTITIES.items() for word in words}
_SAME = ("main", "avg", "average", "mean", "dc")
"""Words in column names that do not change the meaning of the quantity after them."""
_UNITS: dict[str, dict[str, float]] = {
    "time": {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "µs": 1000, "ns": 1},
    "current": {"A": 1.0, "a": 1.0, "mA": 1e-3, "uA": 1e-6, "µA": 1e-6, "nA": 1e-9},
    "voltage": {"V": 1.0, "v": 1.0, "mV": 1e-3, "uV": 1e-6, "µV": 1e-6},
    "power": {"W": 1.0, "w": 1.0, "mW": 1e-3, "uW": 1e-6, "µW": 1e-6, "nW": 1e-9},
}
_UNIT_WORDS = {
    "s": ("sec", "secs", "second", "seconds"),
    "ms": ("msec", "msecs", "millisecond", "milliseconds", "millis"),
    "us": ("usec", "usecs", "microsecond", "microseconds", "micros"),
    "V": ("volt", "volts"),
    "mV": ("millivolt", "millivolts"),
    "A": ("amp", "amps", "ampere", "amperes"),
    "mA": ("milliamp", "milliamps", "milliampere", "milliamperes"),
    "W": ("watt", "watts"),
    "mW": ("milliwatt", "milliwatts"),
}
_UNIT_OF_WORD = {word: unit for unit, words in _UNIT_WORDS.items() for word in words}
_OTHER_MEANING = re.compile(r"(?i)\b(max|min|peak|shunt|set|limit|std|rms|range)")
"""Words in the names of columns that contain no samples, but limits, extremes or settings."""
_COUNTERS = ("sample", "samples", "index", "count", "counter", "no", "nr", "seq", "sequence", "n")
"""Names of sample counters."""
_TIME_WORDS = re.compile(r"(?i)time|elapsed|epoch|date|^ts$")
_BARE = {unit: name for name, units in _UNITS.items() for unit in units if name != "time"}
"""Maps units to electrical quantities, for columns whose name is only a unit."""
_NAME = re.compile(r"((?:[A-Za-z]+\s+)*[A-Za-z]+)(?:[\s_]*[\[(]\s*([^\])]+?)\s*[\])]|[\s_]+(\S+))?")
_LAST_UNIT = re.compile(r".*?(?:[\[(]\s*([^\])]+?)\s*[\])]|[\s_]([^\s_\[\]()]+))\s*")
_EPOCHS = ((1e9, 4e9, 1e9), (1e12, 4e12, 1e6), (1e15, 4e15, 1e3), (1e18, 4e18, 1.0))
"""Ranges of numbers that count as times since 1970 (the years 2001 to 2096) in s, ms, µs or ns.
Each range comes with its unit in ns."""
ROWS = "#rows"
"""Name of the time column if the time is computed as row number divided by rate."""
SHOWN_COLUMNS = 12


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column that is used."""

    name: str
    index: int
    scale: float
    """Factor from the column's unit to the SI unit; for the time, to nanoseconds."""
    is_clock: bool = False
    """Whether the column contains clock times, as text."""
    is_counter: bool = False
    """Whether the column counts samples, so that the time is computed from count and rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumns:
    """The columns that are used, by quantity."""

    time: TableColumn
    date: TableColumn | None = None
    """Column with the dates of the times, if they are in a separate column."""
    millisecond: TableColumn | None = None
    """Column with the milliseconds of the times, if they are in a separate column."""
    current: TableColumn | None = None
    voltage: TableColumn | None = None
    power: TableColumn | None = None
    energy: TableColumn | None = None
    """Column of an energy counter, which is only compared with the integral of the powers."""
    flags: TableColumn | None = None
    channel: TableColumn | None = None
    """Column that names the channel of each row."""

    @property
    def facts(self) -> dict[str, str]:
        """Maps each quantity to the name of its column."""
        every = {"time": self.time, **self.electrical, "flags": self.flags}
        return {quantity: column.name for quantity, column in every.items() if column is not None}

    @property
    def electrical(self) -> dict[str, TableColumn]:
        """Maps current, voltage and power to their columns."""
        every = {"current": self.current, "voltage": self.voltage, "power": self.power}
        return {name: column for name, column in every.items() if column is not None}

    @property
    def used(self) -> list[TableColumn]:
        """Numeric columns that are used, in file order."""
        time = None if self.time.is_clock or self.time.name == ROWS else self.time
        electrical = (self.current, self.voltage, self.power, self.energy)
        every = (time, self.millisecond, *electrical, self.flags)
        return sorted(
            (column for column in every if column is not None), key=lambda column: column.index
        )

    def has_unit(self, column: TableColumn, unit: str) -> bool:
        """Whether `unit`, which follows a value in the file, has the same scale as the column."""
        every = {"time": self.time, **self.electrical}
        return any(
            other == column and _UNITS[quantity].get(unit) == column.scale
            for quantity, other in every.items()
        )

    @property
    def words(self) -> list[TableColumn]:
        """Text columns that are used: date, clock time, channel."""
        time = self.time if self.time.is_clock else None
        return [column for column in (self.date, time, self.channel) if column is not None]


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
        unit = _unit_of_value(first_row, index)
        if isinstance(scale, str) and unit in _UNITS[quantity]:
            scale = _UNITS[quantity][unit]
        if isinstance(scale, str):
            time = _time_without_unit(name, index, first_row) if quantity == "time" else None
            if time is None:
                unknown_units.setdefault(quantity, scale)
            elif "time" not in columns:
                columns["time"] = time
            continue
        known = columns.get(quantity)
        if known is not None and not (quantity == "time" and known.is_clock):
            raise FileRefused(f"two columns contain {quantity}: {known.name!r} and {name!r}")
        columns[quantity] = TableColumn(name, index, scale)
    if "time" not in columns and (time := _other_time(names, first_row)) is not None:
        columns["time"] = time
    if "power" not in columns and not {"current", "voltage"} <= columns.keys():
        columns |= _by_units(names, columns, options.supply_v)
    if options.rate_hz is not None:
        columns["time"] = _by_rate(names, first_row, options.rate_hz)
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
        columns["time"] = _by_rate(names, first_row, options.rate_hz)
    if "power" in columns and options.supply_v is None:
        columns.pop("current", None)
        columns.pop("voltage", None)
    _check(columns, names, options.supply_v)
    return TableColumns(**columns)


def unit_of(text: str) -> str | None:
    """The unit in a text such as `[mA]`, `Volt` or `s`; None for any other text.

    >>> unit_of("[mA]"), unit_of("Volt"), unit_of("Sequence")
    ('mA', 'V', None)
    """
    unit = text.strip().strip("()[]").strip().replace("\u03bc", "\u00b5")
    unit = _UNIT_OF_WORD.get(unit.lower(), unit)
    return unit if any(unit in units for units in _UNITS.values()) else None


def is_counter(name: str) -> bool:
    """Whether the name of a column is a usual name of a sample counter.

    >>> is_counter("Sample"), is_counter("No."), is_counter("Samples per s")
    (True, True, False)
    """
    return name.strip("#. ").lower() in _COUNTERS


def _by_rate(names: Sequence[str], first_row: Sequence[str], rate_hz: float) -> TableColumn:
    """Make a time column from the rate and a sample counter, or else from the row number.

    A sample counter is preferred, because its steps show losses.
    """
    for index, name in enumerate(names):
        if is_counter(name) and index < len(first_row) and first_row[index].isdigit():
            return TableColumn(name, index, 1e9 / rate_hz, is_counter=True)
    return TableColumn(ROWS, -1, 1e9 / rate_hz)


def _other_time(names: Sequence[str], first_row: Sequence[str]) -> TableColumn | None:
    """Find a time column by its values, such as clock times, or by a name such as `Elapsed (s)`."""
    for index, name in enumerate(names):
        if _is_clock_at(first_row, index):
            return TableColumn(name, index, 1.0, is_clock=True)
    for index, name in enumerate(names):
        unit = _unit_in(name) or unit_of(name.removesuffix("()"))
        is_alone = unit is not None and not _unit_in(name)
        if unit in _UNITS["time"] and (is_alone or _TIME_WORDS.search(name)):
            return TableColumn(name, index, _UNITS["time"][unit])
    for index, name in enumerate(names):
        if _TIME_WORDS.search(name) and (time := _time_without_unit(name, index, first_row)):
            return time
    return None


def _by_units(
    names: Sequence[str], columns: dict[str, TableColumn], supply_v: float | None
) -> dict[str, TableColumn]:
    """Find electrical columns by the units in their names; skip a quantity with several columns.

    Set points, limits, extremes and the voltage of a shunt are not samples. If there are several
    voltages, the bus voltage is used, because the bus supplies the device.
    """
    units = {index: _unit_in(name) or _unit_behind(name) for index, name in enumerate(names)}
    chosen: dict[str, TableColumn] = {}
    for quantity in ("power", "current", "voltage"):
        fits = [
            index
            for index, unit in units.items()
            if unit in _UNITS[quantity] and not _OTHER_MEANING.search(names[index])
        ]
        if quantity == "voltage" and len(fits) > 1:
            fits = [index for index in fits if "bus" in names[index].lower()]
        if len(fits) == 1 and quantity not in columns:
            unit = units[fits[0]]
            assert unit is not None, "it is among the units of the quantity"
            chosen[quantity] = TableColumn(names[fits[0]], fits[0], _UNITS[quantity][unit])
    if supply_v is not None:  # the user's voltage applies, and a voltage in the file is not used
        chosen.pop("voltage", None)
        return {} if "power" in chosen and "current" in columns else chosen
    if "power" in chosen and "current" not in columns:
        return {"power": chosen["power"]}
    return chosen


def _unit_in(name: str) -> str | None:
    """The unit in brackets in a name; None if there is none."""
    match = re.search(r"[\[(]([^\])]*)[\])]\s*$", name)
    return unit_of(match[1]) if match else None


def _unit_behind(name: str) -> str | None:
    """The unit after a name's last underscore or blank; a lower-case a, v or w is no unit."""
    match = re.search(r"\w[_ ]([mun\u00b5\u03bc]?[AVW])$", name)
    return unit_of(match[1]) if match else None


def _unit_of_value(first_row: Sequence[str], index: int) -> str | None:
    """The unit after the number in this column of the first row; None if there is none."""
    text = first_row[index] if index < len(first_row) else ""
    match = re.fullmatch(r"[-+]?[\d.,]+\s*([A-Za-z\u00b5\u03bc]+)", text.strip())
    return unit_of(match[1]) if match else None


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
    """Find a column that the user names, as `P` or, if its name has no unit, as `P:mW`."""
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
        f"column {name!r} has no unit; units of {quantity}: {choices}; pass --{quantity} "
        f"{name}:{next(iter(units))}"
    )


def _meaning(name: str) -> tuple[str, float | str] | None:
    """Quantity of a column, and its scale or why it has none; None for an unknown quantity."""
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
    unit = _UNIT_OF_WORD.get(unit.lower(), unit)
    units = _UNITS[quantity]
    if unit not in units:
        what = f"has the unit {unit!r}" if unit else "has no unit"
        return quantity, f"column {name!r} {what}: {quantity} takes {', '.join(units)}"
    return quantity, units[unit]


def _time_without_unit(name: str, index: int, first_row: Sequence[str]) -> TableColumn | None:
    """Find a time column without a unit: clock times as text, or times since 1970 as numbers."""
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
            "no time column: rename a column to t_s, time_ms, …, or pass --time "
            f"COLUMN{_found(names)}"
        )
    if supply_v is not None and ("power" in columns or "voltage" in columns):
        known = columns.get("power") or columns["voltage"]
        raise FileRefused(f"--supply does not apply: the file has {known.name!r}")
    if "power" in columns:
        return
    if "current" not in columns:
        raise ColumnsUnknown(
            "no power or current column: rename a column to power_W, current_A, …, or pass "
            f"--power COLUMN or --current COLUMN{_found(names)}"
        )
    if "voltage" not in columns and supply_v is None:
        raise FileRefused("file has current but no voltage: pass the voltage, as in --supply 3.3")


def _found(names: Sequence[str]) -> str:
    """The columns of the file, for an error message."""
    shown = [repr(name[:40]) for name in names[:SHOWN_COLUMNS]]
    more = len(names) - len(shown)
    return f"; columns found: {', '.join(shown)}" + (f" and {more} more" if more else "")
