"""The meters that there are, by the name that `--meter` takes: NAME or NAME:ADDRESS."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from edgebench.meters.base import Meter
from edgebench.meters.rapl import Rapl
from edgebench.protocol.errors import UsageError


def _rapl(address: str) -> Meter:
    return Rapl(Path(address or "/"))


DRIVERS: dict[str, Callable[[str], Meter]] = {"rapl": _rapl}
"""How to build each driver from its address."""


def find_meter(text: str) -> Meter:
    """The meter that this text names; it is not opened yet.

    Raises:
        UsageError: no driver has that name.
    """
    name, _, address = text.partition(":")
    if name not in DRIVERS:
        raise UsageError(f"unknown meter {name!r}: there are {', '.join(DRIVERS)}")
    return DRIVERS[name](address)
