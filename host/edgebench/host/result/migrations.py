"""Older documents, brought into the shape of this version."""

from __future__ import annotations

from typing import Any


def migrated(document: dict[str, Any], version: int) -> dict[str, Any]:
    """A document of any older version as one of this version; it is changed in place."""
    return document


def migrated_facts(plain: Any) -> Any:
    """What the host knew of a run, with what was asked of its meter in one place.

    Until version 6 those were fields of their own.
    """
    if not isinstance(plain, dict) or "energy" in plain or plain.get("meter") is None:
        return plain
    names = ("meter", "sync", "battery_capacity_j")
    return plain | {"energy": {name: plain.get(name) for name in names}}
