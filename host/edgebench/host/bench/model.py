"""A model file on the host."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgebench.protocol.digests import sha256_of
from edgebench.protocol.errors import UsageError
from edgebench.protocol.text import printable


@dataclass(frozen=True, slots=True)
class Model:
    """A model file on the host."""

    path: Path
    name: str
    sha256: str
    size_bytes: int

    @property
    def format(self) -> str:
        """File suffix without its dot: tflite or onnx."""
        return self.path.suffix.lower().lstrip(".")


def open_model(path: Path, name: str | None = None) -> Model:
    """Look at a model file.

    Raises:
        UsageError: there is no such file, or it cannot be read.
    """
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"model is not a file: {path}")
        with path.open("rb") as file:
            digest, size_bytes = sha256_of(file).hexdigest(), path.stat().st_size
    except OSError as exc:
        raise UsageError(f"model not readable: {exc.strerror}: {path}") from exc
    return Model(path, name or printable(path.name), digest, size_bytes)
