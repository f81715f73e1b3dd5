"""Older documents, brought into the shape of this version."""

from __future__ import annotations

from typing import Any


def migrated(document: dict[str, Any], version: int) -> dict[str, Any]:
    """A document of any older version as one of this version; it is changed in place."""
    return document
