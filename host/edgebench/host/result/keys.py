"""Keys of run.json that cannot be names in Python, as `class` and `import`."""

from __future__ import annotations

_KEY = "key"


def key(name: str) -> dict[str, str]:
    """Metadata of a dataclass field whose key in a document is another word."""
    return {_KEY: name}


def key_of(metadata: object, name: str) -> str:
    """The key under which a field is stored."""
    return str(metadata.get(_KEY, name)) if hasattr(metadata, "get") else name
