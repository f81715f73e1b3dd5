"""Lookup of optional implementations, which other packages register as entry points."""

from __future__ import annotations

from typing import Any


def first_installed(group: str) -> Any | None:
    """Create the object of a group's first entry point; None if the group has no entry point.

    Args:
        group: Name of a group whose entry points are callables without arguments.
    """
    # Imported here: it is slow, and most commands do not need it.
    from importlib.metadata import entry_points

    return next((point.load()() for point in entry_points(group=group)), None)
