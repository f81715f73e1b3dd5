"""Reserved names, and names of paired devices; this module avoids slow imports."""

from __future__ import annotations

from collections.abc import Iterable

DEVICES_FILE = "devices.json"
LOCAL_NAME = "local"
"""The name of this machine; no other device may have it."""
EMULATED = "qemu:"
"""Prefix of the names of emulated boards. An emulated board runs on this machine, unless the name
of an agent precedes the prefix."""
SEAT_MARK = "/"
"""Separator between the name of an agent and the name of its seat (one of its devices)."""


def is_on_this_machine(word: str) -> bool:
    """Whether a word that selects a device names this machine, or an emulated board on it.

    >>> is_on_this_machine("local"), is_on_this_machine("qemu:mps2-an386")
    (True, True)
    >>> is_on_this_machine("pi5/qemu:mps2-an386")
    False
    """
    return word.startswith((LOCAL_NAME, EMULATED))


def address_of(seat: str, selections: Iterable[str]) -> str | None:
    """Find the name in the values of `--on` that selects a seat or device; None if no name does.

    >>> address_of("nucleo", ["pi4,pi5/nucleo"]), address_of("nucleo", ["all"])
    ('pi5/nucleo', None)
    """
    names = (name for selection in selections for name in selection.split(","))
    return next((name for name in names if name.rpartition(SEAT_MARK)[2] == seat), None)


def device_names() -> list[str]:
    """Names of the paired devices; empty if the list cannot be read."""
    import json  # imported here, so that the first line on the screen does not wait
    import os
    from contextlib import suppress
    from pathlib import Path

    from edgebench.system.paths import user_paths

    path = Path(user_paths(os.environ).host_config) / DEVICES_FILE
    with suppress(OSError, ValueError, TypeError, KeyError):
        return [str(load["name"]) for load in json.loads(path.read_bytes())]
    return []
