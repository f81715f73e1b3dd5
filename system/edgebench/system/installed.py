"""Versions of installed distributions."""

from __future__ import annotations


def installed_version(distribution: str) -> str | None:
    """Version of a distribution; None if it is not installed.

    >>> installed_version("edgebench-without-such-a-name") is None
    True
    """
    # Imported here: it loads the modules for mail, CSV and ZIP files.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
