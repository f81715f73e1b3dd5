"""Keys of run.json that cannot be names in Python, as `class` and `import`."""

from __future__ import annotations

from collections.abc import Mapping

_KEY = "key"


def key(name: str) -> dict[str, str]:
    """Metadata of a dataclass field whose key in a document is another word."""
    return {_KEY: name}


def key_of(metadata: Mapping[str, str], name: str) -> str:
    """The key under which a field is stored."""
    return metadata.get(_KEY, name)
