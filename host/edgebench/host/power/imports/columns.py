"""Columns of a table of power: a quantity by its name, with the unit in the name.

    t_s  time_s  timestamp_ms  Timestamp(ms)     current_mA  Current(uA)  mA  amps_a
    voltage_V  volts_v  V                        power_W  watts_w  mW  flags  channel

A unit is never guessed: nobody would see a factor of a thousand in the result. A column without a
unit, as power_factor or time_utc, is ignored where another column has the quantity.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from edgebench.protocol.errors import FileRefused

_QUANTITIES = {
    "time": ("t", "time", "timestamp"),
    "current": ("i", "current", "amps"),
    "voltage": ("u", "v", "voltage", "volts"),
    "power": ("p", "power", "watts"),
}
_QUANTITY_OF = {word: name for name, words in _QUANTITIES.items() for word in words}
_UNITS: dict[str, dict[str, float]] = {
    "time": {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "µs": 1000, "ns": 1},
    "current": {"A": 1.0, "a": 1.0, "mA": 1e-3, "uA": 1e-6, "µA": 1e-6, "nA": 1e-9},
    "voltage": {"V": 1.0, "v": 1.0, "mV": 1e-3, "uV": 1e-6, "µV": 1e-6},
    "power": {"W": 1.0, "w": 1.0, "mW": 1e-3, "uW": 1e-6, "µW": 1e-6, "nW": 1e-9},
}
_BARE = {unit: name for name, units in _UNITS.items() for unit in units if name != "time"}
"""A unit on its own names an electrical quantity."""
_NAME = re.compile(r"([A-Za-z]+)(?:[\s_]*[\[(]\s*([^\])]+?)\s*[\])]|[\s_]+(\S+))?")


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column that is used."""

    name: str
    """Name in the file."""
    index: int
    scale: float
    """Factor to SI units; for the time, to nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumns:
    """The columns that are used, by quantity."""

    time: TableColumn
    current: TableColumn | None = None
    voltage: TableColumn | None = None
    power: TableColumn | None = None
    flags: TableColumn | None = None
    channel: TableColumn | None = None
    """Name of the channel of each row: words, not numbers."""

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
        """Columns of numbers, in the order of the file."""
        every = (self.time, self.current, self.voltage, self.power, self.flags)
        return sorted((one for one in every if one is not None), key=lambda one: one.index)


def find_columns(names: Sequence[str], supply_v: float | None) -> TableColumns:
    """The columns by their names.

    Raises:
        FileRefused: a unit is missing, two columns have one quantity, or there is no power.
    """
    columns: dict[str, TableColumn] = {}
    unknown_units: dict[str, str] = {}
    for index, name in enumerate(names):
        meaning = _meaning(name.strip())
        if meaning is None:
            continue
        quantity, scale = meaning
        if isinstance(scale, str):
            unknown_units.setdefault(quantity, scale)
            continue
        if quantity in columns:
            raise FileRefused(f"two columns of {quantity}: {columns[quantity].name!r} and {name!r}")
        columns[quantity] = TableColumn(name, index, scale)
    for quantity, why in unknown_units.items():
        is_told = quantity in columns or (quantity != "time" and "power" in columns)
        if not is_told:
            raise FileRefused(why)
    _check(columns, supply_v)
    return TableColumns(**columns)


def _meaning(name: str) -> tuple[str, float | str] | None:
    """Quantity and scale, or why it has no scale; None for a column of anything else."""
    if name.lower() in ("flags", "channel"):
        return name.lower(), 1.0
    name = name.replace("μ", "µ")  # the Greek letter U+03BC, and the sign U+00B5
    if name in _BARE:
        return _BARE[name], _UNITS[_BARE[name]][name]
    match = _NAME.fullmatch(name)
    quantity = _QUANTITY_OF.get(match[1].lower()) if match else None
    if match is None or quantity is None:
        return None
    unit = match[2] or match[3] or ""
    units = _UNITS[quantity]
    if unit not in units:
        what = f"has the unit {unit!r}" if unit else "has no unit"
        return quantity, f"column {name!r} {what}: {quantity} takes {', '.join(units)}"
    return quantity, units[unit]


def _check(columns: dict[str, TableColumn], supply_v: float | None) -> None:
    if "time" not in columns:
        raise FileRefused("no column of time: name one t_s, or time_ms, …")
    if supply_v is not None and ("power" in columns or "voltage" in columns):
        known = columns.get("power") or columns["voltage"]
        raise FileRefused(f"--supply has no use: the file has {known.name!r}")
    if "power" in columns:
        return
    if "current" not in columns:
        raise FileRefused("no column of power or current: name one power_W, or current_A, …")
    if "voltage" not in columns and supply_v is None:
        raise FileRefused("current without a voltage: say what it was, as in --supply 3.3")
