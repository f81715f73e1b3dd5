"""Keys of run.json that are reserved words in Python, such as `class` and `import`."""

from __future__ import annotations

from collections.abc import Mapping

_KEY = "key"


def key(name: str) -> dict[str, str]:
    """Metadata of a dataclass field whose document key differs from its name."""
    return {_KEY: name}


def key_of(metadata: Mapping[str, str], name: str) -> str:
    """The document key of a field."""
    return metadata.get(_KEY, name)
