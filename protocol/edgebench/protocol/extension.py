"""What another portion or package offers under a group of entry points, if it is installed."""

from __future__ import annotations

from typing import Any


def first_installed(group: str) -> Any | None:
    """What the first entry point of a group makes; None: nobody offers anything there.

    Args:
        group: Name of the group, whose entry points are functions or classes without arguments.
    """
    # Imported here: it takes time, and most commands need none of it.
    from importlib.metadata import entry_points

    return next((point.load()() for point in entry_points(group=group)), None)
