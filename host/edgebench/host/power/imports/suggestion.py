"""Finds options with which a refused table can be read, and tries them before they are suggested.

A table may lack its units, its rate or its voltage; only the user has this information. A
suggestion contains the columns that are probably right, with units that fit the magnitude of their
numbers. The suggested command works, but the user has to check the units and values in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np

from edgebench.host.power.imports.columns import is_counter
from edgebench.host.power.imports.csv_layout import head_of
from edgebench.host.power.imports.number_text import style_of
from edgebench.host.result.facts import ImportOptions
from edgebench.protocol.errors import FileRefused

RATE_HZ = 1000.0
SUPPLY_V = 3.3
MAX_TRIES = 24
MAX_COLUMNS = 20
"""Number of columns in which a time, a power or a current is looked for."""
_WORDS = {
    "power": re.compile(r"(?i)pow|watt|leist|puiss|potenc|^p\d?$|[mu\u00b5]?w\b"),
    "current": re.compile(r"(?i)curr|amp|strom|cour|corr|^i\d?$|[mu\u00b5]?a\b"),
}
_SMALL_UNITS = {"power": ("W", "mW", 300.0), "current": ("A", "mA", 10.0)}
"""For each quantity, two units and a limit. If a column's largest number reaches the limit, the
column likely has the second, smaller unit."""


@dataclass(frozen=True, slots=True)
class _Numbers:
    """A column of numbers in the first rows."""

    name: str
    values: tuple[float, ...]


def options_that_work(
    path: Path,
    given: ImportOptions,
    try_to_read: Callable[[ImportOptions], object],
    *,
    is_table: bool,
) -> ImportOptions | None:
    """Find the fewest additions to the given options that make the file readable.

    Args:
        path: A file that was refused.
        given: Options with which the file was refused.
        try_to_read: Function that reads the file with the given options.
        is_table: Whether the file is a table in text, so that options can name its columns.

    Returns:
        The options; None if no likely options work.
    """
    for tried, options in enumerate(_likely(path, given, is_table=is_table)):
        if tried == MAX_TRIES:
            break
        try:
            try_to_read(options)
        except FileRefused:
            continue
        return options
    return None


def words_of(options: ImportOptions, given: ImportOptions) -> tuple[tuple[str, ...], ...]:
    """Command-line words of the options that were added to the given options."""
    texts = {
        "--time": options.time,
        "--power": options.power,
        "--current": options.current,
        "--rate": None if options.rate_hz == given.rate_hz else f"{options.rate_hz:g}",
        "--supply": None if options.supply_v == given.supply_v else f"{options.supply_v:g}",
    }
    known = {given.time, given.power, given.current}
    return tuple((name, text) for name, text in texts.items() if text and text not in known)


def _likely(path: Path, given: ImportOptions, *, is_table: bool) -> Iterator[ImportOptions]:
    """Yield likely options; those with the fewest additions come first."""
    columns = _columns(path) if is_table else []
    ascending = [column for column in columns if _is_time(column)]
    times = [
        ImportOptions(),
        *(ImportOptions(time=f"{column.name}:{_time_unit(column)}") for column in ascending),
        ImportOptions(rate_hz=RATE_HZ),
    ]
    power, current = (
        [column for column in columns if _WORDS[quantity].search(column.name)]
        for quantity in ("power", "current")
    )
    values = [
        ImportOptions(),
        *(ImportOptions(power=f"{column.name}:{_unit('power', column)}") for column in power),
        *(ImportOptions(current=f"{column.name}:{_unit('current', column)}") for column in current),
    ]
    if not power and not current:
        others = [
            column for column in columns if not _is_time(column) and not is_counter(column.name)
        ]
        values += [ImportOptions(power=f"{column.name}:W") for column in others]
    supplies = [ImportOptions(), ImportOptions(supply_v=SUPPLY_V)]
    every = [_added(given, *parts) for parts in product(times, values, supplies)]
    # Options with equally many additions stay in the order of the columns.
    for options in sorted(every, key=lambda options: len(words_of(options, given))):
        if options != given:
            yield options


def _added(given: ImportOptions, *parts: ImportOptions) -> ImportOptions:
    """Add options to the given options, without replacing any of them."""
    for part in parts:
        given = replace(
            given,
            time=given.time or part.time,
            power=given.power or part.power,
            current=given.current or part.current,
            rate_hz=given.rate_hz or part.rate_hz,
            supply_v=given.supply_v or part.supply_v,
        )
    return given


def _columns(path: Path) -> list[_Numbers]:
    """Columns of numbers in the first rows."""
    names, rows = head_of(path)
    # As in the reader, all columns have the same style; `502,515` alone would be ambiguous.
    style = style_of((text for row in rows for text in row), separator=";")
    columns: list[_Numbers] = []
    for index, name in enumerate(names[:MAX_COLUMNS]):
        texts = [row[index] for row in rows if index < len(row)]
        try:
            columns.append(_Numbers(name, tuple(style.number(text)[0] for text in texts if text)))
        except ValueError:
            continue
    return columns


def _is_time(column: _Numbers) -> bool:
    """Whether numbers ascend like times. A sample counter does not count as a time."""
    return (
        not is_counter(column.name)
        and len(column.values) > 1
        and bool((np.diff(column.values) > 0).mean() > 0.9)
    )


def _time_unit(column: _Numbers) -> str:
    return "ms" if float(np.median(np.diff(column.values))) >= 2 else "s"


def _unit(quantity: str, column: _Numbers) -> str:
    unit, smaller, limit = _SMALL_UNITS[quantity]
    return smaller if max(column.values, default=0.0) >= limit else unit
