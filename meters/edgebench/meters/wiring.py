"""Wiring of a device, as its owner declares it at the start of the agent; runs cannot change it.

`edgebench-agent serve`, on the device, and `edgebench deploy`, from a host, take the same options.
The driver of a meter is imported only when the meter is checked, so an idle agent has loaded no
driver.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from edgebench.meters.options import Options, split_name
from edgebench.protocol.errors import UsageError

NOTHING = "none"
"""This word in place of a meter or a sync line declares that none is connected, and clears earlier
declarations."""
_AGENT_PREFIX = "agent:"
"""Prefix for a meter of the agent in `bench --meter`; without the prefix, the text refers to a
meter of the host."""
LINE_KINDS = ("gpio", "uart")


@dataclass(frozen=True, slots=True)
class Wiring:
    """Wiring of a device, as declared when its agent was started."""

    sync_line: str | None = None
    """Line to a meter's digital input: `gpio:PATH` or `uart:PATH`."""
    meters: tuple[str, ...] = ()
    """Meters that runs may request."""


def check_meters(texts: Sequence[str]) -> tuple[str, ...]:
    """Validate the texts of meters.

    Each run checks whether its meters are connected.

    >>> check_meters(["none"])
    ()

    Raises:
        NoSuchMeter: no driver has that name.
        WrongMeterOption: an option is invalid.
        UsageError: "none" is combined with other meters, or a text has the prefix `agent:`.
    """
    if tuple(texts) in ((), (NOTHING,)):
        return ()
    if NOTHING in texts:
        raise UsageError(f"meter {NOTHING} excludes all other meters, got {', '.join(texts)[:200]}")
    from edgebench.meters.registry import find_meter

    for text in texts:
        if text.startswith(_AGENT_PREFIX):
            meant = text.removeprefix(_AGENT_PREFIX)[:200]
            raise UsageError(f"meters of the agent itself have no prefix `agent:`: write {meant}")
        find_meter(text).close()
    return tuple(texts)


def may_be_same_unit(one: str, other: str) -> bool:
    """Whether two texts may refer to the same meter.

    Options are ignored, and symbolic links in the path of a port are resolved. A text without an
    address may refer to any unit, because the driver then uses the only unit that it finds.

    >>> may_be_same_unit("ppk2:/dev/ttyACM0,supply=3.3", "ppk2:/dev/../dev/ttyACM0")
    True
    >>> may_be_same_unit("ppk2:/dev/ttyACM0", "ppk2"), may_be_same_unit("rapl", "ppk2")
    (True, False)
    """
    (driver, address), (another, elsewhere) = map(_unit, (one, other))
    if driver == another and "" in (address, elsewhere):
        return True
    # A folder may hold meters of several drivers; a port has exactly one.
    is_one_place = bool(address) and address == elsewhere
    return is_one_place and (driver == another or not os.path.isdir(address))


def _unit(text: str) -> tuple[str, str]:
    """Driver of a meter, and its resolved address."""
    driver, rest = split_name(text)
    options = Options.parse(driver, rest)
    address = options.address
    if driver == "sigrok":  # the address is a sigrok driver, which finds the unit by `conn`
        driver, address = f"{driver}:{address}", options.text("conn") or ""
    return driver, os.path.realpath(address) if address.startswith("/") else address


def check_line(text: str) -> str | None:
    """Validate the text of a sync line; return None for the word `none`.

    Each run checks whether the line exists.

    Raises:
        UsageError: the text is not a sync line.
    """
    if text == NOTHING:
        return None
    kind, _, path = text.partition(":")
    if kind not in LINE_KINDS or not PurePosixPath(path).is_absolute():
        raise UsageError(f"a sync line is gpio:/PATH or uart:/PATH, got {text[:200]!r}")
    return text
