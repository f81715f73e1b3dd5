"""Entry points of other portions and packages, if they are installed."""

from __future__ import annotations

from typing import Any


def first_installed(group: str) -> Any | None:
    """Object that the first entry point of a group creates; None if the group has no entry point.

    Args:
        group: Name of a group whose entry points are callables without arguments.
    """
    # Imported here: it is slow, and most commands do not need it.
    from importlib.metadata import entry_points

    return next((point.load()() for point in entry_points(group=group)), None)
