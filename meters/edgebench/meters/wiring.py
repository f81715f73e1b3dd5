"""Wiring of a device: its owner states it where the agent is started, and no run may.

`edgebench-agent serve`, on the device, and `edgebench deploy`, from a host, take the same words.
Drivers are imported when there is a meter to check: an idle agent has no use for them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from edgebench.meters.options import Options, split_name
from edgebench.protocol.errors import UsageError

NOTHING = "none"
"""Word in the place of a meter or a line: there is none, whatever was said before."""
_AGENT_PREFIX = "agent:"
"""Prefix of `bench --meter`, where a meter of the host would be meant without."""
LINE_KINDS = ("gpio", "uart")


@dataclass(frozen=True, slots=True)
class Wiring:
    """What is wired to a device, as its agent was told at its start."""

    sync_line: str | None = None
    """Line to a meter's digital input: `gpio:PATH` or `uart:PATH`."""
    meters: tuple[str, ...] = ()
    """Meters that runs may ask for."""


def check_meters(texts: Sequence[str]) -> tuple[str, ...]:
    """The meters that these texts name; whether they are there, each run finds out.

    >>> check_meters(["none"])
    ()

    Raises:
        NoSuchMeter: there is no such driver.
        WrongMeterOption: an option is wrong.
        UsageError: "none" is one of several, or it is written as for a run.
    """
    if tuple(texts) in ((), (NOTHING,)):
        return ()
    if NOTHING in texts:
        raise UsageError(f"meter {NOTHING} goes with no other, got {', '.join(texts)[:200]}")
    from edgebench.meters.registry import find_meter

    for text in texts:
        if text.startswith(_AGENT_PREFIX):
            meant = text.removeprefix(_AGENT_PREFIX)[:200]
            raise UsageError(f"the agent itself has this meter: write {meant}, without `agent:`")
        find_meter(text).close()
    return tuple(texts)


def may_be_same_unit(one: str, other: str) -> bool:
    """Whether two texts may name the same meter.

    Options do not make it another, nor do links on the way to its port. Without an address a driver
    takes the only unit that it finds, which may be any.

    >>> may_be_same_unit("ppk2:/dev/ttyACM0,supply=3.3", "ppk2:/dev/../dev/ttyACM0")
    True
    >>> may_be_same_unit("ppk2:/dev/ttyACM0", "ppk2"), may_be_same_unit("rapl", "ppk2")
    (True, False)
    """
    (driver, address), (another, elsewhere) = map(_unit, (one, other))
    if driver == another and "" in (address, elsewhere):
        return True
    # Below a folder there may be meters of several drivers; at a port there is one.
    is_one_place = bool(address) and address == elsewhere
    return is_one_place and (driver == another or not os.path.isdir(address))


def _unit(text: str) -> tuple[str, str]:
    """Driver of a meter, and where it is."""
    driver, rest = split_name(text)
    options = Options.parse(driver, rest)
    address = options.address
    if driver == "sigrok":  # its address is a driver of sigrok's, which finds the unit by `conn`
        driver, address = f"{driver}:{address}", options.text("conn") or ""
    return driver, os.path.realpath(address) if address.startswith("/") else address


def check_line(text: str) -> str | None:
    """The line that this text names, if any; whether it is there, each run finds out.

    Raises:
        UsageError: it names none.
    """
    if text == NOTHING:
        return None
    kind, _, path = text.partition(":")
    if kind not in LINE_KINDS or not PurePosixPath(path).is_absolute():
        raise UsageError(f"a sync line is gpio:/PATH or uart:/PATH, got {text[:200]!r}")
    return text
