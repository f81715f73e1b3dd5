"""Keys of run.json that are reserved words in Python, such as `class` and `import`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

_KEY = "key"


def key(name: str) -> dict[str, str]:
    """Metadata of a dataclass field whose key in run.json differs from the field's name."""
    return {_KEY: name}


def key_of(metadata: Mapping[str, str], name: str) -> str:
    """The document key of a field."""
    return metadata.get(_KEY, name)


@cache
def attributes_of(kind: type[Any]) -> Mapping[str, str] | None:
    """Map document keys to field names of a dataclass; None for other types."""
    if not is_dataclass(kind):
        return None
    return {key_of(field.metadata, field.name): field.name for field in fields(kind)}
